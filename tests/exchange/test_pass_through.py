"""Which headers of a client are its own credential for a provider."""

from typing import Any

import msgspec
import pytest

from dragoman.config.provider import Provider
from dragoman.config.settings import Secret
from dragoman.exchange.config_snapshot import ProviderHandle
from dragoman.exchange.pass_through import find_credential
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.pipeline.plan import RequestMetadata
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, Script, ScriptedUpstream, ask, provider
from tests.exchange.governing import events_of, governed, question, write_stream

HEADERS = {
    "authorization": "Bearer secret-login",
    "x-api-key": "secret-key",
    "cookie": "a=b",
    "x-goog-api-key": "g",
}


def handle(**fields: Any) -> ProviderHandle:
    made = Provider(name="p", dialect="anthropic", base_url="https://api.example", **fields)
    return ProviderHandle(made, lambda provider: ScriptedUpstream())


def find(made: ProviderHandle, headers: dict[str, str], dialect: str = "anthropic") -> dict[str, str]:
    metadata = RequestMetadata(dialect=dialect, headers=headers)
    found = find_credential(made, metadata, (Secret("gateway-key"),)).headers
    return {name: secret.reveal() for name, secret in found.items()}


@pytest.mark.rule("R120")
def test_only_the_credential_headers_of_the_api_are_relayed() -> None:
    expected = {"authorization": "Bearer secret-login", "x-api-key": "secret-key"}
    assert find(handle(auth="client"), HEADERS) == expected
    assert find(handle(), HEADERS) == {}


@pytest.mark.parametrize("value", ["gateway-key", "dgm_stored-key", "Bearer dgm_stored-key"])
def test_keys_of_the_gateway_are_no_credential(value: str) -> None:
    with pytest.raises(UpstreamFailed, match="needs the client's own credential, and the request has none"):
        find(handle(auth="client"), {"authorization": value})


def test_a_client_of_another_api_has_no_credential_for_the_provider() -> None:
    with pytest.raises(UpstreamFailed, match="this client uses another API"):
        find(handle(auth="client"), HEADERS, "openai_chat")


def test_the_credential_is_not_shown() -> None:
    found = find_credential(handle(auth="client"), RequestMetadata(dialect="anthropic", headers=HEADERS), ())
    assert "secret" not in repr(found.headers)
    assert "secret" not in found.redactor.redact("Bearer secret-login, secret-login, secret-key")
    quoted = Failure(kind="server", message="secret-key", request_id="secret-login", code="secret-key")
    assert "secret" not in str(found.redactor.redact_failure(quoted))


@pytest.mark.rule("R120")
def test_a_provider_that_quotes_the_credential_as_its_request_id_does_not_bring_it_into_the_log() -> None:
    headers = {"content-type": "text/event-stream", "request-id": "secret-login-token"}
    pieces = write_stream("anthropic", events_of("Hi."))
    scripted = ScriptedUpstream(Script(pieces=pieces, headers=headers))
    relaying = msgspec.structs.replace(provider("up", "anthropic"), auth="client")
    bench = Bench({"up": scripted}, [relaying])
    asked = ask("anthropic", headers={"authorization": "Bearer secret-login-token"})
    result = run(bench.run_exchange(asked))
    assert scripted.calls[0].credential["authorization"].reveal() == "Bearer secret-login-token"
    assert result.client.status == 200
    assert "secret-login-token" not in str(result.record.line())


@pytest.mark.rule("R120")
@pytest.mark.parametrize("secret", ["secret-login-token", "sk-ant-" + "oat01" * 20])
def test_a_credential_in_the_names_of_a_reply_does_not_reach_the_log(secret: str) -> None:
    pieces = write_stream("anthropic", events_of("Hi.", (secret, "{}"), cause="tool_calls"))
    pieces = [
        piece.replace(b'"tool_use","stop_sequence"', b'"%b","stop_sequence"' % secret.encode())
        for piece in pieces
    ]
    relaying = msgspec.structs.replace(
        governed("up", "anthropic", {"tools": "hold", "rename": True}), auth="client"
    )
    bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [relaying])
    asked = question("anthropic")
    asked.metadata = msgspec.structs.replace(asked.metadata, headers={"authorization": f"Bearer {secret}"})
    record = run(bench.run_exchange(asked)).record
    assert {line.get("tool") for line in record.governance_lines()} == {"[redacted]"}
    assert "[redacted]" in str(record.line())
    assert secret[:40] not in f"{record.line()} {list(record.governance_lines())}"
