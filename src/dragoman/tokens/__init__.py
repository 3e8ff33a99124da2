"""Counting tokens without the vendors' tables: an estimate from what kinds of characters meet in a text."""
