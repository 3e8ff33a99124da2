"""The interface of a transformation step."""

from abc import ABC
from collections.abc import Mapping

from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import TargetFacts


class TransformStep(ABC):  # noqa: B024 (a step may change requests, replies or both)
    """A change of requests, of replies, or of both. One object serves all requests. All methods are pure.

    `settings` is the table `settings` of `[steps.NAME]`. Raise `ValueError` if it is wrong.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:  # noqa: B027 (most steps have no settings)
        """Read the settings."""

    def change_request(self, request: Request, target: TargetFacts) -> Request:
        """The changed request; the same object if nothing changes. Called once for each target."""
        return request

    def build_stage(self, request: Request, target: TargetFacts) -> Stage | None:
        """The stage that changes a reply to this request; None if it stays as it is.

        A step with this method makes the gateway read every reply. Called for each round of a reply.
        """
        return None
