"""Repair of tool-call arguments: linear, bounded, in named steps, and never a guess.

`repair` always gives the text of one JSON object; repairing that again changes nothing.
"""

from dragoman.governance.repair.arguments import LIMIT, RAW_KEY, Repaired, repair
from dragoman.governance.repair.steps import STEPS

__all__ = ["LIMIT", "RAW_KEY", "STEPS", "Repaired", "repair"]
