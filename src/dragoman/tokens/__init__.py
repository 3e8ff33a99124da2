"""Counting tokens without the vendors' tables."""
