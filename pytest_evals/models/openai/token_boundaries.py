"""First token of a continuation among the tokens of context and continuation.

The continuation consists of the tokens beyond the length of the encoded context
(lm-eval 0.4.13, ``api/model.py``, ``_encode_pair``). If a token starts exactly where
the continuation does, it is the first one: merges of byte-pair tokenizers do not cross
a boundary that remains in the final tokens. Otherwise the tokens of the context alone
are requested. If the combined tokens do not start with those, lm-eval's input is not
the encoding of any string, and a server that receives strings cannot reproduce it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from pytest_evals.models.openai.prompt_logprobs import MOST_SPECIAL, PromptLogprobs


def move_whitespace(context: str, continuation: str) -> tuple[str, str]:
    """Both strings, with trailing white space of the context moved to the
    continuation."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def token_at(reading: PromptLogprobs, text: str, at: int) -> int | None:
    """Index of the token that starts at a character of the text; ``None`` if the text
    alone does not determine it.

    Args:
        reading: The tokens of the text.
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
    """Whether a text starts with the tokens of its context, spelled identically; the
    first token is not compared, since some servers do not return its spelling."""
    n = len(context.tokens)
    pairs = zip(reading.tokens[1:n], context.tokens[1:], strict=True)
    return all(one.text == other.text for one, other in pairs)


def _starts(reading: PromptLogprobs, text: str) -> Sequence[int] | None:
    """Start of each token in the text, ascending; below 0 for special tokens at the
    start. ``None`` if tokens and text do not match, as with split characters and no
    offsets."""
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
    """Whether the server's offsets match this text: each token occurs at its offset,
    except for parts of characters, which are spelled differently."""
    if offsets[0] != 0 or any(b < a for a, b in pairwise(offsets)):
        return False
    if not all(o < len(text) for o in offsets):
        return False
    return all(
        text.startswith(word, at) or word.startswith("bytes:") or "\ufffd" in word
        for word, at in zip(words, offsets, strict=True)
    )
