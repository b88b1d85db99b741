"""Subjects: the persons that events are about, who may ask to be forgotten."""
