"""Decides which target answers a request, and what to do when a target fails. Pure: the clock is an argument.

- `choose`: `choose` maps the model name of a request to a route and its targets (`RouteChoice`).
- `traits`: `RequestTraits` computes what rules ask about a request, each trait when it is first needed.
- `rules`: `RuleTable.find_match` finds the next rule of the configuration that holds for a request.
- `balancing`: `LoadBalancer` orders the targets of a route by turns, weights, load, speed or cost.
- `explain`: `explain_route` names the rule that decides about a request, and the reason.
- `retry`: `decide_retry` maps a failure to the next action: retry, another target, or stop.
- `health`: `TargetHealth` owns the cooldowns of the targets of one gateway. It orders `TargetKey`s by them.

For each request: the first rule that holds, else `choose`; then `TargetHealth.order_targets`; after each try
`record_success` or `record_failure`, and after a failure `decide_retry`.
"""
