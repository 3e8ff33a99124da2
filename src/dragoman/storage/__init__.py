"""What outlives the process: one SQLite file, written by one thread."""
