"""The domain: what a call is and what may happen to it. Values and rules only; it is pure."""
