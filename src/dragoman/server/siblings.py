"""The other workers of the same gateway: asked for their status, metrics and sessions, which are merged."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.config.settings import Secret

#: A request with this header is answered by its worker alone.
OWN_HEADER = "x-dragoman-worker"
#: Seconds for the answer of another worker. One that is starting is left out.
TIMEOUT = 3.0

#: How the values of a metric are merged; all others are added.
METRIC_MERGES: dict[str, Callable[[Iterable[float]], float]] = {
    "dragoman_config_ok": min,
    "dragoman_state_ok": min,
    "dragoman_info": max,
    "dragoman_key_limit_used_ratio": max,
    "process_start_time_seconds": min,
}


class Siblings:
    """The addresses of the other workers. `token` is the admin token, which they share."""

    def __init__(self, ports: Sequence[int], token: Secret | None) -> None:
        self._ports = ports
        self._token = token

    async def ask(self, method: str, path: str) -> list[bytes]:
        """The bodies of the workers that answer with status 200."""
        answers = await asyncio.gather(
            *(self._ask(port, method, path) for port in self._ports), return_exceptions=True
        )
        return [answer for answer in answers if isinstance(answer, bytes) and answer]

    async def ask_json(self, method: str, path: str) -> list[Any]:
        return [msgspec.json.decode(body) for body in await self.ask(method, path)]

    async def _ask(self, port: int, method: str, path: str) -> bytes:
        token = self._token.reveal() if self._token else ""
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                lines = (
                    f"{method} {path} HTTP/1.1",
                    f"host: 127.0.0.1:{port}",
                    f"authorization: Bearer {token}",
                    f"{OWN_HEADER}: own",
                    "content-length: 0",
                    "connection: close",
                )
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
                return body if head.startswith(b"HTTP/1.1 200") else b""
            finally:
                writer.close()


def merge_metrics(texts: Sequence[str]) -> str:
    """Metrics in Prometheus' text format of several workers as those of one."""
    values: dict[str, list[float]] = {}
    samples: dict[str, dict[str, None]] = {}
    heads: dict[str, list[str]] = {}
    for text in texts:
        metric = ""
        for line in text.splitlines():
            if line.startswith("# "):
                metric = line.split(" ", 3)[2]
                head = heads.setdefault(metric, [])
                if line not in head:
                    head.append(line)
                continue
            name, _, value = line.rpartition(" ")
            samples.setdefault(metric, {})[name] = None
            values.setdefault(name, []).append(float(value))
    lines: list[str] = []
    for metric, head in heads.items():
        merge = METRIC_MERGES.get(metric, sum)
        lines += head
        lines += [f"{name} {_format(merge(values[name]))}" for name in samples.get(metric, ())]
    return "\n".join(lines) + "\n"


def _format(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def merge_status(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Status reports of several workers as one. The first is that of the worker that was asked."""
    first = reports[0]
    merged = {**first}
    merged["gateway"] = {**first["gateway"], "workers": [each["gateway"] for each in reports]}
    exchanges = [each["exchanges"] for each in reports]
    merged["exchanges"] = {
        "open": sum(each["open"] for each in exchanges),
        "streams": sum(each["streams"] for each in exchanges),
        "oldest": sorted(
            (row for each in exchanges for row in each["oldest"]), key=lambda row: -float(row["seconds"])
        ),
    }
    merged["targets"] = _merge_rows([each["targets"] for each in reports], "target", _merge_target)
    merged["tools"] = _merge_rows([each["tools"] for each in reports], "target", _merge_tools)
    merged["sessions"] = merge_counts([each["sessions"] for each in reports])
    records = [each["records"] for each in reports]
    merged["records"] = {
        **first["records"],
        **{name: sum(each[name] for each in records) for name in ("written", "lost", "broken_prefixes")},
        **{
            name: next((each[name] for each in records if each.get(name)), "")
            for name in ("error", "last_broken_prefix")
        },
    }
    return merged


def _merge_rows(
    lists: Iterable[Sequence[dict[str, Any]]],
    key: str,
    merge: Callable[[dict[str, Any], dict[str, Any]], None],
) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for row in (row for rows in lists for row in rows):
        if row[key] in rows:
            merge(rows[row[key]], row)
        else:
            rows[row[key]] = {**row}
    return list(rows.values())


#: From the best health to the worst; the worst of all workers is shown.
_HEALTH = ("unused", "ok", "failing", "partly cooling", "cooling", "unusable")


def _merge_target(row: dict[str, Any], other: dict[str, Any]) -> None:
    tries = row["tries"] + other["tries"]
    if tries:
        weighted = row["first_token"] * row["tries"] + other["first_token"] * other["tries"]
        row["first_token"] = round(weighted / tries, 3)
    row["health"] = max(row["health"], other["health"], key=_HEALTH.index)
    # Workers report their cooldowns to each other: of each key the one with the most failures is shown.
    cooldowns = sorted((*row["cooldowns"], *other["cooldowns"]), key=lambda each: each["failures"])
    row["cooldowns"] = list({each["key"]: each for each in cooldowns}.values())
    row["tries"], row["failed"] = tries, row["failed"] + other["failed"]
    row["failures_in_row"] = max(row["failures_in_row"], other["failures_in_row"])
    row["last_failure"] = row["last_failure"] or other["last_failure"]


def _merge_tools(row: dict[str, Any], other: dict[str, Any]) -> None:
    row["counts"] = dict(Counter(row["counts"]) + Counter(other["counts"]))


def merge_counts(sections: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The sums of the counts of each name."""
    merged: dict[str, Counter[str]] = {}
    for section in sections:
        for name, counts in section.items():
            merged.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in merged.items()}
