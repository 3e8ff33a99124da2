"""An answer of the gateway's own: a text in the client's dialect, streamed or whole, without an upstream."""

from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import Text
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.ids import IdSource
from dragoman.hub.tally import Tally
from dragoman.hub.usage import Usage
from dragoman.pipeline.bodies import read_object
from dragoman.pipeline.plan import RequestPlan
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame


class OwnAnswer:
    """The frames of the answer, and its tally. It uses no tokens. Raises if the request cannot be read."""

    def __init__(self, plan: RequestPlan, text: str) -> None:
        self._dialect = plan.dialect
        self.tally = Tally()
        self.frames: list[Frame] = []
        ids = IdSource(plan.metadata.request_id)
        writer = plan.dialect.stream_writer(
            ClientContext(
                request=plan.request,
                body=read_object(plan.body) if plan.dialect.echoes_request else {},
                model=plan.model,
                ids=ids.branch("client"),
                created=plan.created,
                reply_members=plan.metadata.reply_members,
            )
        )
        reply = Reply(
            started=ReplyStarted(model=plan.model, created=plan.created),
            blocks=(Text(text=text),),
            usage=Usage(input=0, output=0),
            ending=ReplyFinished(cause="end"),
        )
        for event in unfold(reply):
            self.tally.add(event)
            self.frames.extend(writer.write(event))

    def build_body(self) -> bytes:
        """The whole reply with the same content."""
        return encode(self._dialect.collect(self.frames))
