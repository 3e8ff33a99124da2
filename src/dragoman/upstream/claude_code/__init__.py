"""Claude Code as an upstream. The Agent SDK is imported on the first request."""
