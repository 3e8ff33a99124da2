"""What travels between machines, before any dialect gives it meaning: frames, fields, half-arrived JSON."""
