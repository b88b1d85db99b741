"""Sessions of agents: a reader for the files of each program."""
