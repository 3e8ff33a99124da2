"""Tools that the gateway runs itself: the model calls them, and the client sees one continuous reply.

A `GatewayTool` decides for each request whether it applies, adds functions to the request, and runs their
calls. The pipeline withholds those calls from the client (`hub.rounds`), the exchange runs them, and the
conversation goes on upstream with the results.

Modules without I/O:

- `tool`: the interface `GatewayTool` and its values. Third parties implement it.
- `target_tools`: `TargetTools`, for one request to one target: what is added, and which calls are theirs.
- `stages`: the stages of a reply: `GatewayCallStage` withholds calls, `CitationStage` adds citations.
- `memory`: `ToolMemory` keeps what the client did not see, so that the next request can contain it again.

The tools: `image`; `web_search` with `search_engines`, and `web_fetch` with `page_text`, both on `web_client`
and `hosted`; `mcp` with `mcp_servers`. `toolbox` builds them, and those of other packages.

State: a `Toolbox` belongs to a configuration and holds its tools. A `TargetTools` belongs to one request to
one target. `ToolMemory` belongs to the gateway, is bounded, and is lost at its end; a conversation without
it is still legal.

Call order for one target: `Toolbox.build_target_tools`, `TargetTools.apply`, `build_stages` for each round,
`run` between two rounds, `remember` at the end.
"""
