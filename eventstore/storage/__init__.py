"""Storage: the protocol that every backend keeps, the backends, and the schema."""
