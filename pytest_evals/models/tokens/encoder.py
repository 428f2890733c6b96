"""Batch encoder that tokenizes each distinct part of its input once.

If the tokenizer has safe boundaries, shared parts (few-shot blocks, contexts of several
choices) are joined once from the ids of their words, and each distinct word is encoded
once; otherwise each distinct string is. The caller decides about special tokens.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, count, islice, pairwise
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_evals.models.tokens.boundaries import SPAN, PartBoundaries, boundaries_of

Ids = npt.NDArray[np.int32]  # A sequence of token ids, (T,)
MOST_WORDS = 2**18  # Maximum number of words whose ids are kept
LEAST_WORDS = 4_096
"""Minimum number of new words that are joined: reading the lengths of all tokens from
the vocabulary takes time."""
TOGETHER = 128  # Words per joined string
AT_ONCE = 2**16  # Maximum number of words per tokenizer call
CHUNK = 2**20
"""Characters per tokenizer call. Bounds the memory of the tokenizer's output, about 150
bytes a token."""
T = TypeVar("T")
_BYTE = re.compile("<0x[0-9A-F]{2}>")


_Encoded = tuple[Ids, npt.NDArray[np.int64]]  # Ids of words, number of ids of each word


class _Vocabulary(NamedTuple):
    """By id: characters of a token in ASCII text, and whether a space is first."""

    lengths: npt.NDArray[np.int64]
    spaced: npt.NDArray[np.bool_]


class WordIds:
    """Ids of words other than the first of a string, in one array.

    Tokenizers have a high cost per string, so many words are joined and encoded as one.
    The lengths of the tokens show which word each id belongs to; if they do not add up,
    words are encoded one by one.
    """

    def __init__(
        self,
        inner: Any,
        seams: PartBoundaries,
        encode: Callable[[list[str]], Iterable[Sequence[int]]],
        least: int,
    ) -> None:
        """Create an empty table. ``inner``: the tokenizer of ``tokenizers``.
        ``encode``: function from strings to ids without special tokens. ``least``:
        minimum number of new words to join."""
        self._inner, self._seams, self._encode = inner, seams, encode
        self._least = least
        # Requests may be encoded here and ahead in a thread.
        self._lock = Lock()
        self._forget()

    def __len__(self) -> int:
        return len(self._numbers)

    def _forget(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._ids: Ids = np.empty(0, np.int32)
        self._ends: npt.NDArray[np.int64] = np.zeros(1, np.int64)

    def of(self, words: Iterable[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """The ids of words in their order, and the end of each there."""
        with self._lock:
            if len(self._numbers) >= MOST_WORDS:
                self._forget()
            # One look-up for each word; the rest is done by NumPy.
            order = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int64)
            n_known = len(self._ends) - 1
            try:
                while n_known < len(self._numbers):
                    new = islice(self._numbers, n_known, n_known + AT_ONCE)
                    for words in chunks(list(new), len, CHUNK):
                        self._learn(words)
                    n_known = len(self._ends) - 1
            except BaseException:  # words without ids would shift those of later ones
                self._forget()
                raise
            ids, ends = self._ids, self._ends
        starts = ends[order]
        n_ids = ends[order + 1] - starts
        found = np.cumsum(n_ids)
        places = np.repeat(starts - (found - n_ids), n_ids)
        places += np.arange(len(places))
        return ids[places], found

    def _learn(self, words: list[str]) -> None:
        ids, n_ids = self._together(words) or self._singly(words)
        self._ids = np.concatenate([self._ids, ids])
        ends = np.cumsum(n_ids, dtype=np.int64) + self._ends[-1]
        self._ends = np.concatenate([self._ends, ends])

    def _singly(self, words: Sequence[str]) -> _Encoded:
        lists = [*self._encode([self._seams.with_space(word) for word in words])]
        n_ids = np.fromiter(map(len, lists), np.int64, len(lists))
        return np.fromiter(chain.from_iterable(lists), np.int32), n_ids

    def _together(self, words: Sequence[str]) -> _Encoded | None:
        """As ``_singly``, joined where possible; ``None`` if the ids may differ."""
        if len(words) < self._least or self._vocabulary is None:
            return None
        seams, ends = self._seams, self._seams.word_ends
        fits = [word.isascii() and word[-1:] in ends for word in words]
        if not seams.is_clean(" ".join(words)):
            pairs = zip(words, fits, strict=True)
            fits = [is_fit and seams.is_clean(f" {word} ") for word, is_fit in pairs]
        together = [word for word, fit in zip(words, fits, strict=True) if fit]
        found = self._split(together)
        if found is None:
            return None
        if len(together) == len(words):
            return found
        rest = [word for word, fit in zip(words, fits, strict=True) if not fit]
        return _interleaved(found, self._singly(rest), np.array(fits))

    def _split(self, words: list[str]) -> _Encoded | None:
        """As ``_together``, for ASCII words that all end at a boundary."""
        vocabulary, seams = self._vocabulary, self._seams
        assert vocabulary is not None, "checked by the caller"
        groups = (words[n : n + TOGETHER] for n in range(0, len(words), TOGETHER))
        texts = [seams.with_space(" ".join(group)) for group in groups]
        if not texts or not seams.is_clean("".join(texts)):
            return None
        ids = np.fromiter(chain.from_iterable(self._encode(texts)), np.int32)
        ends = np.cumsum(vocabulary.lengths[ids])
        n_characters = np.fromiter(map(len, words), np.int64, len(words)) + 1
        word_ends = np.cumsum(n_characters)
        last = np.searchsorted(ends, word_ends)
        if last[-1] != len(ids) - 1 or not np.array_equal(ends[last], word_ends):
            return None
        firsts = np.concatenate([[0], last[:-1] + 1])
        if not vocabulary.spaced[ids[firsts]].all():
            return None
        return ids, np.diff(last, prepend=-1)

    @cached_property
    def _vocabulary(self) -> _Vocabulary | None:
        """``None`` if the tokens' spellings may differ from the text."""
        model = self._inner.model
        if type(model).__name__ != "BPE":
            return None
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        vocabulary = self._inner.get_vocab(with_added_tokens=True)
        lengths = np.zeros(max(vocabulary.values(), default=0) + 1, np.int64)
        spaced = np.zeros(len(lengths), np.bool_)
        for token, number in vocabulary.items():
            is_byte = len(token) == 6 and _BYTE.fullmatch(token)
            lengths[number] = 1 if is_byte else len(token)
            spaced[number] = token[:1] in ("Ġ", "▁", " ")
        return _Vocabulary(lengths, spaced)


