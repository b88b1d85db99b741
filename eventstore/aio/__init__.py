"""The store for asyncio: a facade over the synchronous store, and no logic of its own."""
