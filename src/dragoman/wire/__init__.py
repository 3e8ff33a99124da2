"""Bytes and JSON on the wire, before a dialect gives them meaning: frames, untrusted JSON, incomplete JSON.

All readers accept input that is cut anywhere, need time linear in its length, and are bounded in memory. Each
reader object owns the state of one stream or one text. Errors are of the tree in `hub.errors`.

- `sse`: `SseReader` cuts server-sent events into `Frame`s; `write_frame` writes one.
- `json_array`: `JsonArrayReader` does the same for a JSON array, Gemini's other stream format.
- `fields`: `decode` and `encode` within limits; `Fields` takes the fields out of an untrusted object.
- `json_values`: `has_too_many_values` counts the values of a text before it is decoded.
- `json_grammar`: the grammar of JSON as tables, for `partial_json`.
- `partial_json`: `JsonPrefix` follows JSON that still arrives; `StringMember` decodes one string of it.
"""
