"""One module per family of models: its markers and what stands between them."""
