"""The demo: an agent loop over small real tools, and what its log says of it afterwards."""
