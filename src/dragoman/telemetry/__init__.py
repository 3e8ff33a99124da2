"""What an operator can see: logs now."""
