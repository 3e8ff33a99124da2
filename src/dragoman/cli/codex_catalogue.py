"""The model catalogue of Codex CLI, extended by the gateway's models.

For a model that its catalogue does not have, Codex warns at the start of every session, assumes a window, and
does not list it in `/model`. `codex debug models` prints the catalogue of the installed version. An entry for
a gateway's model is a copy of one of its entries, so it has the fields that this version needs.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

FILE = "models.json"
#: Seconds for Codex to print its catalogue, which is a part of the program.
TIMEOUT = 10.0

Entry = dict[str, object]


class CodexCatalogue(msgspec.Struct):
    models: list[Entry]


def write_catalogue(
    folder: Path, environment: Mapping[str, str], windows: Mapping[str, int], *, hides_known: bool
) -> tuple[str, ...]:
    """Write the extended catalogue, and return the arguments that name it; none if Codex prints no catalogue.

    `windows`: the context windows of the gateway's models, by name; 0: unknown. `hides_known`: the menu lists
    only these.
    """
    known = _read_catalogue(environment)
    if not known or not windows:
        return ()
    entries = list(_build_entries(known, windows))
    if hides_known:
        known = [entry | {"visibility": "hide"} for entry in known]
    (folder / FILE).write_bytes(msgspec.json.encode(CodexCatalogue([*entries, *known])))
    return ("-c", f"model_catalog_json={msgspec.json.encode(str(folder / FILE)).decode()}")


def _read_catalogue(environment: Mapping[str, str]) -> list[Entry]:
    program = shutil.which("codex", path=environment.get("PATH"))
    if program is None:
        return []
    try:
        done = subprocess.run(  # noqa: S603 (the agent that the user starts)
            [program, "debug", "models"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=CodexCatalogue).models
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return []


def _build_entries(known: list[Entry], windows: Mapping[str, int]) -> Iterator[Entry]:
    # A model of another vendor works best with plain functions. The newest entries have one tool for code.
    plain = [entry for entry in known if not entry.get("use_responses_lite") and not entry.get("tool_mode")]
    template = (plain or known)[0]
    taken = {entry.get("slug") for entry in known}
    for name, window in windows.items():
        if name in taken:
            continue
        size = {"context_window": window, "max_context_window": window} if window else {}
        yield (
            template
            | size
            | {
                "slug": name,
                "display_name": name,
                "description": "A model of the gateway.",
                "visibility": "list",
                # The entry with the lowest number is the default model.
                "priority": 1_000,
                "upgrade": None,
                "availability_nux": None,
                "apply_patch_tool_type": None,
                "service_tiers": [],
                "additional_speed_tiers": [],
            }
        )
