"""The state of the Responses API: stored, continued and background responses, WebSockets, compaction.

Upstreams see nothing of it, whichever dialect they use. They get the whole conversation and answer one turn.
The gateway decides a response's id, `store`, `previous_response_id` and `background` before the request
leaves. The reply's writer is given these facts, so nothing is replaced afterwards.

Call order
----------
1. `ResponsesService.build_turn` decodes the body into members, once. A request that uses no state becomes a
   plain `RequestPlan`. Any other becomes a `ResponseTurn`: its plan contains the whole conversation, and its
   `ResponseFacts` are in the plan's `RequestMetadata`.
2. `ResponsesService.build_client` wraps the client in a `StoringClient`. An `Exchange` runs with the plan and
   this client.
3. The `ResponseCollector` takes the finished response from the frames. The client stores it, and then sends
   the last event. So a client that has the end of a response can always retrieve it.

A background turn goes to `BackgroundRuns.start` instead, and its exchange sends to a `RunClient`. A
`SocketSession` does the same steps for each message of a WebSocket.

State
-----
- `ResponseStore` owns the rows in the state.
- `BackgroundRuns` owns the runs of this process. The store knows them too, in case the process dies.
- `SocketSession` owns the `ConversationMemory` of one connection.
- Turns, facts, members and stored responses are values. A turn belongs to one request.

Modules
-------
- `turn`: the state fields of a request, and the turn that is built from it.
- `members`: the JSON members of a response object, and those that the gateway decides (`ResponseFacts`).
- `stored_response`: what is stored (`StoredResponse`, filled by `build_stored`), and the errors about it.
- `store`: `ResponseStore`, the stored responses and their limits. `tables`: the tables and statements.
- `collector`: `ResponseCollector` takes the response from the frames of a reply; `StoringClient` has it
  stored.
- `background`: runs without a client. `websocket`: requests over one connection.
- `compaction`: summaries in place of conversations. `input_items`: the list of a response's input.
  `tool_outputs`: a response that continues with the outputs of its calls.
- `service`: `ResponsesService`, which the server uses.
"""
