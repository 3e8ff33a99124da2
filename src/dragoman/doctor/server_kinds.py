"""The kinds of model servers: how each is recognised, and what it reports about its models.

A server is recognised by its own API, not by its port: Ollama, LM Studio and llama.cpp have endpoints beside
those of OpenAI that report the context window in use. To add a kind of server, write a reader that returns
None for every other kind, and add a row to `KINDS`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

import msgspec

#: Models of Ollama whose details are read: each needs a request.
MAX_DETAILS = 60
#: Requests at the same time.
WORKERS = 8

Body = TypeVar("Body")


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a server, with what the server reports about it."""

    name: str
    #: The context window in use, and the largest one of the model, in tokens; 0: unknown.
    context: int = 0
    largest_context: int = 0
    #: None: unknown.
    has_tools: bool | None = None
    has_images: bool | None = None

    def list_facts(self) -> dict[str, object]:
        """The reported values as facts of the configuration."""
        facts: dict[str, object] = {"context_tokens": self.context} if self.context else {}
        if self.has_images is not None:
            facts["images"] = self.has_images
        if self.has_tools is False:
            facts["function_calling"] = False
        return facts


class Fetch(Protocol):
    """Requests a path of one server and decodes the JSON of its answer as `kind`; None if that fails."""

    def __call__(self, path: str, kind: type[Body], body: object = None) -> Body | None: ...


class OllamaName(msgspec.Struct):
    name: str
    #: Only of loaded models: the window that Ollama has allocated.
    context_length: int = 0


class OllamaList(msgspec.Struct):
    models: list[OllamaName]


class OllamaVersion(msgspec.Struct):
    version: str


class OllamaDetails(msgspec.Struct):
    capabilities: list[str] = []
    #: Lines of the Modelfile, such as `num_ctx 32768`.
    parameters: str = ""
    model_info: dict[str, object] = {}


def _read_ollama(fetch: Fetch) -> Sequence[ServerModel] | None:
    if fetch("/api/version", OllamaVersion) is None:
        return None
    found = fetch("/api/tags", OllamaList)
    running = fetch("/api/ps", OllamaList)
    loaded = {model.name: model.context_length for model in running.models} if running else {}
    names = [model.name for model in found.models] if found else []
    with ThreadPoolExecutor(WORKERS) as pool:
        details = pool.map(
            lambda name: fetch("/api/show", OllamaDetails, {"model": name}), names[:MAX_DETAILS]
        )
        models = [
            _describe_ollama_model(name, loaded.get(name, 0), each or OllamaDetails())
            for name, each in zip(names, details, strict=False)
            if not (each and each.capabilities == ["embedding"])
        ]
    return [*models, *(ServerModel(name=name) for name in names[MAX_DETAILS:])]


def _describe_ollama_model(name: str, allocated: int, details: OllamaDetails) -> ServerModel:
    """Ollama allocates `num_ctx` of the Modelfile, else a default that it reports only of loaded models."""
    words = details.parameters.split()
    at = words.index("num_ctx") + 1 if "num_ctx" in words[:-1] else 0
    largest = [value for key, value in details.model_info.items() if key.endswith(".context_length")]
    known = details.capabilities
    return ServerModel(
        name=name,
        context=allocated or (int(words[at]) if at and words[at].isdecimal() else 0),
        largest_context=largest[0] if largest and isinstance(largest[0], int) else 0,
        has_tools="tools" in known if known else None,
        has_images="vision" in known if known else None,
    )


class StudioModel(msgspec.Struct):
    id: str
    type: str = ""
    max_context_length: int = 0
    loaded_context_length: int = 0
    capabilities: list[str] = []


class StudioList(msgspec.Struct):
    data: list[StudioModel]


def _read_lmstudio(fetch: Fetch) -> Sequence[ServerModel] | None:
    found = fetch("/api/v0/models", StudioList)
    if found is None:
        return None
    return [
        ServerModel(
            name=model.id,
            context=model.loaded_context_length,
            largest_context=model.max_context_length,
            has_tools="tool_use" in model.capabilities or None,
            has_images=model.type == "vlm",
        )
        for model in found.data
        if model.type != "embeddings"
    ]


class LlamaSettings(msgspec.Struct):
    n_ctx: int = 0


class LlamaProps(msgspec.Struct):
    default_generation_settings: LlamaSettings
    modalities: dict[str, bool] = {}
    chat_template_caps: dict[str, object] = {}


class ListedMeta(msgspec.Struct):
    n_ctx_train: int = 0


class ListedModel(msgspec.Struct):
    """An entry of `/v1/models`, with the fields that single servers add to OpenAI's."""

    id: str
    meta: ListedMeta | None = None
    max_model_len: int | None = None
    context_length: int | None = None


class ModelList(msgspec.Struct):
    data: list[ListedModel]


def _read_llamacpp(fetch: Fetch) -> Sequence[ServerModel] | None:
    props = fetch("/props", LlamaProps)
    found = fetch("/v1/models", ModelList) if props else None
    if props is None or found is None:
        return None
    tools, images = props.chat_template_caps.get("supports_tools"), props.modalities.get("vision")
    return [
        ServerModel(
            name=model.id,
            context=props.default_generation_settings.n_ctx,
            largest_context=model.meta.n_ctx_train if model.meta else 0,
            has_tools=tools if isinstance(tools, bool) else None,
            has_images=images,
        )
        for model in found.data
    ]


def _read_openai_list(fetch: Fetch) -> Sequence[ServerModel] | None:
    found = fetch("/v1/models", ModelList)
    if found is None:
        return None
    return [
        ServerModel(name=model.id, context=model.max_model_len or model.context_length or 0)
        for model in found.data
    ]


class ServerKind(NamedTuple):
    """How a kind of server is recognised. `advice`: how its user enlarges the context window."""

    preset: str
    title: str
    read: Callable[[Fetch], Sequence[ServerModel] | None]
    advice: str


#: The last kind also accepts every other server with OpenAI's model list.
KINDS = (
    ServerKind(
        "ollama", "Ollama", _read_ollama, "dragoman setup --context {tokens} creates a model that has it"
    ),
    ServerKind("lmstudio", "LM Studio", _read_lmstudio, "load the model with a longer context in LM Studio"),
    ServerKind("llamacpp", "llama.cpp", _read_llamacpp, "start llama-server with -c {tokens}"),
    ServerKind("vllm", "vLLM", _read_openai_list, "start vLLM with --max-model-len {tokens}"),
)
