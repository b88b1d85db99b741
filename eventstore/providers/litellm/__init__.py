"""litellm: Chat Completions with members of its own."""
