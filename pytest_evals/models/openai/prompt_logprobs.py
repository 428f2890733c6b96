"""Log-probabilities of a prompt's tokens in a server's reply.

Two formats exist: ``echo`` with ``logprobs`` (OpenAI's completions; vLLM, SGLang), and
``prompt_logprobs`` (vLLM). Both request one new token, which is dropped: many servers
do not accept zero.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pytest_evals.core.request import Response
from pytest_evals.core.top_logprobs import MAX_LOGPROB
from pytest_evals.models.http.errors import RequestFailedError, shortened
from pytest_evals.models.http.usage import object_at, tokens_of
from pytest_evals.models.openai.client import Reply
from pytest_evals.models.openai.request_bodies import choice_of

BROKEN = "\ufffd"
HALF = math.log(0.5)
TOLERANCE = 0.25
"""Nats by which two log-probabilities of a token may differ: logits in half precision
are multiples of 1/16 or 1/8."""
MOST_SPECIAL = 3  # Maximum of special tokens that a server may prepend
_NO_FIRST = (
    "the first token has no log-probability, since the server puts no token before a "
    "text; name one that it knows, as in prefix=<|endoftext|>"
)


_LISTS = ("tokens", "token_logprobs", "top_logprobs")
Sent = str | Sequence[int]  # A prompt: a string, or token ids


class PromptToken(NamedTuple):
    """One token of a prompt."""

    text: str
    logprob: float | None
    """In nats, after all tokens before it; ``None`` for the first one."""
    greedy: bool | None  # Whether no other token was more likely; ``None`` if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLogprobs:
    """The tokens of a prompt with their log-probabilities."""

    tokens: tuple[PromptToken, ...]
    """All tokens of the prompt, including prepended special tokens."""
    offsets: tuple[int, ...] = ()  # Start of each token in characters, if returned
    n_unlisted: int = 0
    """Tokens that the server counts as the text's and does not list, such as BOS
    (llama-cpp-python 0.3)."""


class LogprobFormat(NamedTuple):
    """A way to request log-probabilities of a prompt.

    ``body`` contains the request's parameters; ``read`` parses a reply, given the
    prompt and ``n_unlisted`` of a plain prompt.
    """

    name: str
    body: Mapping[str, Any]
    read: Callable[[Reply, Sent, int], PromptLogprobs]
    n_unlisted: int = 0


def response_of(tokens: Sequence[PromptToken], n_context: int) -> Response:
    """The response for scored tokens after ``n_context`` others; ``RequestFailedError``
    if one of them has no log-probability, or an impossible one."""
    logprobs: list[float] = []
    for number, token in enumerate(tokens):
        if token.logprob is None:
            raise RequestFailedError(
                _NO_FIRST
                if n_context + number == 0
                else f"it gives no log-probability for {token.text!r}"
            )
        if token.greedy is False and token.logprob > HALF + TOLERANCE:
            raise RequestFailedError(
                f"it gives {token.logprob:g} for {token.text!r}, and another token is "
                "more likely: the probabilities of both add up to more than 1"
            )
        logprobs.append(token.logprob)
    flags = {token.greedy for token in tokens}
    return Response(
        logprob=total(logprobs),
        greedy=False if False in flags else None if None in flags else True,
        n_prompt_tokens=n_context,
        n_tokens=len(tokens),
    )


def total(logprobs: Iterable[float]) -> float:
    """The sum of log-probabilities; minus infinity if it is below all floats, as for
    servers that give the lowest float for a probability of 0."""
    try:
        return math.fsum(logprobs)
    except OverflowError:
        return -math.inf


def _read_echo(reply: Reply, sent: Sent, n_unlisted: int) -> PromptLogprobs:
    """``choices[0].logprobs`` with ``tokens``, ``token_logprobs``, ``top_logprobs`` and
    ``text_offset``, of the text and of the new token after it."""
    found = choice_of(reply).get("logprobs")
    if not isinstance(found, dict):
        raise RequestFailedError(
            f"it gives no log-probabilities: {shortened(str(reply))}"
        )
    for name in _LISTS:
        if not isinstance(found.get(name), list):
            raise RequestFailedError(
                f"its logprobs have no list of {name}: {shortened(str(found))}"
            )
    texts, values, tops = (found[name] for name in _LISTS)
    if not len(texts) == len(values) == len(tops):
        raise RequestFailedError(
            "its lists of tokens and log-probabilities differ in length"
        )
    if not all(isinstance(t, str) for t in texts):
        raise RequestFailedError("its tokens are not strings")
    offsets: Any = found.get("text_offset")
    known = isinstance(offsets, list) and len(offsets) == len(texts)
    places: list[int] = (
        offsets if known and all(type(value) is int for value in offsets) else []
    )
    n = _n_read(texts, reply, sent, n_unlisted)
    if values and values[0] == 0:  # some servers have no null for the first token
        values = [None, *values[1:]]
    pairs = zip(texts, map(logprob_of, values), tops, strict=True)
    tokens = [PromptToken(t, value, _is_top(t, value, top)) for t, value, top in pairs]
    return PromptLogprobs(
        tokens=tuple(tokens[:n]),
        offsets=tuple(places[:n]),
        n_unlisted=max(0, tokens_of(reply)[0] - n),
    )


def _n_read(texts: Sequence[str], reply: Reply, sent: Sent, n_unlisted: int) -> int:
    """Number of prompt tokens in the reply, without generated ones.

    The server's own counts are the last resort: that of the prompt may include a BOS
    token that is not listed. All generated tokens have to be in the list; otherwise a
    generated token might replace a missing one."""
    n_in, n_out = tokens_of(reply)
    if not isinstance(sent, str):
        return _n_sent(len(texts) - n_out, sent, most=len(sent) + (not n_out))
    if n_in and len(texts) <= n_out:
        raise RequestFailedError("it does not repeat the text")
    for n_special in range(min(MOST_SPECIAL, len(texts)) + 1):
        for n in (len(texts) - 1, len(texts)):
            if n > n_special and "".join(texts[n_special:n]) == sent:
                return n
    n = n_in - n_unlisted
    if n > 0 and len(texts) == n + n_out:
        return n
    raise RequestFailedError(
        f"the tokens of {shortened(sent)} cannot be distinguished from those generated "
        f"after it: {shortened(''.join(texts))}"
    )


def of_whole(reply: Reply, sent: Sequence[int]) -> Reply:
    """The reply, unless the server counts other than the token ids that were sent, such
    as one that cuts long prompts. Servers need not report a count."""
    _n_sent(tokens_of(reply)[0] or len(sent), sent, most=len(sent))
    return reply


def _n_sent(n: int, sent: Sequence[int], most: int) -> int:
    """Number of ids sent, if the server processed exactly these."""
    if not len(sent) <= n <= most:
        raise RequestFailedError(
            f"it read {n} tokens where {len(sent)} token ids were sent"
        )
    return len(sent)


def _is_top(text: str, logprob: float | None, top: Any) -> bool | None:
    """Whether a token is as likely as the most likely one (lm-eval 0.4.13,
    ``openai_completions.py``, ``parse_logprobs``).

    ``top`` maps spellings, and all parts of characters may have the same spelling: a
    single entry may have replaced a more likely one."""
    if not isinstance(top, dict) or not top or logprob is None:
        return None
    other = logprob_of(top.get(text)) if len(top) == 2 else None
    if other is not None and abs(other - logprob) > TOLERANCE:
        raise RequestFailedError(
            f"its lists have {logprob:g} and {other:g} for the same token {text!r}"
        )
    if BROKEN in text and list(top) == [text] and logprob <= HALF:
        return None
    values = [value for value in map(logprob_of, top.values()) if value is not None]
    return logprob >= max(values) if values else None


def token_texts(reply: Reply) -> tuple[str, ...]:
    """The tokens of a completion with ``logprobs``; empty if not returned."""
    words = object_at(choice_of(reply), "logprobs").get("tokens")
    sound = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return tuple(words) if sound and words else ()


def _read_prompt_logprobs(reply: Reply, sent: Sent, _n_unlisted: int) -> PromptLogprobs:
    """``choices[0].prompt_logprobs``: for each token ``null``, or a mapping of its id
    to ``logprob``, ``rank`` and ``decoded_token``."""
    found = choice_of(reply).get("prompt_logprobs")
    if not isinstance(found, list) or not found:
        raise RequestFailedError(
            f"it gives no prompt_logprobs: {shortened(str(reply))}"
        )
    first, *rest = [
        PromptToken("", None, None) if i == 0 and one is None else _entry(one)
        for i, one in enumerate(found)
    ]
    known = "".join(token.text for token in rest)
    if not isinstance(sent, str):
        _n_sent(len(found), sent, most=len(sent))
        for token, entry in zip(sent, found, strict=True):
            if entry is not None and str(token) not in entry:
                raise RequestFailedError(
                    f"its prompt_logprobs have {shortened(str(entry))} for the token "
                    f"{token}"
                )
    elif len(found) != (tokens_of(reply)[0] or len(found)):
        raise RequestFailedError(
            f"its prompt_logprobs have {len(found)} of the prompt's "
            f"{tokens_of(reply)[0]} tokens"
        )
    elif found[0] is None and sent.endswith(known):
        # The first token is unknown: a special one, or the start of the text.
        first = first._replace(text=sent[: len(sent) - len(known)])
    return PromptLogprobs(tokens=(first, *rest))


def _entry(entry: Any) -> PromptToken:
    is_single = isinstance(entry, dict) and len(entry) == 1
    one = next(iter(entry.values())) if is_single else None
    if not isinstance(one, dict) or "logprob" not in one:
        raise RequestFailedError(f"its prompt_logprobs hold {shortened(str(entry))}")
    rank, word = one.get("rank"), one.get("decoded_token")
    greedy = rank == 1 if isinstance(rank, int) else None
    text = word if isinstance(word, str) else ""
    return PromptToken(text, logprob_of(one["logprob"]), greedy)


def logprob_of(value: Any) -> float | None:
    """A log-probability; ``None`` if missing. Raises ``RequestFailedError`` if it is
    not the logarithm of a probability."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number) or number > MAX_LOGPROB:
        raise RequestFailedError(f"it gives {value!r:.60} for a log-probability")
    return number


