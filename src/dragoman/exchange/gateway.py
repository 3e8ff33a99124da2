"""What all exchanges share: the configuration, the upstreams, the health of targets and the heartbeat."""

import msgspec

from dragoman.config.model import Config, Provider
from dragoman.exchange.pulse import Heart
from dragoman.hub.errors import Failure
from dragoman.routing.health import Health
from dragoman.upstream.embedded import EmbeddedUpstream
from dragoman.upstream.http import HttpUpstream
from dragoman.upstream.port import Upstream
from dragoman.wire.fields import encode


class Gateway:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.health = Health()
        self.heart = Heart()
        self._upstreams: dict[str, Upstream] = {}

    def upstream(self, name: str) -> Upstream:
        """The provider's upstream, made when it is first needed."""
        found = self._upstreams.get(name)
        if found is None:
            provider = self.config.providers[name]
            found = EmbeddedUpstream() if provider.dialect == "embedded" else HttpUpstream(provider)
            self._upstreams[name] = found
        return found

    def blamed(self, failure: Failure, provider: Provider) -> Failure:
        """An upstream that refuses our key says nothing about the client's: the message tells whose it is."""
        message = failure.message
        for key in provider.keys:
            message = message.replace(key.reveal(), "…") if key else message
        if failure.kind in ("authentication", "permission", "billing"):
            message = f"provider {provider.name} refuses the gateway's key: {message}"
        return msgspec.structs.replace(failure, message=message)

    def encode(self, value: object) -> bytes:
        return encode(value)

    async def close(self) -> None:
        for upstream in self._upstreams.values():
            await upstream.close()
