"""Pings: bytes that keep a client's stream open while the upstream sends nothing.

The class of each dialect's stream writer chooses its `ping`. `exchange.watchdog` decides when one is sent,
after the interval `server.ping` of the configuration.
"""

#: Before the first event of a reply, in all dialects that have a ping: no event may come first.
WAITING_PING = b": waiting\n\n"
#: A comment, for both OpenAI APIs. They have no event that clients ignore.
COMMENT_PING = b": keep-alive\n\n"
ANTHROPIC_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
#: Clients of Gemini accept nothing but data.
NO_PING = b""
