"""Who we can call: facts, not behaviour."""
