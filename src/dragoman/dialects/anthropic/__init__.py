"""Anthropic's Messages API, as Claude Code and Anthropic's SDKs speak it."""
