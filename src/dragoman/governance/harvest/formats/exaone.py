"""Exaone Deep: reasoning in `<thought>` tags, which the prompt opens on some builds."""

from msgspec.structs import replace

from dragoman.governance.harvest.format import Format, Reasoning

THOUGHT = Reasoning(opens="<thought>", closes="</thought>")

FORMATS = (
    Format(name="exaone_deep", models="Exaone Deep", reasoning=(THOUGHT,)),
    Format(
        name="exaone_deep_thinking",
        models="Exaone Deep, where the prompt opens the reasoning",
        reasoning=(replace(THOUGHT, implied=True),),
    ),
)
