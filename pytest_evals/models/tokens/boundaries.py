"""Boundaries at which a string can be split and its parts encoded separately without
changing any token id.

Long prefixes are shared between prompts and choices, so encoding shared parts once
saves time. A single changed token would change results, so a boundary is used only if
all of these hold:

- It is one space between two letters, and no added token touches it. A digit or
  punctuation may precede the space if the conditions below hold for these too.
- The normalizer looks at single characters, or at a character and its combining marks.
- The pre-tokenizer works from left to right, keeps no state, and looks no further than
  the end of a run of letters.
- No vocabulary entry contains a letter followed by a space, or words are always split
  at spaces.
- Special tokens, if any, are only added at the start.
- A set of difficult strings encodes identically with and without splitting.

For any other tokenizer, strings are encoded whole.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_evals.models.tokens.pre_tokenizers import splits_at_boundaries

Encode = Callable[[Sequence[str], bool | None], list[list[int]]]
"""Function from strings to ids: with special tokens, without, or by the tokenizer's
default."""

LETTERS = "A-Za-zÀ-ÖØ-öø-ÿΑ-ΡΣ-Ωα-ωЀ-ҁא-תء-غف-ي가-힣"
"""Letters of scripts that separate words by spaces; excludes combining marks and
letters that normalizers replace by anything else than letters and marks."""
PUNCTUATION = "0-9.,;:!?)\"'"
"""Digits, and punctuation that often follows a word: without boundaries after them, a
word would be encoded again with each of its neighbors."""
SPAN = 192
"""Characters of a part: large enough to be worth a call, small enough that a
continuation is not encoded with much of its context."""
SELF_TEST_SPAN = 8  # Part size in the self-test; small, for many boundaries
STEM = 256  # Characters at the end of a context in which the last boundary is searched
SHORT = 48
"""Characters after which a blank line also ends a part: few-shot examples are separated
by blank lines and come in different orders."""
LONGEST_ADDED = 64  # Characters of an added token; longer ones disable splitting
_ACROSS = {
    # Bytes as GPT-2 writes them; those of letters beyond ASCII are 128 and higher.
    "Ġ": "[A-Za-z¡-¬®-ÿĢ-Ń]Ġ",
    # Letters, their marks, bytes of either; and what else is beyond ASCII, to be safe.
    "▁": "(?:[A-Za-z]|[^\x00-\x7f▁]|<0x..>)▁",
    " ": "(?:[A-Za-z]|[^\x00-\x7f]|<0x..>) ",
}
"""Spelling of a space in vocabularies → pattern of tokens that span a boundary."""


def _boundary(before: str) -> re.Pattern[str]:
    """The pattern of boundaries after these characters. The space comes first, so that
    the search skips to spaces."""
    return re.compile(f" (?<=[{before}] )(?=[{LETTERS}])")


_SPACE_SPLITTERS = (
    "BertPreTokenizer",
    "ByteLevel",
    "Metaspace",
    "Whitespace",
    "WhitespaceSplit",
)
"""Pre-tokenizers that split at each space by default."""


class PartBoundaries:
    """Splits strings into parts; strings with a common prefix have common first parts,
    except for the last part of the shorter one."""

    def __init__(
        self,
        added: Sequence[str],
        span: int,
        *,
        punctuation: bool,
        ascii_only: bool,
        drops_space: bool,
    ) -> None:
        """Configure the splitter.

        Args:
            added: Texts of tokens that are taken out of a text before anything else.
            span: Characters after which a part ends at the next boundary.
            punctuation: Whether a boundary may follow a digit or punctuation.
            ascii_only: Whether one of them is looked for after normalization; then it
                is known not to be there only where all is ASCII.
            drops_space: Whether a space is put before each text: a part is encoded
                without its own.
        """
        self._boundary = _boundary(LETTERS + PUNCTUATION if punctuation else LETTERS)
        self._span = span
        self._reach = max(map(len, added), default=0)
        self._first = _any_of(text[0] for text in added)
        self._added = _any_of(added)
        self._ascii_only = ascii_only
        self.drops_space = drops_space
        self.word_ends = frozenset(
            one for one in map(chr, range(128)) if self._boundary.search(f"{one} a")
        )
        """ASCII characters that may precede a boundary."""
        self._last: tuple[str, list[int], list[str]] = ("", [], [])

    def parts(self, text: str) -> list[str]:
        """The parts of a string; all but the first begin with a space."""
        last, ends, parts = self._last
        # What decides about an end is in the text up to here; most texts begin as the
        # one before them.
        reach = self._reach + 2
        n = bisect_left(
            ends, True, key=lambda e: not text.startswith(last[: e + reach])
        )
        ends, parts = ends[:n], parts[:n]
        start = ends[-1] if ends else 0
        is_clean = self.is_clean(text)
        while (end := self._end(text, start, is_clean)) is not None:
            parts.append(text[start:end])
            ends.append(end)
            start = end
        self._last = (text, ends, parts)
        return [*parts, text[start:]]

    def words(self, parts: Collection[str], n_words: list[int]) -> Iterator[list[str]]:
        """Parts other than the first of a text, each split at all of its boundaries;
        the space before each word is missing. Appends the number of words of each
        part to ``n_words``."""
        split, add = self._boundary.split, n_words.append
        are_clean = self.is_clean("\n".join(parts))
        for part in parts:
            is_clean = are_clean or self.is_clean(part)
            words = split(part[1:]) if is_clean else [part[1:]]
            add(len(words))
            yield words

    def stem(self, text: str) -> str:
        """The end of a text from its last boundary's space on; empty without one."""
        start = max(0, len(text) - STEM)
        is_clean = self.is_clean(text[max(0, start - self._reach) :])
        for found in reversed(list(self._boundary.finditer(text, start))):
            if self._is_safe(text, found.start(), is_clean):
                return text[found.start() :]
        return ""

    def with_space(self, word: str) -> str:
        """The string to encode for a word other than the first of a text."""
        return word if self.drops_space else f" {word}"

    def _end(self, text: str, start: int, is_clean: bool) -> int | None:
        place = start + self._span
        blank = text.find("\n\n", start + min(self._span, SHORT), place)
        if blank >= 0:
            place = blank
        found = self._boundary.search(text, place)
        while found is not None and not self._is_safe(text, found.start(), is_clean):
            found = self._boundary.search(text, found.end())
        return None if found is None else found.start()

    def _is_safe(self, text: str, seam: int, is_clean: bool) -> bool:
        """Whether no added token can overlap a boundary, also in a longer text."""
        if seam + 1 + self._reach >= len(text):
            return False
        if is_clean:
            return True
        start = max(0, seam - self._reach)
        return self.is_clean(text[start : start + 2 * self._reach + 2])

    def is_clean(self, text: str) -> bool:
        """Whether a text contains no added token."""
        if self._first is None or self._added is None:
            return True
        if self._ascii_only and not text.isascii():
            return False
        return not (self._first.search(text) and self._added.search(text))


