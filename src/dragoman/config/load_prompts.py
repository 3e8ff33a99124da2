"""Reads `[[prompts]]`, and warns about rules that make prompt caches miss."""

from dragoman.config.document import TomlTable
from dragoman.config.key_kinds import read_keys
from dragoman.config.load_rules import read_conditions, read_named
from dragoman.config.prompts import AT_MATCHES, UNSTABLE, PromptRule
from dragoman.config.rules import RuleConditions
from dragoman.governance.guard.patterns import Pattern, PatternError


def read_prompts(root: TomlTable) -> tuple[PromptRule, ...]:
    """The prompt rules of the file, in their order."""
    return read_named(root, "prompts", _read_prompt)


def _read_prompt(table: TomlTable, root: TomlTable, number: int) -> PromptRule:
    table.check(read_keys(PromptRule))
    when = read_conditions(table.table("when"), root, RuleConditions())
    rule = table.build(PromptRule, name=table.text("name") or f"prompt {number}", when=when)
    for key in ("find", "contains"):
        try:
            Pattern(table.text(key))
        except PatternError as error:
            raise table.error(f"not a regular expression: {error}", key) from None
    if rule.operation in AT_MATCHES and not rule.find:
        raise table.error(f"`{rule.operation}` needs `find`")
    if rule.find and rule.operation not in (*AT_MATCHES, "remove"):
        raise table.error(f"`{rule.operation}` has no `find`", "find", hint="use replace or insert_before")
    if rule.operation == "remove" and rule.text:
        raise table.error("`remove` has no `text`", "text")
    if rule.operation == "remove" and not rule.find and rule.place in ("user", "assistant"):
        raise table.error("`remove` needs `find` in messages: a conversation cannot lose its messages")
    for name in UNSTABLE:
        if getattr(when, name) not in ((), "", 0, None):
            table.warn(
                f"`{name}` can change within a conversation, so the provider's prompt cache then misses",
                *("when", "class" if name == "classes" else name),
            )
    return rule
