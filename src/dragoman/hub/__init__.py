"""The shared language: conversations, replies, endings, losses and errors, free of any dialect.

Nothing here imports anything else of dragoman.
"""
