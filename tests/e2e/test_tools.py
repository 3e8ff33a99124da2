"""Tools that are awkward to carry: names that only the client's vendor takes, and arguments of many bytes."""

from pathlib import Path

import pytest

from tests.e2e.clients.client import CLIENT_KEY, Client
from tests.e2e.clients.python_apps import PYTHON_APPS
from tests.e2e.complaints import complaints
from tests.e2e.stage import Stage
from tests.e2e.tour import LAST_WORDS, visit
from tests.e2e.upstream.script import Turn, Use
from tests.e2e.upstream.voices.registry import DIALECTS

LONG = "mcp__a_server_whose_name_is_long__and_whose_tools_have_names_that_go_on_and_on_and_on_"
DOTTED = "mcp_a.server:with-dots.and.a.name.that.is.longer.than.what.most.of.the.others.take."
ANTHROPIC_APP, _, _, GEMINI_APP = PYTHON_APPS


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("client", "prefix"), [(ANTHROPIC_APP, LONG), (GEMINI_APP, DOTTED)], ids=["long", "dotted"]
)
@pytest.mark.rule("R21", "H15", "P32")
def test_names_that_only_the_clients_vendor_takes_come_back_as_they_were(
    client: Client, prefix: str, dialect: str, stage: Stage, tmp_path: Path
) -> None:
    gateway = stage.gateway_to(dialect)
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home", tool_prefix=prefix)
    assert complaints(tour, dialect) == [], gateway.tail()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", PYTHON_APPS, ids=lambda client: client.name)
def test_a_long_argument_of_many_alphabets_arrives_byte_by_byte(
    client: Client, dialect: str, stage: Stage, tmp_path: Path
) -> None:
    text = 'Grüße, 世界, שלום, 🎉\\n "quoted" \\\\ ' * 1000
    command = f"cat > trail.txt <<'END'\n{text}\nEND"
    steps = (Turn(uses=(Use("run", command),)), Turn(text=LAST_WORDS))
    gateway = stage.gateway_to(dialect)
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=steps)
    assert tour.outcome.exit == 0, tour.outcome.output
    assert tour.conversation.refusals == []
    assert (tour.project / "trail.txt").read_text(encoding="utf-8") == f"{text}\n"
