"""Anthropic Messages: its adapter and its rules."""
