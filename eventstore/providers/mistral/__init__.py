"""Mistral: its adapter and its rules."""
