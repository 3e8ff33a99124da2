"""Reads a stream of the toy API."""

from dragoman.dialects.frames import FrameReader
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import ReplyFinished, ReplyStarted, StopCause
from dragoman.hub.usage import Usage
from tests.toy_dialect.errors import read_failed
from tests.toy_dialect.reply import explode

CAUSES: dict[str, StopCause] = {"done": "end", "calls": "tool_calls", "limit": "length"}


class ToyStreamReader(FrameReader):
    """`_block` is the open block: a text or a call."""

    def __init__(self, context: UpstreamContext) -> None:
        super().__init__(context)
        self._block = -1
        self._is_text = False

    def _read(self, payload: Json, event: str) -> None:
        match payload:
            case {"begin": {"id": str(reply_id), "model": str(model)}}:
                self.builder.start(ReplyStarted(id=reply_id, model=model))
            case {"text": str(text)}:
                if not self._is_text:
                    self._open(Text(text=""))
                self.builder.append(self._block, text)
            case {"call": {"id": str(call_id), "tool": str(tool)}}:
                self._open(ToolCall(id=call_id, name=tool))
            case {"input": str(text)}:
                self.builder.append(self._block, text)
            case {"end": str(end), **rest}:
                self._report(rest.get("usage"))
                self.builder.finish(ReplyFinished(cause=CAUSES.get(end, "other"), raw_cause=end))
            case {"failed": failed}:
                self.builder.fail(read_failed(failed))

    def _open(self, block: Text | ToolCall) -> None:
        self.builder.close(self._block)
        self._block = self.builder.open(block)
        self._is_text = isinstance(block, Text)

    def _report(self, usage: object) -> None:
        match usage:
            case {"in": int(count), "out": int(written)}:
                self.builder.report_usage(Usage(input=count, output=written))

    def _read_whole(self, body: Json) -> None:
        self._read_frames(explode(body))

    def _end(self) -> None:
        """A stream without `end` or `failed` was cut off, which the caller reports."""
