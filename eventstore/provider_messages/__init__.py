"""Messages that a provider wrote, to events: one or several in one append, a history in batches."""
