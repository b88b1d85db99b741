"""Ollama: its adapter and its rules."""
