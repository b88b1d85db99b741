"""Model responses in a loop of one's own: streams that are recorded, and a budget for usage."""
