"""OpenAI Responses: its adapter and its rules."""
