"""`BodyParts`: the body of a request in parts, with the conversation that it continues."""

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING

from dragoman.dialects.forwarding import Members, split_members
from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.hub.request import Request
from dragoman.pipeline.bodies import MAX_BODY
from dragoman.pipeline.body_search import BodySearch
from dragoman.pipeline.history import ReadHistory, TranslatedHistory
from dragoman.pipeline.reading import RequestSource
from dragoman.pipeline.remembered import MIN_BODY, OwnHistories
from dragoman.pipeline.reuse import MARKED, OpenConversation
from dragoman.pipeline.split_body import SplitBody, split_body
from dragoman.pipeline.token_bound import NewItems
from dragoman.tokens.request import PromptSample, sample_parts, sample_request
from dragoman.tokens.tokenizers import ToolsForm

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestMetadata


class BodyParts:
    """The body of a request, split without decoding its values: at most once, when it is first needed."""

    def __init__(self, body: bytes, metadata: "RequestMetadata") -> None:
        self._body = body
        self._metadata = metadata
        self._is_split = self._is_open = False
        self._members: Members | None = None
        self._marks: tuple[Hashable, ...] = ()
        #: What is remembered of the body that this one continues, and its parts.
        self._known: ReadHistory | None = None
        self._is_same = False
        #: The part behind what is known of the body, and the words that the known part does not have.
        self._new = b""
        self._absent: frozenset[bytes] = frozenset()
        self._split: SplitBody | None = None
        self._search: BodySearch | None = None
        self._settings: BodySearch | None = None
        self._new_items: NewItems | None = None
        #: The conversation, if it was opened.
        self.conversation: OpenConversation | None = None

    def split(self, histories: OwnHistories | None = None) -> Members | None:
        """The members of the body; None if the body is invalid."""
        if not self._is_split:
            self._is_split = True
            if histories is None or not self._recognise(histories):
                self._members = split_members(self._body)
        return self._members

    def _recognise(self, histories: OwnHistories) -> bool:
        """Whether the body continues one that is remembered, or has at least the same front."""
        if len(self._body) < MIN_BODY:
            return False
        self._marks = self._build_marks(histories)
        for mark in self._marks:
            history = histories.remembered.find_marked(mark)
            known = history.body if history else None
            is_conversation = mark is self._marks[0]
            if known is not None and not is_conversation:
                known = known.extend(())
            found = known.recognise(self._body) if known else None
            if known is not None and found is not None:
                self._members, self._split, self._new = found.members, found.split, found.new
                self._absent = known.absent if is_conversation else known.front_absent
                if is_conversation:
                    self._known, self._is_same = history, found.is_same
                return True
        return False

    @property
    def _is_translated(self) -> bool:
        """Whether the body is probably translated, and so read in any case. Rules have read it before."""
        known = self._known
        return isinstance(known, TranslatedHistory) and known.end.kept is not None

    @property
    def search(self) -> BodySearch:
        """Finds words in the body."""
        if self._search is None:
            search = partial(BodySearch, self._body, self._new, self._absent)
            self._search = search(is_left_out=self._is_translated)
        return self._search

    @property
    def settings(self) -> BodySearch:
        """Finds words in the settings: everything but the conversation, system prompts and tools."""
        if self._settings is None:
            history = dialect_named(self._metadata.dialect).history
            others = {history.conversation, *history.system, *history.tools}
            members = self.split() or {}
            texts = [bytes(raw) for name, raw in members.items() if name not in others]
            self._settings = BodySearch(b",".join(texts))
        return self._settings

    def find_token_bound(self, tokenizer: Tokenizer) -> int | None:
        """At least the estimate of the request's tokens; None if it is not known without reading it."""
        if self._known is None or self._split is None or not self._is_same or self._is_translated:
            return None
        return self._list_new(self._split).find_token_bound(self._known, tokenizer)

    def _list_new(self, split: SplitBody) -> NewItems:
        """The items behind the known ones."""
        if self._new_items is None:
            known = self._known.body if self._known is not None and self._is_same else None
            items = split.items[len(known.split.items) if known else 0 :]
            self._new_items = NewItems(items, dialect_named(self._metadata.dialect).forwarding)
        return self._new_items

    def sample(self, request: Request, form: ToolsForm) -> PromptSample:
        """The token sample of the whole request, which this body is."""
        parts = sample_parts(request, form)
        if parts is None:
            return sample_request(request, form)
        if self.conversation is not None:
            self.conversation.samples[form] = parts[0]
        return parts[0] + parts[1]

    def open_conversation(self, histories: OwnHistories | None) -> OpenConversation | None:
        """The conversation of the request; None if it is too short or too long for any reuse."""
        if histories is None or self._is_open:
            return self.conversation
        self._is_open = True
        members = self.split(histories) if MIN_BODY <= len(self._body) <= MAX_BODY else None
        if members is None:
            return None
        url = self._metadata
        source = RequestSource(url.dialect, url.model, url.stream)
        split = self._split or split_body(members, dialect_named(url.dialect).history)
        if split is not None and split.items:
            marks = self._marks or self._build_marks(histories)
            open_it = partial(OpenConversation, histories, self._body, members, split, source)
            found = partial(open_it, marks, self._known, self.search, self._list_new(split))
            self.conversation = found(is_same=self._is_same)
        return self.conversation

    def learn(self, histories: OwnHistories | None, request: Request | None) -> None:
        """Note what to remember of a request that is not translated, if rules have asked for its body.

        `request`: the whole request, if it was read.
        """
        is_searched = self._search is not None or self._new_items is not None
        conversation = self.open_conversation(histories) if is_searched else self.conversation
        if conversation is not None:
            conversation.learn(request)

    def _build_marks(self, histories: OwnHistories) -> tuple[Hashable, ...]:
        """These find the last body of a conversation, and the last one with its front.

        Bodies of several conversations may have the same.
        """
        url, body = self._metadata, self._body
        client = url.identity
        front = (histories.owner, url.dialect, url.model, body[:MARKED])
        first = (*front, client.session, client.sub_agent)
        beginning = dialect_named(url.dialect).history.beginning
        start = histories.remembered.find_place(body, beginning, first)
        return (*first, body[start : start + MARKED] if start > 0 else b""), front
