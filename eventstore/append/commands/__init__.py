"""The commands: functions that make a `Command`, by what they record; each is pure."""
