"""Prompt rules: changes of a client's request before it is translated for a target.

- `rules`: compiles `[[prompts]]` of the configuration and applies them to a request. Pure.

What a rule makes of a text depends on that text alone, and its conditions on what stays the same in a
conversation. So a conversation that only grows keeps the beginning of its prompt, and caches still work.
"""
