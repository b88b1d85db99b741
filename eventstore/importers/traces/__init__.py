"""Traces and logs of evaluations."""
