"""Leases: which worker an attempt belongs to, how its lease is renewed, and whether it is over."""
