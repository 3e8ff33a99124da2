"""The guard: rules that decide which tool calls of a model reach the client."""
