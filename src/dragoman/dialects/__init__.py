"""The APIs that clients and upstreams use, one package each. No dialect imports another.

- `dialect`: `Dialect`, assembled from the modules of a package, and the functions that each module has.
- `interfaces`: the values that readers and writers receive.
- `registry`: all dialects by name. A new dialect is one package and one line here.
- `frames`: `FrameReader`, the base class of stream readers.
- `http_api`: paths, headers and model lists; how an upstream of the dialect is called.
- `forwarding`: how a stream passes from an upstream to a client of the same dialect without being rewritten,
  with `forwarded_ending` for streams that fail, `reply_patch` for values that change.
- `event_template`: the bytes of events that differ in one text; `delta_template`: how stream readers learn
  them.
- `pings`: the bytes that keep a stream open. `rate_limits`: rate-limit headers and their translation.
- `errors`: reads the errors of upstreams, by tables of each dialect. `request_rules`: what vendors refuse.
- `openai_errors`, `openai_rate_limits`, `openai_logprobs`: what both OpenAI APIs share.
- `stream_check_toolkit`: the toolkit of the stream checkers. `search_options`: options of hosted web search.

Every dialect package has the modules `request_reader`, `request_writer`, `stream_reader`, `stream_writer`,
`reply`, `errors`, `stream_check`, `http_api`, `forwarding`. The same part of an API has the same module
in each of them: `content_reader`, `content_writer`, `generation`, `tools`, `media`, `citations`, `reasoning`,
`hosted` (tools that the server runs), `stop_reasons`, `usage`, `stream_blocks` (what open blocks remember),
`names`. Its `__init__` describes the modules and defines `DIALECT`.
"""
