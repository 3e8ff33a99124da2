"""An upstream on loopback that has the fault which the model's name names, in any dialect.

The model's name is `FAULT.N`. The number makes each exchange a model of its own, so that no earlier failure
of the model is remembered.
"""

import asyncio
import ssl
from collections import Counter
from contextlib import suppress

import msgspec

from tests.faults.actions import Action, Drip, Reset, Send, Silence
from tests.faults.table import FAULTS
from tests.loopback import LoopbackServer

#: Seconds between two pieces of a reply that drips.
PAUSE = 0.002


class FaultyUpstream(LoopbackServer):
    """Serves all dialects. `requests` counts by model, `left` names the models whose client has left."""

    def __init__(self, dialect: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.requests: Counter[str] = Counter()
        self.left: set[str] = set()
        #: The heads of all requests, in lower case.
        self.heads: list[str] = []
        self.open = 0
        self._dialect = dialect

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
                await self._answer(reader, writer)
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        self.heads.append(head)
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        body = msgspec.json.decode(await reader.readexactly(length))
        model = body.get("model") or head.partition("/models/")[2].partition(":")[0]
        self.requests[model] += 1
        is_stream = bool(body.get("stream")) or "streamgeneratecontent" in head
        fault = FAULTS[model.rpartition(".")[0]]
        for action in fault.answer(self._dialect, is_stream):
            if not await self._act(action, model, reader, writer):
                return

    async def _act(
        self, action: Action, model: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        match action:
            case Send(data):
                writer.write(data)
                await writer.drain()
            case Drip(data, size):
                for start in range(0, len(data), size):
                    writer.write(data[start : start + size])
                    await writer.drain()
                    await asyncio.sleep(PAUSE)
            case Silence():
                # Ends when the gateway hangs up.
                with suppress(OSError):
                    await reader.read()
                self.left.add(model)
                return False
            case Reset():
                writer.transport.abort()
                return False
        return True
