"""Calls and reasoning that a model wrote into its text, turned into calls and reasoning.

A format is believed only where it was asked for, for tools that were declared, and outside of code and
quotations; everything else stays the text it is.
"""

from dragoman.governance.harvest.registry import AUTO, families
from dragoman.governance.harvest.stage import HarvestStage
from dragoman.governance.harvest.whole import EchoStage, WholeHarvestStage

__all__ = ["AUTO", "EchoStage", "HarvestStage", "WholeHarvestStage", "families"]
