"""Warns about rules and roles that have no effect, and about functions that cannot be called."""

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec

from dragoman.agents import AGENTS
from dragoman.config.config import Config
from dragoman.config.document import TomlTable
from dragoman.config.load_rules import resolve_function_file
from dragoman.config.rules import Rule, RuleConditions
from dragoman.hub.errors import suggest_spelling

_WILDCARD = re.compile(r"[*?\[]")


def warn_about_rules(root: TomlTable, config: Config) -> None:
    """Add the warnings about the rules of a configuration that has no mistakes."""
    for number, rule in enumerate(config.rules):
        earlier = next((each.name for each in config.rules[:number] if _hides(each, rule)), "")
        if earlier:
            problem = f'never used, because "{earlier}" above it holds for the same requests'
            root.warn(problem, "rules", number, hint="move it above that rule")
        for agent in rule.when.agent:
            if not _WILDCARD.search(agent) and agent not in AGENTS:
                _warn_about_agent(root, agent, number)
        problem = _find_function_problem(rule.function, config.path)
        if problem:
            root.warn(f"{problem}, so the rule decides nothing", "rules", number, "function")
    conditions = [rule.when for rule in config.rules] + [rule.when for rule in config.prompts]
    used = {role for when in conditions for role in when.role}
    for role in root.table("roles").values:
        if role not in used:
            root.warn("no rule uses this role", "roles", role, hint=f'[[rules]] when.role = "{role}"')


def _warn_about_agent(root: TomlTable, agent: str, number: int) -> None:
    """Other agents are known by the product in their `user-agent`, so only a likely mistake is a warning."""
    known = [name for name in AGENTS if name.startswith(agent.lower()) or agent.lower().startswith(name)]
    hint = f'did you mean "{known[0]}"?' if known else suggest_spelling(agent, AGENTS)
    if hint:
        root.warn(f'no known agent has the name "{agent}"', "rules", number, "when", "agent", hint=hint)


def _hides(earlier: Rule, later: Rule) -> bool:
    """Whether the earlier rule holds for every request for which the later one holds, and decides it."""
    if earlier.uses_tag or earlier.function:
        return False
    # Names that contain their provider pass rules without a condition on the model.
    if later.when.model and not earlier.when.model:
        return False
    return all(
        _covers(name, getattr(earlier.when, name), getattr(later.when, name))
        for name in RuleConditions.__struct_fields__
        if getattr(earlier.when, name) != getattr(_NO_CONDITIONS, name)
    )


_NO_CONDITIONS = RuleConditions()


def _covers(name: str, wide: object, narrow: object) -> bool:
    """Whether every request that matches the narrow value of a condition also matches the wide one."""
    if wide == narrow:
        return True
    if isinstance(wide, tuple) and isinstance(narrow, tuple):
        return bool(narrow) and all(any(_covers_name(each, other) for each in wide) for other in narrow)
    if isinstance(wide, Mapping) and isinstance(narrow, Mapping):
        return wide.items() <= narrow.items()
    match name, wide, narrow:
        case "tokens_over", int(), int():
            return narrow > wide
        case "tokens_under", int(), int():
            return 0 < narrow < wide
        case "images", "any", "new":
            return True
    return False


def _covers_name(wide: str, narrow: str) -> bool:
    """Whether the pattern matches every name that the other one matches. Only `*` is understood."""
    return wide == narrow or (not re.search(r"[?\[]", wide) and fnmatchcase(narrow, wide))


def _find_function_problem(function: str, config_path: str) -> str:
    """Why the function cannot be called, as far as that is known without running its file; or empty."""
    place, _, name = function.rpartition(":")
    if not place:
        return ""
    if not place.endswith(".py"):
        top = place.partition(".")[0]
        is_there = top in sys.modules or find_spec(top) is not None
        return "" if is_there else f"there is no module {top} here"
    try:
        tree = ast.parse(resolve_function_file(function, config_path).read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError) as error:
        return f"the file cannot be read as Python: {error}"
    names = list(_list_names(tree.body))
    is_open = any(isinstance(each, ast.ImportFrom) and each.names[0].name == "*" for each in tree.body)
    if name in names or is_open:
        return ""
    hint = suggest_spelling(name, names)
    return f"{place} has no function {name}" + (f" ({hint})" if hint else "")


def _list_names(body: Sequence[ast.stmt]) -> list[str]:
    """The names that a file defines, also under conditions."""
    found: list[str] = []
    for statement in body:
        for node in ast.walk(statement) if not isinstance(statement, _DEFINITIONS) else (statement,):
            if isinstance(node, _DEFINITIONS):
                found.append(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.append(node.id)
            elif isinstance(node, ast.alias):
                found.append(node.asname or node.name.partition(".")[0])
    return found


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
