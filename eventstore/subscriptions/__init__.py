"""Subscriptions: reading the log, and following what is appended later."""
