"""The state of the accounts, on each engine."""

from dragoman.accounts.store import ACCOUNTS_SCHEMA
from tests.states import build_state_fixture

state = build_state_fixture(ACCOUNTS_SCHEMA)
