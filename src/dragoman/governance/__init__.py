"""Tool governance: every tool call that leaves is whole, parseable, declared and allowed, as far as one asks.

Steps on hub events and plain functions; nothing here is in force unless it is configured.
"""
