"""Requests to token ids, by the rules of lm-eval 0.4.13 or of lighteval 0.13.0.

Sequences are ``int32`` arrays, since a window of requests holds millions of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from pytest_evals.core.request import Loglikelihood, Message, Prompt
from pytest_evals.errors import DocumentError
from pytest_evals.models.tokens.chat_template import ChatTemplateError, render_chat
from pytest_evals.models.tokens.encoder import Ids, TextEncoder
from pytest_evals.models.tokens.settings import TokenizerSettings

CACHED_CHATS = 16_384  # Rendered chats kept: those of a window of requests
_APPENDING = {
    "ByteFallback",
    "ByteLevel",
    "Fuse",
    "Metaspace",
    "Replace",
    "Sequence",
    "Strip",
}
"""Decoders of ``tokenizers`` that concatenate the strings of tokens."""
K = TypeVar("K")
V = TypeVar("V")


class InvalidRequestError(DocumentError):
    """A request that cannot be run; becomes ``Response.error``."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenPair:
    """A context and its continuation."""

    context: Ids  # (C,) ids, at least one
    continuation: Ids  # (N,) ids, at least one


class RequestEncoder:
    """A tokenizer with the rules for special tokens."""

    def __init__(
        self, tokenizer: Any, settings: TokenizerSettings, n_embeddings: int
    ) -> None:
        """``n_embeddings`` is the size of the model's input embedding."""
        self.tokenizer = tokenizer  # That of transformers
        self._inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._coder = TextEncoder(tokenizer)
        self._settings = settings
        self.n_embeddings = n_embeddings
        self._separate = settings.tokenization == "lighteval"
        self._names: dict[int, str] = {}
        self._rendered = lru_cache(CACHED_CHATS)(self._render)
        self.end_id: int | None = tokenizer.eos_token_id
        known = (settings.prefix_token_id, tokenizer.bos_token_id, self.end_id)
        self.prefix_id: int | None = next((i for i in known if i is not None), None)
        self.end_text = self._text_of(self.end_id)
        self._prefix = self._text_of(self.prefix_id)

    def _text_of(self, token: int | None) -> str:
        return "" if token is None else str(self.tokenizer.decode([token]))

    def rules(self) -> tuple[str, ...]:
        """All that determines ids, except the texts and library versions; empty if it
        is unknown, because another library's code encodes."""
        tokenizer, settings, inner = self.tokenizer, self._settings, self._inner
        kind = type(tokenizer)
        if inner is None or not kind.__module__.startswith("transformers."):
            return ()
        special = getattr(inner, "encode_special_tokens", None)
        ends = (self.prefix_id, self.end_id, self._prefix, tokenizer.bos_token)
        chosen = (settings.add_bos_token, settings.tokenization, special)
        return (
            f"{kind.__module__}.{kind.__name__}",
            repr((ends, chosen)),
            inner.to_str(),
        )

    def pairs(
        self, requests: Sequence[Loglikelihood]
    ) -> list[TokenPair | InvalidRequestError]:
        """Context and continuation of each request, or its error.

        Both strings are encoded as one, and the continuation is the part beyond the
        length of the encoded context; trailing white space of the context moves to the
        continuation (lm-eval 0.4.13, ``api/model.py``, ``_encode_pair``). An empty
        context is replaced by the prefix token.

        With ``tokenization=lighteval`` they are encoded separately, and an EOS token at
        the end of the context is removed (lighteval 0.13.0, ``abstract_model.py``,
        ``tok_encode_pair`` with ``pairwise=True``).
        """
        texts = _each(
            requests, lambda r: _moved(self.render(r.context), _whole(r.continuation))
        )
        good = [pair for pair in texts if not isinstance(pair, InvalidRequestError)]
        heads = self.encode(a for a, _ in good if a is not None)
        tails: Mapping[tuple[str, str], Ids]
        if self._separate:
            alone = self.encode((b for _, b in good), specials=False)
            tails = {(a, b): alone[b] for a, b in good if a is not None}
            heads = {
                a: ids[:-1] if len(ids) and ids[-1] == self.end_id else ids
                for a, ids in heads.items()
            }
        else:
            tails = self._tails([(a, b) for a, b in good if a is not None], heads)
            alone = self.encode((b for a, b in good if a is None), specials=False)
        return _each(texts, lambda one: self._pair(valid(one), heads, tails, alone))

    def prompts(self, prompts: Sequence[Prompt]) -> list[Ids | InvalidRequestError]:
        """Ids of prompts; the prefix token for an empty prompt.

        The BOS token is not added to prompts that already start with it; each prompt is
        decided separately.
        """
        bos = getattr(self.tokenizer, "bos_token", None) or ""
        texts = _each(prompts, self.render)
        return self._encoded(texts, bos, self._first)

    def texts(self, texts: Iterable[str]) -> list[Ids | InvalidRequestError]:
        """Ids of whole documents for rolling log-likelihoods."""
        return self._encoded(_each(texts, _whole), None, lambda: np.empty(0, np.int32))

    def _encoded(
        self,
        texts: Sequence[str | InvalidRequestError],
        prefix: str | None,
        empty: Callable[[], Ids],
    ) -> list[Ids | InvalidRequestError]:
        known = self.encode((t for t in texts if isinstance(t, str)), prefix=prefix)

        def ids_of(text: str | InvalidRequestError) -> Ids:
            ids = known[valid(text)]
            return self._checked(ids if len(ids) else empty())

        return _each(texts, ids_of)

    def decode(self, ids: Sequence[int], specials: bool = False) -> str:
        """The decoded string, with or without special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=not specials)
        return text

    def name_of(self, token: int) -> str:
        """A unique name of a token: its id and its vocabulary entry."""
        if token not in self._names:
            entry = self.tokenizer.convert_ids_to_tokens(token)
            self._names[token] = f"{token}:{entry}"
        return self._names[token]

    def decode_all(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Decode several sequences, with special tokens."""
        ids = [list(row) for row in rows]
        texts: list[str]
        if self._inner is not None and not self._tidies:
            # This runs at every step of generation, and transformers' own method takes
            # longer than the step of a small model.
            texts = self._inner.decode_batch(ids, skip_special_tokens=False)
        else:
            texts = self.tokenizer.batch_decode(ids, skip_special_tokens=False)
        return texts

    @cached_property
    def only_appends(self) -> bool:
        """Whether decoding a further token only appends to the string, except for white
        space and incomplete characters."""
        if self._inner is None or self._tidies:
            return False
        decoder = self._inner.decoder
        kinds = [] if decoder is None else _kinds(json.loads(decoder.__getstate__()))
        return set(kinds) <= _APPENDING

    @property
    def _tidies(self) -> bool:
        return bool(getattr(self.tokenizer, "clean_up_tokenization_spaces", False))

    def render(self, prompt: Prompt) -> str:
        """The prompt as a string; chats are rendered by the tokenizer's template and
        cached. Raises ``InvalidRequestError`` if there is no template, it refuses the
        chat, or the text has half of a surrogate pair."""
        text = prompt if isinstance(prompt, str) else self._rendered(prompt)
        return _whole(valid(text))

    def _render(self, prompt: tuple[Message, ...]) -> str | InvalidRequestError:
        try:
            return render_chat(self.tokenizer, prompt, self._settings.template_args)
        except ChatTemplateError as error:
            return InvalidRequestError(str(error))

    def encode(
        self,
        texts: Iterable[str],
        specials: bool | None = None,
        prefix: str | None = None,
    ) -> Mapping[str, Ids]:
        """Ids of each distinct text. ``specials``: whether to add special tokens;
        ``None`` for the tokenizer's own rule, or the user's, but never before a text
        that starts with ``prefix``, except with ``tokenization=lighteval``. ``prefix``:
        the text of the token that must not be doubled; ``None`` for the prefix
        token's."""
        if specials is not None:
            return self._coder.ids(texts, specials)
        prefix = self._prefix if prefix is None else prefix
        begun: list[str] = []
        rest: list[str] = []
        for text in texts:
            begins = prefix and not self._separate and text.startswith(prefix)
            (begun if begins else rest).append(text)
        found = self._coder.ids(begun, False)
        found.update(self._coder.ids(rest, self._settings.add_bos_token))
        return found

    def _tails(
        self, pairs: Sequence[tuple[str, str]], heads: Mapping[str, Ids]
    ) -> Mapping[tuple[str, str], Ids]:
        """Ids of the concatenated pairs beyond the length of the first string's ids."""
        begun: list[tuple[str, str]] = []
        rest: list[tuple[str, str]] = []
        n = len(self._prefix)
        for a, b in pairs:
            whole = a if len(a) >= n else a + b
            begins = n and whole.startswith(self._prefix)
            (begun if begins else rest).append((a, b))
        found = self._coder.tails(begun, heads, False)
        found.update(self._coder.tails(rest, heads, self._settings.add_bos_token))
        return found

    def _pair(
        self,
        pair: tuple[str | None, str],
        heads: Mapping[str, Ids],
        tails: Mapping[tuple[str, str], Ids],
        alone: Mapping[str, Ids],
    ) -> TokenPair:
        context, continuation = pair
        if context is not None:
            head, tail = heads[context], tails[context, continuation]
            if len(head) == 0:
                raise InvalidRequestError("the context is nothing but white space")
        else:
            head, tail = self._first(), alone[continuation]
            if len(tail) and tail[0] == self.prefix_id:
                head, tail = tail[:1], tail[1:]
        if len(tail) == 0:
            raise InvalidRequestError(
                f"the continuation {continuation!r} adds no tokens: the "
                "tokenizer merges it into the context"
                if continuation
                else "the continuation is empty"
            )
        if not self._fits:
            self._checked(head)
            self._checked(tail)
        return TokenPair(head, tail)

    @property
    def bos_rule(self) -> str:
        """Whether prompts get a BOS token, and which setting decides it."""
        bos, given = self.tokenizer.bos_token_id, self._settings.add_bos_token
        begun = self._coder.ids(["a"], given)["a"][:1]
        added = "added" if bos is not None and [bos] == begun.tolist() else "not added"
        return added if given is None else f"{added}, by add_bos_token={given}"

    def prefix(self) -> Ids | InvalidRequestError:
        """The (1,) id that precedes a string without context."""
        if self.prefix_id is None:
            return InvalidRequestError(
                "there is no context, and the tokenizer has neither a BOS nor an EOS "
                "token to use instead; give the model prefix_token_id=…"
            )
        return np.asarray([self.prefix_id], dtype=np.int32)

    def _first(self) -> Ids:
        return valid(self.prefix())

    @cached_property
    def _fits(self) -> bool:
        """Whether the model knows all ids that the tokenizer can give."""
        largest = max(self.tokenizer.get_vocab().values(), default=0)
        begun = self._coder.ids(["a"], None)["a"]
        return max(largest, int(begun.max(initial=0))) < self.n_embeddings

    def _checked(self, ids: Ids) -> Ids:
        """Reject ids beyond the embedding: some devices would read another row's
        memory, others would abort the process."""
        if len(ids) and int(ids.max()) >= self.n_embeddings:
            raise InvalidRequestError(
                f"the tokenizer gives the token {int(ids.max())}, the model knows only "
                f"{self.n_embeddings}; is this the model's own tokenizer?"
            )
        return ids


def valid(value: V | InvalidRequestError) -> V:
    """The value; raises it if it is an error."""
    if isinstance(value, InvalidRequestError):
        raise value
    return value


def _each(items: Iterable[K], make: Callable[[K], V]) -> list[V | InvalidRequestError]:
    """What is made of each item, or its error."""
    found: list[V | InvalidRequestError] = []
    for item in items:
        try:
            found.append(make(item))
        except InvalidRequestError as error:
            found.append(error)
    return found


def _whole(text: str) -> str:
    """The text, if tokenizers take it: they refuse half of a surrogate pair."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = ascii(text[error.start])
            raise InvalidRequestError(
                f"the prompt has half of a surrogate pair, {half}, at position "
                f"{error.start}; tokenizers refuse it"
            ) from None
    return text


def _moved(context: str, continuation: str) -> tuple[str | None, str]:
    """Both strings, with trailing white space of the context moved to the continuation;
    ``None`` for an empty context. A context of only white space becomes an empty
    string, which still gets the tokenizer's special tokens."""
    if not context:
        return None, continuation
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def _kinds(decoder: Mapping[str, Any]) -> list[str]:
    inner = [kind for one in decoder.get("decoders", ()) for kind in _kinds(one)]
    return [decoder["type"], *inner]
