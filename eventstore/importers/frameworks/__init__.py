"""Messages and saved states of frameworks."""
