"""Debugging: why a run failed, and the log as material for tests."""
