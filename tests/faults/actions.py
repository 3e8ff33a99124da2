"""What a faulty upstream does with a connection, one action after another. Afterwards it closes it."""

import msgspec


class Send(msgspec.Struct, frozen=True):
    data: bytes


class Drip(msgspec.Struct, frozen=True):
    """Small pieces with a pause after each."""

    data: bytes
    size: int


class Silence(msgspec.Struct, frozen=True):
    """Nothing more, until the other side hangs up."""


class Reset(msgspec.Struct, frozen=True):
    """End the connection so that the other side sees a reset."""


Action = Send | Drip | Silence | Reset
