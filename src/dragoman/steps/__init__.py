"""Transformation steps: named changes of requests and replies, for some providers, models or routes.

A `TransformStep` works on hub values, so one step serves clients and targets of every dialect. It changes the
client's request before it is fitted to the target, and the events of the reply directly after the target's
stream reader. Other packages offer steps by an entry point of the group `dragoman.steps`.

- `step`: the interface `TransformStep`. Third parties implement it.
- `selection`: `StepSelection` knows the configured steps. `RequestSteps` are those of one request.
- `force_reasoning`: the step of this name, which is built in.
- `kit`: `find_problems` runs a step over sample requests and replies, for the tests of its authors.

State: a `StepSelection` belongs to a configuration. Its steps serve all requests, so they keep no state of
them. A stage belongs to one round of one reply.
"""
