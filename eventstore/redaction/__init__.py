"""Redaction: taking payloads, or parts of them, out of a log whose digests stay whole."""
