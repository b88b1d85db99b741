"""Subjects: the persons that events are about, and that may ask to be forgotten."""
