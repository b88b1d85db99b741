"""What all SQL backends share: statements, rows, connections, reading and writing."""