def boundaries_of(
    tokenizer: Any, encode: Encode, span: int = SPAN
) -> PartBoundaries | None:
    """The part boundaries of a tokenizer; ``None`` if they cannot be proven safe.
    ``encode``: its function from texts to ids. ``span``: characters after which a part
    ends at the next seam."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None or not type(tokenizer).__module__.startswith("transformers."):
        return None
    normalizers = list(_flat(_state(inner.normalizer), "normalizers"))
    splitters = list(_flat(_state(inner.pre_tokenizer), "pretokenizers"))
    added = list(inner.get_added_tokens_decoder().values())
    if not all(0 < len(token.content) <= LONGEST_ADDED for token in added):
        return None
    texts = [token.content for token in added]
    after = bool(normalizers) and any(token.normalized for token in added)
    drops = any(one["type"] == "Prepend" for one in normalizers)
    for punctuation in (True, False):
        known = (
            all(_is_local(normalizer, punctuation) for normalizer in normalizers)
            and all(
                splits_at_boundaries(one, normalizers, punctuation) for one in splitters
            )
            and _keeps_words_apart(inner, normalizers, splitters, punctuation)
        )
        make = partial(
            PartBoundaries,
            texts,
            punctuation=punctuation,
            ascii_only=after,
            drops_space=drops,
        )
        if known and _alike(make(SELF_TEST_SPAN), encode):
            return make(span)
    return None


def _is_local(normalizer: Mapping[str, Any], punctuation: bool) -> bool:
    """Whether a normalizer handles each character with its marks independently, and
    ``punctuation`` independently of spaces."""
    kind = normalizer["type"]
    if kind == "Replace":
        text = normalizer["pattern"].get("String", "a")
        if punctuation and len(text) > 1 and " " in text:
            return False
        return not re.search(r"[^\W\d_]", text)
    if kind == "Prepend":
        return bool(normalizer["prepend"] == "▁")
    return kind in {
        "BertNormalizer",
        "Lowercase",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "StripAccents",
    }


def _keeps_words_apart(
    inner: Any,
    normalizers: Sequence[Mapping[str, Any]],
    splitters: Sequence[Mapping[str, Any]],
    punctuation: bool,
) -> bool:
    """Whether no token spans a space after a letter, or after ``punctuation``."""
    # What looks for spaces does not find them where they have become something else.
    replaced = any(one.get("pattern") == {"String": " "} for one in normalizers)
    kinds = ("Metaspace",) if replaced else _SPACE_SPLITTERS
    used = [one for one in splitters if one["type"] in kinds]
    if any(one.get("use_regex", True) and one.get("split", True) for one in used):
        return getattr(inner.model, "dropout", None) is None
    model = inner.model
    if type(model).__name__ != "BPE" or model.dropout is not None:
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    vocabulary = inner.get_vocab(with_added_tokens=False)
    spaces = [space for space in _ACROSS if space in vocabulary]
    if model.fuse_unk and not spaces:
        return False  # unknown letters and spaces would become one token
    words = "\n".join(vocabulary)
    across = list(_ACROSS.values())
    if punctuation:
        across += [f"[{PUNCTUATION}]{space}" for space in _ACROSS]
    return not re.search("|".join(across), words)


def _alike(seams: PartBoundaries, encode: Encode) -> bool:
    for text in _nasty():
        first, *rest = seams.parts(text)
        (whole,), (front,) = encode([text], None), encode([first], None)
        (bare,) = encode([first], False)
        words = [seams.with_space(w) for part in seams.words(rest, []) for w in part]
        encoded = encode(words, False) if rest else []
        parts = [*front, *(i for ids in encoded for i in ids)]
        if whole != parts or front[len(front) - len(bare) :] != bare:
            return False
    return True


def _nasty() -> Iterator[str]:
    words = (
        "the  quick brown\tfox isn't WE'LL 1234567 and 12 345 a1b2 to\n\nthe end  of"
    )
    yield f"{words} {words}\n\n{words}  \n {words}"
    yield (
        "  It's   a caf\u00e9 and nai\u0308ve test of e\u0301 marks in it, ok ? no " * 3
    )
    yield (
        "Это тест на русском and on \u6771\u4eac \u306b to 한국어 시험 문제 שלום עולם "
        * 2
    )
    yield "x=1; def f(a, b): return a+b # well then\n    if a_b: go to the end of all"
    yield (
        "\U0001f469\u200d\U0001f467 here and \ufb01ne \u00bd of \uff21\uff22 we go on "
        * 3
    )
    yield (
        'Well, yes. No; "so" it is: (in 1990 the U.S. and Mr. X) why? Oh! It\'s 3.5 or '
        "don' t, e.g. a ... b, c ?! d.) e 'quoted' f 12, g 1,000 h i.e., j A. b B) c: "
    )
    yield "<s> in the text </s> of <|endoftext|> some <unk> one [MASK] is <pad> on it"
    yield "▁ a mark and ▁the other Ġ one at the end of Ġthis text and ## more of it"


def _state(part: Any) -> Mapping[str, Any]:
    """The serialized state of a tokenizer component; empty if missing."""
    if part is None:
        return {}
    state: Mapping[str, Any] = json.loads(part.__getstate__())
    return state


def _flat(state: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The components of a sequence, in order; a single one is a sequence too."""
    if state.get("type") == "Sequence":
        for one in state[key]:
            yield from _flat(one, key)
    elif state:
        yield state


def _any_of(texts: Any) -> re.Pattern[str] | None:
    """Case-insensitive pattern that matches any of the strings; ``None`` for none."""
    distinct = sorted(set(texts), key=len, reverse=True)
    if not distinct:
        return None
    return re.compile("|".join(map(re.escape, distinct)), re.IGNORECASE)
