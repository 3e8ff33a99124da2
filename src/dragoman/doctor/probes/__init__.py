"""The probes, in the order in which a model is examined: what others rely on comes first."""

from dragoman.doctor.probe import Probe
from dragoman.doctor.probes import (
    answers,
    arguments,
    cache,
    calls,
    choice,
    counts,
    errors,
    parallel,
    pictures,
    reasoning,
    sampling,
    stops,
    streaming,
    structure,
)

PROBES: tuple[Probe, ...] = (
    answers.PROBE,
    streaming.PROBE,
    counts.PROBE,
    calls.PROBE,
    parallel.PROBE,
    choice.FORCED,
    choice.NAMED,
    reasoning.REASONING,
    reasoning.REPLAY,
    pictures.PROBE,
    arguments.PROBE,
    stops.PROBE,
    structure.PROBE,
    sampling.PROBE,
    errors.PROBE,
    cache.PROBE,
)
