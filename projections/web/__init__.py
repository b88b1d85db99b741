"""The web page over a whole store: conversations, errors, approvals and the newest events, live."""
