"""The HTTP server: the native API of every agent on one port, as a plain ASGI application under uvicorn.

Call order
----------
`run.serve` binds nothing itself: it gets a listener from `run.bind`, builds the `Gateway` and the `App`, and
runs uvicorn. For each request the `App` builds an `HttpRequest`, checks the origin, finds the endpoint,
checks the client key and calls the endpoint's handler. The handler answers at once, or runs an `Exchange`
with the request's `AsgiClient`. A `DragomanError` becomes an error in the client's dialect.

State
-----
- `App` owns the gateway, the metrics and the tables of handlers, for the lifetime of the process.
- `OpenExchanges` owns the exchanges that run, and the flag that the gateway shuts down.
- `ResponsesEndpoints` owns the background runs and the open WebSockets.
- `ConfigReloader` owns the results of reloads. `ServerState` names all of these for reports.
- `HttpRequest` and `AsgiClient` belong to one request, `Connection` to one connection.

Modules
-------
- `app`: the application. `run`: starts and stops it. `reload_signal`: SIGHUP before that.
- `connection`: uvicorn's protocols with limits.
- `request`, `client`: one request and its response. `paths`: endpoints by path.
- `access`: host, origin and key checks. `models`: model lists. `model_lists`: what the providers report.
- `counting`: token counts.
- `key_usage`: the usage of the client's own key.
- `session_usage`: the usage of a session, for status lines.
- `agent_telemetry`: receives the telemetry of agents.
- `sign_in`: OAuth by device code, and its page. `managed_settings`: settings for Claude Code.
- `responses_api`: the endpoints of the Responses API.
- `overview_api`, `records_api`: endpoints of the admin API. `web_page`: serves the files of `page/`.
- `admin`, `admin_endpoint`, `admin_token`, `status`, `metrics`: for the operator. `state`: what they report.
- `reload`: the configuration is read again.
- `workers`, `siblings`: several processes behind one port, and what one of them asks the others.
- `peer_turns`: requests of other gateways with the same state. `replay`: serves a recorded session.
"""
