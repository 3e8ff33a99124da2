"""The HTTP/1.1 client for providers.

Modules:

- `upstream`: `HttpUpstream`, one provider: request heads, timeouts, retry on a stale connection, names of
  failures; `DecompressedReply` for bodies that arrive compressed.
- `connection`: `HttpConnection` and `HttpReply`, one connection and one reply on it.
- `connector`: `Connector` opens connections (addresses, proxies, TLS); `ConnectionPool` keeps idle ones.

State: `HttpUpstream` owns one `Connector` and one `ConnectionPool`. A connection carries one request at a
time. While it does, connection and reply refer to each other; after the last byte of the body the connection
goes back to the pool and the reply keeps the bytes that are not read yet.

Call order on a connection: `send` → `HttpReply.wait_for_head` → `pieces` or `push_to` → `close`.

The client is our own because the client is the largest cost of a gateway that forwards events: see
docs/decisions/0004.
"""
