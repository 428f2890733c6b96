"""Batch encoder that tokenizes each distinct part of its input once.

If the tokenizer has safe boundaries, shared parts (few-shot blocks, contexts of several
choices) are joined once from the ids of their words, and each distinct word is encoded
once; otherwise each distinct string is. The caller decides about special tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from pytest_evals.models.tokens.boundaries import SPAN, PartBoundaries, boundaries_of
from pytest_evals.models.tokens.words import CHUNK, LEAST_WORDS, WordIds, chunks
from pytest_evals.models.tokens.words import Ids as Ids


class TextEncoder:
    """Encodes strings to token ids."""

    def __init__(
        self, tokenizer: Any, span: int = SPAN, least: int = LEAST_WORDS
    ) -> None:
        """Detect the tokenizer's part boundaries.

        Args:
            span: Part size in characters.
            least: Minimum number of new words to encode as joined strings.
        """
        self._tokenizer = tokenizer
        self._inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._seams: PartBoundaries | None = None
        self._seams = boundaries_of(tokenizer, self._lists, span)
        if self._seams is not None:
            self._words = WordIds(
                self._inner,
                self._seams,
                lambda texts: self._encode(texts, specials=False),
                least,
            )
        self.has_seams = self._seams is not None
        """Whether texts are encoded in parts."""

    def ids(self, texts: Iterable[str], specials: bool | None) -> dict[str, Ids]:
        """Ids of each distinct text. ``specials``: whether to add special tokens;
        ``None`` for the tokenizer's own rule."""
        distinct = list(dict.fromkeys(texts))
        parted = [self._parts(text) for text in distinct]
        fronts = self._fronts([parts[0] for parts in parted], specials)
        rests = self._rests(part for parts in parted for part in parts[1:])
        return {
            text: _joined([fronts[parts[0]], *map(rests.__getitem__, parts[1:])])
            for text, parts in zip(distinct, parted, strict=True)
        }

    def tails(
        self,
        pairs: Iterable[tuple[str, str]],
        heads: Mapping[str, Ids],
        specials: bool | None,
    ) -> dict[tuple[str, str], Ids]:
        """Ids of each concatenated pair beyond the length of the first string's own
        ids. ``specials``: as for :meth:`ids`, for both texts as one."""
        distinct = list(dict.fromkeys(pairs))
        stems = {a: self._stem(a) for a in dict.fromkeys(a for a, _ in distinct)}
        whole = self.ids((a + b for a, b in distinct if not stems[a]), specials)
        rests = self._rests(
            chain(
                filter(None, stems.values()),
                (stems[a] + b for a, b in distinct if stems[a]),
            )
        )
        tails = {}
        for a, b in distinct:
            stem = stems[a]
            ids, first = (
                (rests[stem + b], rests[stem]) if stem else (whole[a + b], heads[a])
            )
            tails[a, b] = ids[len(first) :]
        return tails

    def _stem(self, text: str) -> str:
        """The end of a string from its last boundary on, which the continuation
        extends; empty for none."""
        return "" if self._seams is None else self._seams.stem(text)

    def _parts(self, text: str) -> list[str]:
        return [text] if self._seams is None else self._seams.parts(text)

    def _rests(self, parts: Iterable[str]) -> dict[str, Ids]:
        """Ids of parts other than the first of a string, which begin with a space."""
        distinct = dict.fromkeys(parts)
        if self._seams is None or not distinct:
            return {}
        n_words: list[int] = []
        words = self._seams.words(distinct, n_words)
        flat, ends = self._words.of(chain.from_iterable(words))
        last = np.cumsum(n_words, dtype=np.int64) - 1
        edges = pairwise([0, *ends[last].tolist()])
        return {
            part: flat[start:end]
            for part, (start, end) in zip(distinct, edges, strict=True)
        }

    def _fronts(self, texts: Iterable[str], specials: bool | None) -> dict[str, Ids]:
        """Ids of first parts."""
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self._all(distinct, specials), strict=True))

    def _all(self, texts: Sequence[str], specials: bool | None) -> Iterator[Ids]:
        for some in chunks(texts, len, CHUNK):
            for ids in self._encode(some, specials):
                yield np.asarray(ids, dtype=np.int32)

    def _lists(self, texts: Sequence[str], specials: bool | None) -> list[list[int]]:
        return [list(ids) for ids in self._encode(list(texts), specials)]

    def _encode(
        self, texts: list[str], specials: bool | None
    ) -> Iterable[Sequence[int]]:
        if self._seams is not None and specials is False:
            # As transformers calls it, without a dictionary for each text.
            # Setting what is set already would be in the way of other threads.
            if self._inner.truncation is not None:
                self._inner.no_truncation()
            if self._inner.padding is not None:
                self._inner.no_padding()
            fast = self._inner.encode_batch_fast(texts, add_special_tokens=False)
            return (encoding.ids for encoding in fast)
        chosen = {} if specials is None else {"add_special_tokens": specials}
        encoded = self._tokenizer(
            texts,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
            **chosen,
        )
        found: Sequence[Sequence[int]] = encoded["input_ids"]
        return found


def _joined(parts: Sequence[Ids]) -> Ids:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
