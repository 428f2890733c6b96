"""Where a continuation begins among the tokens of context and continuation.

The rule is that of one encoding of both (lm-eval 0.4.13, ``api/model.py``,
``_encode_pair``): the continuation has what comes after as many tokens as the context
has alone. When a token begins where the continuation does, that is the place: no merge
of a byte-pair tokenizer reaches over an edge that is still there in the end, so the
tokens before it are the context's own. Everywhere else the context's own tokens must be
asked for. If both texts do not begin with them, then lm-eval has the model read what no
text is encoded to, and a server that is sent texts cannot be made to.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from pytest_evals.models.openai.prompt_logprobs import MOST_SPECIAL, PromptLogprobs


def move_whitespace(context: str, continuation: str) -> tuple[str, str]:
    """Both texts, with the white space at the end of the context moved over."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def token_at(reading: PromptLogprobs, text: str, at: int) -> int | None:
    """The first token of what begins at a place in the text; ``None`` if that cannot be
    told from the text alone.

    Args:
        reading: The tokens of the text.
        text: The whole text.
        at: A place in it, in characters.
    """
    starts = _starts(reading, text)
    if starts is None:
        return None
    first = bisect_left(starts, at)
    if first == len(starts) or starts[first] != at or not reading.tokens[first].text:
        return None
    return first


def begins_with(reading: PromptLogprobs, context: PromptLogprobs) -> bool:
    """Whether a text begins with the tokens of its context, spelled alike; not every
    server says how the first one is spelled."""
    n = len(context.tokens)
    pairs = zip(reading.tokens[1:n], context.tokens[1:], strict=True)
    return all(one.text == other.text for one, other in pairs)


def _starts(reading: PromptLogprobs, text: str) -> Sequence[int] | None:
    """Where each token begins in the text, ascending; below 0 for special tokens in
    front. ``None`` if tokens and text do not agree, as when a character is cut in two
    and the server says no places."""
    words = [token.text for token in reading.tokens]
    for n in reversed(range(min(MOST_SPECIAL, len(words)) + 1)):
        if "".join(words[n:]) == text:
            return [*range(-n, 0), *_begins(words[n:])]
    offsets = reading.offsets
    return offsets if offsets and _agrees(words, offsets, text) else None


def _begins(words: Sequence[str]) -> list[int]:
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word)
    return starts


def _agrees(words: Sequence[str], offsets: Sequence[int], text: str) -> bool:
    """Whether the server's places are places in this text: each token stands there, but
    for parts of characters, which are spelled in some other way."""
    if offsets[0] != 0 or any(b < a for a, b in pairwise(offsets)):
        return False
    if not all(o < len(text) for o in offsets):
        return False
    return all(
        text.startswith(word, at) or _is_part(word)
        for word, at in zip(words, offsets, strict=True)
    )


def _is_part(word: str) -> bool:
    return word.startswith("bytes:") or "\ufffd" in word
