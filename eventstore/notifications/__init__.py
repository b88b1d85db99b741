"""Notifications: telling waiting readers that events were appended."""
