"""The HTTP surface: every agent's native API on one port, as a plain ASGI application."""
