"""`dragoman keys` and `dragoman usage`: what people type, and what they and their scripts get."""

import csv
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from dragoman.accounts.statistics import UsageCounts, UsageKey, add_usage
from tests.cli.run_command import dragoman
from tests.server.keyholder import KeyHolder

STATE = Path(".local") / "state" / "dragoman" / "state.db"


def created(folder: Path, *arguments: str) -> str:
    outcome = dragoman(folder, "keys", "create", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome.out.strip()


def shown(folder: Path, name: str) -> dict[str, object]:
    value = msgspec.json.decode(dragoman(folder, "keys", "show", name, "--json").out)
    assert isinstance(value, dict)
    return value


def test_a_key_is_printed_once_and_alone_on_standard_output(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "keys", "create", "ci")
    assert re.fullmatch(r"dgm_[A-Za-z0-9]{43}\n", outcome.out)
    assert "not shown again" in outcome.err
    key = outcome.out.strip()
    for command in (("list",), ("list", "--json"), ("show", "ci"), ("show", "ci", "--json")):
        printed = dragoman(tmp_path, "keys", *command)
        assert key[:10] in printed.out
        assert key not in printed.out + printed.err
    assert stat.S_IMODE((tmp_path / STATE).stat().st_mode) == 0o600


def test_the_terms_of_a_key_are_what_was_asked_for(tmp_path: Path) -> None:
    created(
        tmp_path,
        *("ci", "--models", "claude-*", "--models", "local/*", "--expires", "2099-12-31", "--rpm", "60"),
        *("--tpm", "100k", "--tokens-per-day", "2M", "--cost-per-day", "2.50", "--cost-per-month", "$40"),
        *("--cost-per-session", "3", "--tokens-per-sub-agent", "50k"),
    )
    details = shown(tmp_path, "ci")
    assert details["models"] == ["claude-*", "local/*"]
    assert details["expires"] == datetime(2099, 12, 31, tzinfo=UTC).timestamp()
    assert details["limits"] == {
        "requests_per_minute": 60,
        "tokens_per_minute": 100_000,
        "tokens_per_day": 2_000_000,
        "tokens_per_month": None,
        "cost_per_day": 2.5,
        "cost_per_month": 40.0,
        "tokens_per_session": None,
        "cost_per_session": 3.0,
        "tokens_per_sub_agent": 50_000,
        "cost_per_sub_agent": None,
    }
    listed = dragoman(tmp_path, "keys", "list").out
    assert (
        "60 requests/minute, 100,000 tokens/minute, 2,000,000 tokens/day, $2.50/day, $40.00/month, "
        "$3.00/session, 50,000 tokens/sub-agent" in listed
    )


def test_terms_are_changed_one_at_a_time(tmp_path: Path) -> None:
    created(tmp_path, "ci", "--rpm", "5", "--models", "a", "--expires", "30d")
    assert dragoman(tmp_path, "keys", "change", "ci", "--rpm", "0", "--tpm", "7").code == 0
    details = shown(tmp_path, "ci")
    assert details["models"] == ["a"]
    assert details["expires"]
    assert msgspec.convert(details["limits"], dict[str, int | None])["requests_per_minute"] is None
    assert msgspec.convert(details["limits"], dict[str, int | None])["tokens_per_minute"] == 7
    dragoman(tmp_path, "keys", "change", "ci", "--expires", "0d", "--models", "*")
    details = shown(tmp_path, "ci")
    assert (details["expires"], details["models"]) == (None, ["*"])


def test_a_rotated_key_is_another_one_under_the_same_name(tmp_path: Path) -> None:
    first = created(tmp_path, "ci")
    identity = shown(tmp_path, "ci")["id"]
    outcome = dragoman(tmp_path, "keys", "rotate", "ci", "--keep-old", "1h")
    assert outcome.out.startswith("dgm_")
    assert outcome.out.strip() != first
    assert "the old key is valid until" in outcome.err
    assert shown(tmp_path, "ci")["id"] == identity
    rotated = msgspec.json.decode(dragoman(tmp_path, "keys", "rotate", "ci", "--json").out)
    assert rotated["key"].startswith("dgm_")


def test_a_revoked_key_stays_in_the_list_until_it_is_deleted(tmp_path: Path) -> None:
    created(tmp_path, "ci")
    assert dragoman(tmp_path, "keys", "revoke", "ci").code == 0
    assert shown(tmp_path, "ci")["state"] == "revoked"
    assert "already" in dragoman(tmp_path, "keys", "create", "ci").err
    assert dragoman(tmp_path, "keys", "revoke", "ci", "--delete").code == 0
    assert "there are no keys" in dragoman(tmp_path, "keys", "list").err
    created(tmp_path, "ci")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("create", "two words"), "expected a name"),
        (("create", "a\nb"), "expected a name"),
        (("create", "ci", "--expires", "2020-01-01"), "2020-01-01 00:00 UTC is in the past"),
        (("create", "ci", "--expires", "soon"), "expected a date such as"),
        (("create", "ci", "--cost-per-day", "a lot"), "expected dollars such as"),
        (("create", "ci", "--rpm", "-1"), "expected a number such as"),
        (("rotate", "ci", "--keep-old", "1 hour"), "such as 12h"),
        (("show", "nobody"), "there is no key named 'nobody'"),
        (("revoke", "nobody"), "there is no key named 'nobody'"),
    ],
)
def test_what_cannot_be_is_reported_with_the_way_out(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    outcome = dragoman(tmp_path, "keys", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert "Traceback" not in outcome.err


def test_keys_are_kept_where_the_configuration_states(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text('[server]\nstate = "kept"\n', "utf-8")
    created(tmp_path, "ci")
    assert (tmp_path / "kept" / "state.db").is_file()
    assert not (tmp_path / STATE).exists()


def test_a_gateway_for_strangers_is_fine_with_stored_keys(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text('[server]\nhost = "192.0.2.1"\n', "utf-8")
    assert dragoman(tmp_path, "config", "check").code == 2
    created(tmp_path, "ci")
    assert dragoman(tmp_path, "config", "check").code == 0


def test_an_agent_that_would_have_no_key_is_not_sent_to_a_gateway_that_asks_for_one(tmp_path: Path) -> None:
    assert dragoman(tmp_path, "env", "claude").code == 0
    key = created(tmp_path, "ci")
    outcome = dragoman(tmp_path, "env", "claude")
    assert outcome.code == 2
    assert "the gateway requires a client key" in outcome.err
    assert "--key KEY" in outcome.err
    assert key in dragoman(tmp_path, "env", "claude", DRAGOMAN_KEY=key).out


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder in whose state file something was used, today and long ago."""
    (tmp_path / STATE).parent.mkdir(parents=True)
    holder = KeyHolder(tmp_path / STATE)
    now = int(datetime.now(UTC).timestamp())
    counted = {
        UsageKey(now, "config-1", "openai", "gpt"): UsageCounts(
            requests=3, input=1_000, output=50, cost=1_500_000
        ),
        UsageKey(now, "", "local", "=HYPERLINK(1)"): UsageCounts(requests=1, failures=1),
        UsageKey(86_400, "", "local", "old"): UsageCounts(requests=7, refused=2),
    }
    holder.do(lambda transaction: add_usage(transaction, counted))
    return tmp_path


def test_usage_is_a_table_with_a_total(used: Path) -> None:
    lines = dragoman(used, "usage").out.splitlines()
    assert [re.split(r" {2,}", line) for line in lines] == [
        ["KEY", "REQUESTS", "FAILED", "REFUSED", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST"],
        ["(no key)", "8", "1", "2", "0", "0", "0", "0", "$0.00"],
        ["server.keys 1", "3", "0", "0", "1,000", "0", "50", "0", "$1.50"],
        ["total", "11", "1", "2", "1,000", "0", "50", "0", "$1.50"],
    ]


def test_usage_can_be_cut_off_at_a_date_and_summed_up_by_several(used: Path) -> None:
    counts = msgspec.json.decode(
        dragoman(used, "usage", "--by", "provider", "--by", "model", "--since", "1d", "--json").out
    )
    assert [(each["provider"], each["model"], each["requests"], each["cost_usd"]) for each in counts] == [
        ("local", "=HYPERLINK(1)", 1, 0.0),
        ("openai", "gpt", 3, 1.5),
    ]
    days = dragoman(used, "usage", "--by", "day").out
    assert "1970-01-02" in days


def test_usage_shows_no_name_that_could_move_the_cursor_or_the_table(used: Path) -> None:
    holder = KeyHolder(used / STATE)
    name = "\x1b[2J\nx" + "y" * 150
    counted = {UsageKey(int(datetime.now(UTC).timestamp()), "", "local", name): UsageCounts(requests=1)}
    holder.do(lambda transaction: add_usage(transaction, counted))
    lines = dragoman(used, "usage", "--by", "model").out.splitlines()
    (line,) = [each for each in lines if each.startswith("?[2J?x")]
    assert len(line) < 160


def test_usage_as_csv_is_harmless_in_a_spreadsheet(used: Path) -> None:
    rows = list(csv.reader(dragoman(used, "usage", "--by", "model", "--csv").out.splitlines()))
    assert rows[0][:4] == ["model", "requests", "failures", "refused"]
    assert rows[0][-1] == "cost_usd"
    assert rows[1][0] == "'=HYPERLINK(1)"
    assert rows[2][-1] == "1.500000"


def test_nothing_used_is_reported_as_such(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "usage")
    assert outcome.code == 0
    assert "no usage" in outcome.err


@pytest.mark.rule("M17")
def test_an_unknown_price_is_not_zero(tmp_path: Path) -> None:
    now = int(datetime.now(UTC).timestamp())
    rows = {
        UsageKey(now, "", "up", "free"): UsageCounts(requests=1),
        UsageKey(now, "", "up", "local"): UsageCounts(requests=2, unpriced=2),
        UsageKey(now, "", "up", "paid"): UsageCounts(requests=1, cost=500_000),
    }
    (tmp_path / STATE).parent.mkdir(parents=True)
    holder = KeyHolder(tmp_path / STATE)
    holder.do(lambda transaction: add_usage(transaction, rows))
    lines = [line.split() for line in dragoman(tmp_path, "usage", "--by", "model").out.splitlines()]
    assert [line[-1] for line in lines] == ["COST", "$0.00", "unknown", "$0.50", "unknown"]
    assert lines[-1][-3:] == ["$0.50", "+", "unknown"]
    report = msgspec.json.decode(dragoman(tmp_path, "usage", "--by", "model", "--json").out)
    assert [(each["model"], each["cost_usd"], each["unpriced"]) for each in report] == [
        ("free", 0.0, 0),
        ("local", None, 2),
        ("paid", 0.5, 0),
    ]


@pytest.mark.rule("M34")
@pytest.mark.parametrize("columns", [60, 80])
def test_a_row_of_usage_fits_into_a_narrow_terminal(used: Path, columns: int) -> None:
    outcome = dragoman(used, "usage", "--by", "model", "--by", "provider", COLUMNS=str(columns))
    lines = outcome.out.splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= columns
    assert "COST" in lines[0]


@pytest.mark.rule("M19")
def test_the_first_key_comes_with_a_warning(tmp_path: Path) -> None:
    first, second = (dragoman(tmp_path, "keys", "create", name) for name in ("one", "two"))
    assert "from now on every client" in first.err
    assert "from now on every client" not in second.err
