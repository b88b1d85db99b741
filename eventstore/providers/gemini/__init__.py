"""Gemini: its adapter and its rules."""
