"""What has happened to sessions since the gateway began, in plain numbers for whoever shows them."""

import msgspec


class Counters(msgspec.Struct, kw_only=True):
    spawned: int = 0
    continued: int = 0
    replayed: int = 0
    evicted: int = 0
    expired: int = 0
    timed_out: int = 0
    denied: int = 0
    crashed: int = 0
    interrupted: int = 0
    orphans: int = 0
