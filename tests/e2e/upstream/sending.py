"""Sends one reply: as a vendor would, or going wrong in the scripted way."""

import asyncio

import msgspec
from aiohttp import web

from tests.e2e.upstream.conversation import Received
from tests.e2e.upstream.reply_writers.pieces import Json, Reply
from tests.e2e.upstream.reply_writers.registry import Vendor
from tests.e2e.upstream.script import Fault, Manner

HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
POLL = 0.02


class Sender:
    def __init__(
        self, request: web.Request, received: Received, vendor: Vendor, manner: Manner, *, streams: bool
    ) -> None:
        self._request = request
        self._received = received
        self._vendor = vendor
        self._manner = manner
        self._streams = streams

    async def send(self, reply: Reply, fault: Fault | None) -> web.StreamResponse:
        body = self._vendor.whole(reply)
        if fault is not None and fault.kind in ("status", "html", "json", "empty", "refused"):
            return self._instead(body, fault)
        if not self._streams:
            try:
                return await self._whole(body, fault)
            except ConnectionError:
                self._received.left = True
                return web.Response()
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        try:
            await response.prepare(self._request)
            await self._stream(response, body, reply.request, fault)
        except ConnectionError:
            self._received.left = True
        return response

    def _instead(self, body: Json, fault: Fault) -> web.Response:
        match fault.kind:
            case "status":
                error = msgspec.json.encode(self._vendor.error(fault.status, fault.message))
                headers = dict(fault.headers) | {"content-type": "application/json"}
                return web.Response(status=fault.status, body=error, headers=headers)
            case "html":
                return web.Response(body=HTML, content_type="text/html")
            case "json":
                return web.json_response(body)
            case "empty":
                return web.Response(body=b"", content_type="text/event-stream")
        self._abort()
        return web.Response()

    def _abort(self) -> None:
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    async def _whole(self, body: Json, fault: Fault | None) -> web.Response:
        if fault is not None and fault.kind == "silence":
            await self._silence(fault.seconds)
        elif fault is not None:
            self._abort()
        return web.json_response(body)

    async def _stream(
        self, response: web.StreamResponse, body: Json, request: Json, fault: Fault | None
    ) -> None:
        frames = list(self._vendor.frames(body, request))
        if self._manner.interleaved and self._vendor.interleaved is not None:
            frames = self._vendor.interleaved(frames)
        sound = self._sound(frames, fault)
        await self._write(response, [self._vendor.framed(frame) for frame in frames[:sound]])
        if fault is not None:
            await self._go_wrong(response, frames, sound, fault)
        if fault is None or fault.kind == "silence":
            rest = [self._vendor.framed(frame) for frame in frames[sound:]]
            await self._write(response, [*rest, self._vendor.last_line])
        if fault is None or fault.kind != "reset":
            await response.write_eof()

    def _sound(self, frames: list[Json], fault: Fault | None) -> int:
        """How many frames are played before the fault."""
        if fault is None:
            return len(frames)
        kinds = [self._vendor.kind(frame) for frame in frames]
        match fault.place:
            case "start":
                return 0
            case "opened":
                return sum(1 for kind in kinds if kind == "open")
            case "reasoning":
                return kinds.index("text") if "text" in kinds else kinds.index("call")
            case "end":
                return kinds.index("end")
        return kinds.index(fault.place) + 1

    async def _go_wrong(
        self, response: web.StreamResponse, frames: list[Json], sound: int, fault: Fault
    ) -> None:
        # A pause, so that what was written so far arrives by itself.
        await asyncio.sleep(POLL)
        match fault.kind:
            case "error":
                for frame in self._vendor.broken(fault.message, frames[:sound]):
                    await response.write(self._vendor.framed(frame))
            case "silence":
                await self._silence(fault.seconds)
            case "reset":
                # In the middle of a frame.
                await response.write(self._vendor.framed(frames[sound])[:40])
                await asyncio.sleep(POLL)
                self._abort()

    async def _silence(self, seconds: float) -> None:
        """Wait, and raise if the client has disconnected."""
        for _ in range(int(seconds / POLL)):
            await asyncio.sleep(POLL)
            transport = self._request.transport
            if transport is None or transport.is_closing():
                raise ConnectionResetError("nobody waits for the reply any more")

    async def _write(self, response: web.StreamResponse, pieces: list[bytes]) -> None:
        manner = self._manner
        if manner.comments:
            pieces = [piece for frame in pieces for piece in (b": keep-alive\n\n", frame)]
        if manner.crlf:
            pieces = [piece.replace(b"\n", b"\r\n") for piece in pieces]
        if manner.drip:
            whole = b"".join(pieces)
            pieces = [whole[at : at + manner.drip] for at in range(0, len(whole), manner.drip)]
        for piece in pieces:
            if piece:
                await response.write(piece)
