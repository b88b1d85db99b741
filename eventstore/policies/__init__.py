"""Policies: decisions about retries, the end of a run, and which tools the model may see."""
