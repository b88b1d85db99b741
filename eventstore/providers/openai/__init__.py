"""OpenAI Chat Completions: its adapter and its rules."""
