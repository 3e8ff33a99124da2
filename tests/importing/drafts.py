"""What an importer made: the configuration that its draft becomes, and its notes."""

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.importing.draft import ConfigDraft


def loaded(draft: ConfigDraft) -> Config:
    return load(draft.build_text("a test"), "dragoman.toml", dict.fromkeys(draft.variables, "some-key"))


def noted(draft: ConfigDraft) -> str:
    return "\n".join(map(str, draft.notes))
