"""Records of exchanges: what the client sent, what went upstream, what came back, and what the client got.

`Recorder` (recorder) implements the exchange's port `ExchangeRecorder`. For each exchange that is recorded it
gives a tap (taps), which keeps references. When the reply is complete, the recorder's thread (turn_writer)
builds the row of the turn (turns) in its stored form (stored_turn), and writes it in one transaction of a
file of its own (store). Contents (contents) are reduced to what is new in a request (segments) and to the
compact form of a stream (compact), redacted (redaction), and written as blocks (blocks), to which the turn
refers (block_refs). A session stores each block once. A turn without contents goes to the journal of the
process first (journal), and to the file together with others.

Everything else reads the file:

- `reading`: sessions, turns and contents, as the admin API and the commands show them.
- `sessions`: recognises sessions and projects. `filters`: the language of filters.
- `differences`, `changes`: two JSON values compared by path. `stream_events`: a recorded stream as events.
- `prompts`, `cache`: where prompts differ, and why a prompt cache missed. `preview`: tries prompt rules.
- `losses`: the losses of a session in groups, and what can be done. `context`: what fills the context window.
- `replay`: matches new requests with recorded turns. `comparison`: two sessions, turn by turn.
- `archive`: a session as one file.

State: the recorder owns the queue and the thread; the thread owns the connection and what it remembers of the
blocks in the file. Readers open connections of their own.
"""