def token_at(reading: PromptLogprobs, text: str, at: int) -> int | None:
    """Index of the token that starts at a character of the text; ``None`` if the text
    alone does not determine it.

    The continuation of a context consists of the tokens beyond the length of the
    encoded context (lm-eval 0.4.13, ``api/model.py``, ``_encode_pair``). If a token
    starts exactly where the continuation does, it is the first one: merges of byte-pair
    tokenizers do not cross a boundary that remains in the final tokens. Otherwise the
    tokens of the context alone are requested. If the combined tokens do not start with
    those (:func:`begins_with`), lm-eval's input is not the encoding of any string, and
    a server that receives strings cannot reproduce it.
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
            ends = accumulate(map(len, words[n:]), initial=0)
            return [*range(-n, 0), *ends][:-1]
    offsets = reading.offsets
    return offsets if offsets and _agrees(words, offsets, text) else None


def _agrees(words: Sequence[str], offsets: Sequence[int], text: str) -> bool:
    """Whether the server's offsets match this text: each token occurs at its offset,
    except for parts of characters, which are spelled differently."""
    if offsets[0] != 0 or any(b < a for a, b in pairwise(offsets)):
        return False
    return offsets[-1] < len(text) and all(
        text.startswith(word, at) or word.startswith("bytes:") or BROKEN in word
        for word, at in zip(words, offsets, strict=True)
    )


LOGPROB_FORMATS = (
    LogprobFormat("echo", {"echo": True, "logprobs": 1}, _read_echo),
    LogprobFormat("prompt_logprobs", {"prompt_logprobs": 0}, _read_prompt_logprobs),
)
"""Formats in the order in which they are tried."""