def _interleaved(
    one: _Encoded, other: _Encoded, is_one: npt.NDArray[np.bool_]
) -> _Encoded:
    """All words in order. ``is_one``: for each word, whether it is from the first."""
    n_ids = np.empty(len(is_one), np.int64)
    n_ids[is_one], n_ids[~is_one] = one[1], other[1]
    from_one = np.repeat(is_one, n_ids)
    ids = np.empty(len(from_one), np.int32)
    ids[from_one], ids[~from_one] = one[0], other[0]
    return ids, n_ids


def chunks(
    items: Iterable[T], size_of: Callable[[T], int], most: int
) -> Iterator[list[T]]:
    """Split items into consecutive chunks whose sizes sum to at least ``most``."""
    chunk: list[T] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += size_of(item)
        if size >= most:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class TextEncoder:
    """Encodes strings to token ids."""

    def __init__(
        self, tokenizer: Any, span: int = SPAN, least: int = LEAST_WORDS
    ) -> None:
        """Detect the tokenizer's part boundaries. ``span``: part size in characters.
        ``least``: minimum number of new words to encode as joined strings."""
        self._tokenizer = tokenizer
        self._inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._seams: PartBoundaries | None = None
        self._seams = boundaries_of(tokenizer, self._lists, span)
        if self._seams is not None:
            self._words = WordIds(
                self._inner, self._seams, lambda some: self._encode(some, False), least
            )
        self.has_seams = self._seams is not None  # Whether texts are encoded in parts

    def ids(self, texts: Iterable[str], specials: bool | None) -> dict[str, Ids]:
        """Ids of each distinct text. ``specials``: whether to add special tokens;
        ``None`` for the tokenizer's own rule."""
        parted = {text: self._parts(text) for text in dict.fromkeys(texts)}
        first = list(dict.fromkeys(parts[0] for parts in parted.values()))
        fronts = dict(zip(first, self._all(first, specials), strict=True))
        rests = self._rests(part for parts in parted.values() for part in parts[1:])
        return {
            text: _joined([fronts[parts[0]], *map(rests.__getitem__, parts[1:])])
            for text, parts in parted.items()
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
        begun = (stems[a] + b for a, b in distinct if stems[a])
        rests = self._rests(chain(filter(None, stems.values()), begun))
        tails = {}
        for a, b in distinct:
            if stem := stems[a]:
                tails[a, b] = rests[stem + b][len(rests[stem]) :]
            else:
                tails[a, b] = whole[a + b][len(heads[a]) :]
        return tails

    def _stem(self, text: str) -> str:
        """The end of a string that a continuation extends; empty for all of it."""
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
        unused = {"return_attention_mask": False, "return_token_type_ids": False}
        encoded = self._tokenizer(texts, verbose=False, **unused, **chosen)
        found: Sequence[Sequence[int]] = encoded["input_ids"]
        return found


def _joined(parts: Sequence[Ids]) -> Ids:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
