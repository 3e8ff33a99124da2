"""Translates between the APIs that coding agents speak and the APIs that model providers speak."""

__version__ = "0.1.0"
