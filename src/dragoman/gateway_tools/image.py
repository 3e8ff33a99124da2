"""The tool `image`: pictures become references for a model that sees none; another model looks at them."""

from collections import OrderedDict

from dragoman.config.tools import ImageToolSettings
from dragoman.fit.editing import edit_messages
from dragoman.gateway_tools.tool import (
    GatewayTool,
    ToolFailed,
    ToolOffer,
    ToolOutcome,
    ToolRun,
    build_function,
)
from dragoman.hub.blocks import AnyBlock, Media, Text
from dragoman.hub.ids import digest
from dragoman.hub.request import Message, Request, find_block_kinds
from dragoman.providers.profile import TargetFacts

#: Answers that are kept, and the longest answer in tokens.
MAX_CACHED = 500
MAX_TOKENS = 2000

_PERCENT = {"type": "number", "minimum": 0, "maximum": 100}
_REGION = ("left", "top", "width", "height")
FUNCTION = build_function(
    "look_at_image",
    "Look at a picture of the conversation, which you see only as a number. Another model sees it and "
    "answers your question about it. Ask for everything that you need: it does not know the conversation.",
    {
        "image": {"type": "integer", "description": "The number of the picture."},
        "question": {"type": "string", "description": "What to find out about the picture."},
        "region": {
            "type": "object",
            "description": "Optional: only this part of the picture, in percent of its width and height.",
            "properties": dict.fromkeys(_REGION, _PERCENT),
            "required": list(_REGION),
        },
    },
    "image",
    "question",
)


class Pictures:
    """The pictures of one request in the order of their numbers. Results of tools may add further ones."""

    def __init__(self) -> None:
        self.found: list[Media] = []
        self._numbers: dict[str, int] = {}

    def refer(self, block: AnyBlock, message: Message) -> AnyBlock:
        """The text that stands for a picture; another block as it is."""
        if type(block) is not Media or block.kind != "image" or not (block.data or block.url):
            return block
        key = digest(block.data, block.url)
        if key not in self._numbers:
            self.found.append(_strip(block))
            self._numbers[key] = len(self.found)
        number = self._numbers[key]
        title = f" ({block.title})" if block.title else ""
        text = f"[Image #{number}{title}: call {FUNCTION.name} with image={number} to see it.]"
        return Text(text=text, at=block.at, cache=block.cache)

    def build_offer(self, request: Request | None = None) -> ToolOffer:
        return ToolOffer(
            functions=(FUNCTION,), request=request, edit_results=self._refer_results, context=self
        )

    def _refer_results(self, message: Message) -> Message:
        request = Request(dialect="", model="", messages=(message,))
        return edit_messages(request, self.refer).messages[0]


class ImageTool(GatewayTool):
    """Replaces images by numbered texts for a model that sees none, and offers `look_at_image`.

    Another model answers a question about one image. Answers are cached for each caller.
    """

    def __init__(self, settings: ImageToolSettings) -> None:
        self._target = settings.target
        self._answers: OrderedDict[str, str] = OrderedDict()

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:
        if target.images or Media not in find_block_kinds(request.messages):
            return None
        pictures = Pictures()
        changed = edit_messages(request, pictures.refer)
        return pictures.build_offer(changed) if pictures.found else None

    def offer_for_results(self, target: TargetFacts) -> ToolOffer | None:
        return None if target.images else Pictures().build_offer()

    async def run(self, run: ToolRun) -> ToolOutcome | str:
        pictures = run.context.found if isinstance(run.context, Pictures) else ()
        number = run.arguments.get("image")
        if type(number) is not int or not 1 <= number <= len(pictures):
            raise ToolFailed(f"the argument `image` must be a number from 1 to {len(pictures)}")
        picture: Media = pictures[number - 1]
        prompt = _write_prompt(run.text("question"), run.arguments.get("region"))
        # The key of each caller must allow the model, and pays for it.
        key = digest(run.owner, picture.data, picture.url, prompt)
        answer = self._answers.get(key) or await self._look(run, picture, prompt)
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_CACHED:
            self._answers.popitem(last=False)
        return answer

    async def _look(self, run: ToolRun, picture: Media, prompt: str) -> str:
        message = Message(role="user", blocks=(picture, Text(text=prompt)))
        request = Request(dialect="", model="", messages=(message,), max_tokens=MAX_TOKENS)
        reply = await run.ask_model(self._target, request)
        answer = "".join(block.text for block in reply.blocks if isinstance(block, Text)).strip()
        if not answer:
            raise ToolFailed("the model that looks at pictures gave no answer")
        return answer


def _strip(picture: Media) -> Media:
    """The picture without what only its own dialect understands."""
    return Media(kind="image", media_type=picture.media_type, data=picture.data, url=picture.url)


def _write_prompt(question: str, region: object) -> str:
    prompt = f"{question}\n\nReport only what the picture shows, exactly, and quote text in it literally."
    if region is None:
        return prompt
    values = [region.get(name) for name in _REGION] if isinstance(region, dict) else []
    numbers = [value for value in values if isinstance(value, int | float) and 0 <= value <= 100]
    if len(numbers) != len(_REGION):
        raise ToolFailed("the argument `region` must have left, top, width and height, in percent")
    left, top, width, height = numbers
    part = f"from {left:g} % to {min(100, left + width):g} % of its width, counted from the left, and from "
    part += f"{top:g} % to {min(100, top + height):g} % of its height, counted from the top"
    return f"Look only at this part of the picture: {part}.\n\n{prompt}"
