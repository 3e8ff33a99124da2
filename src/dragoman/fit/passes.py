"""The passes that make a request legal for its target, in their order."""

from collections.abc import Callable

from dragoman.fit.account import account
from dragoman.fit.caching import caching
from dragoman.fit.choice import choice
from dragoman.fit.content import content
from dragoman.fit.editing import replace
from dragoman.fit.extras import extras
from dragoman.fit.history import empties, history
from dragoman.fit.ids import ids
from dragoman.fit.limits import max_tokens, stops
from dragoman.fit.media import media, media_beside_results
from dragoman.fit.names import names
from dragoman.fit.output import output
from dragoman.fit.reasoning import reasoning
from dragoman.fit.sampling import candidates, sampling
from dragoman.fit.schemas import fit_schemas
from dragoman.fit.seals import seals
from dragoman.fit.state import state
from dragoman.fit.system import system
from dragoman.fit.tools import tools
from dragoman.fit.turns import alternation, last_word, user_first
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

Pass = Callable[[Request, Target, Losses], Request]


def model(request: Request, target: Target, losses: Losses) -> Request:
    return replace(request, model=target.model) if target.model not in ("", request.model) else request


PASSES: tuple[Pass, ...] = (
    # Refusals first: no work for what cannot go. Extras next, while everything is as the client sent it.
    state,
    candidates,
    extras,
    # Names need the namespaces and kinds that `tools` takes away; schemas need the functions it makes.
    names,
    tools,
    fit_schemas,
    # Who said what, in blocks that the target knows: all of this can leave texts and turns empty.
    seals,
    content,
    media,
    system,
    empties,
    # Calls and results side by side; then ids, which need to know which result belongs to which call;
    # then media out of results, labelled with those ids.
    history,
    ids,
    media_beside_results,
    # The order of turns comes after everything that adds or moves one.
    output,
    last_word,
    alternation,
    user_first,
    # The cap before reasoning, which must fit below it; choice and sampling depend on whether it reasons.
    max_tokens,
    reasoning,
    choice,
    sampling,
    stops,
    account,
    # Marks go on the finished shape.
    caching,
    model,
)


def fit(request: Request, target: Target, losses: Losses) -> Request:
    """The request made legal for the target; the very same object if there is nothing to change.

    What does not arrive as it was sent is recorded in `losses`, with the client's own JSON path.
    """
    for fitted in PASSES:
        request = fitted(request, target, losses)
    return request
