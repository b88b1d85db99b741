"""Subscriptions: reading the log, and going on with what is appended later."""
