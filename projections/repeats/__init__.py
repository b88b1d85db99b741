"""Repeats: calls made again with the same arguments, and cycles of calls."""
