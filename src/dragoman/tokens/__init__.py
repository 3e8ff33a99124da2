"""Token counts without the vendors' tokenizers: an estimate from the kinds of characters in a text.

Used for the counting endpoints and for limits, before an upstream reports the true number. Everything is pure
and keeps no state. docs/token-counts.md has the method and its errors.

- `text`: the cost table of each tokenizer, and `estimate_text_tokens`.
- `tokenizers`: which models use which tokenizer, and the tokens that it adds for messages, tools and media.
- `request`: `estimate_tokens` and `estimate_from_samples` for a whole request; `read_count_request` reads the
  body of a counting endpoint. How a dialect writes the answer is in its `http_api.py` (`Dialect.counting`).
- `lower_bound`: a count that is never too high, for decisions that must not be wrong.
"""
