"""Appending: which appends commit together, and on which state each one is decided."""
