"""Requests for log-probabilities, and the capability probe of a server before the first
prompt is scored: their format, and whether they belong to the right tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_evals.core.request import Loglikelihood
from pytest_evals.errors import ModelError
from pytest_evals.models.http.errors import RequestFailedError, shortened, source_of
from pytest_evals.models.http.retries import RetryingClient
from pytest_evals.models.http.usage import object_at
from pytest_evals.models.openai.client import Reply
from pytest_evals.models.openai.prompt_logprobs import (
    LOGPROB_FORMATS,
    TOLERANCE,
    LogprobFormat,
    PromptLogprobs,
    Sent,
    logprob_of,
    of_whole,
    response_of,
    token_at,
    token_texts,
)
from pytest_evals.models.openai.request_bodies import choice_of
from pytest_evals.models.openai.settings import OpenAISettings

if TYPE_CHECKING:
    from pytest_evals.models.openai.tokenizer import ServerTokenizer

T = TypeVar("T")
PROBE = "The quick brown fox jumps over the lazy dog"
START = "The quick brown fox"
TRIAL_RETRIES = 2
N_WRITTEN = 8  # Generated tokens of the probe: too many for all to be near ties


class ScoringUnsupportedError(ModelError):
    """The server replies but returns no usable log-probabilities."""


class Candidate(NamedTuple):
    """A token after a context."""

    logprob: float
    greedy: bool  # Whether it is the generated token


@dataclass(slots=True)
class ProbedServer:
    """A server whose completions are requested with log-probabilities."""

    client: RetryingClient
    settings: OpenAISettings

    async def read(
        self, sent: Sent, form: LogprobFormat, retries: int | None = TRIAL_RETRIES
    ) -> PromptLogprobs:
        """The tokens of a prompt."""
        read, n = form.read, form.n_unlisted
        return await self._greedy(
            sent, 1, form.body, lambda reply: read(reply, sent, n), retries
        )

    async def ask_candidates(
        self, ids: Sequence[int], tokens: Sequence[int], retries: int | None = None
    ) -> Mapping[int, Candidate]:
        """The log-probabilities of tokens after a context."""
        parameters = {
            "logprobs": 1,
            "logprob_token_ids": [*tokens],
            "return_tokens_as_token_ids": True,
        }
        return await self._greedy(
            ids,
            1,
            parameters,
            lambda reply: read_candidates(of_whole(reply, ids), tokens),
            retries,
        )

    async def write(self, text: str, n_tokens: int) -> Sequence[str]:
        """The tokens of a greedy completion; empty if the server does not list them."""
        return await self._greedy(text, n_tokens, {"logprobs": 1}, token_texts)

    async def go_on(self, sent: Sent, n_tokens: int) -> str:
        """The greedy completion of a string or of token ids."""
        return await self._greedy(
            sent, n_tokens, {}, lambda reply: str(choice_of(reply).get("text"))
        )

    async def _greedy(
        self,
        sent: Sent,
        n_tokens: int,
        parameters: Mapping[str, Any],
        read: Callable[[Reply], T],
        retries: int | None = TRIAL_RETRIES,
    ) -> T:
        body = {"prompt": sent, "temperature": 0, "max_tokens": n_tokens, **parameters}
        return await self.client.ask("completions", body, read, retries)


def read_candidates(reply: Reply, tokens: Sequence[int]) -> Mapping[int, Candidate]:
    """The candidates' values in a reply; ``RequestFailedError`` if a value is missing,
    or higher than that of the generated token, which is then not the most likely one
    (penalties in the server's ``generation_config.json``)."""
    found = object_at(choice_of(reply), "logprobs")
    rows, words = found.get("top_logprobs"), found.get("tokens")
    row = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict) or not isinstance(words, list) or not words:
        raise RequestFailedError("it gives no log-probabilities of selected tokens")
    generated = re.fullmatch(r"token_id:(\d+)", str(words[0]))
    if generated is None:
        raise RequestFailedError(f"it gives {words[0]!r:.60} for a token id")
    best, highest = int(generated[1]), logprob_of(row.get(generated[0]))
    candidates: dict[int, Candidate] = {}
    for token in tokens:
        value = logprob_of(row.get(f"token_id:{token}"))
        if value is None:
            raise RequestFailedError(
                f"it gives no log-probability of the token {token}"
            )
        if highest is not None and value > highest + TOLERANCE:
            raise RequestFailedError(
                f"the token {token} is more likely than {best}, which it generated at "
                "temperature 0; turn off the server's penalties, as in extra_body="
                '{"repetition_penalty":1}'
            )
        candidates[token] = Candidate(value, token == best)
    return candidates


async def probe_format(
    server: ProbedServer, encoding: ServerTokenizer | None
) -> LogprobFormat:
    """The first format in which a server returns log-probabilities.

    Raises:
        ScoringUnsupportedError: It gives them in none; or ids mean another text to it.
        ModelError: Unknown, because the server does not reply.
    """
    reasons: list[str] = []
    kind: type[ModelError] = ScoringUnsupportedError
    for form in LOGPROB_FORMATS:
        try:
            reading = await server.read(PROBE, form)
            _check(reading)
            form = form._replace(n_unlisted=reading.n_unlisted)
            await _check_places(server, form)
            if encoding is not None:
                await _check_ids(server, encoding, form)
        except RequestFailedError as fault:
            reasons.append(f"{form.name}: {fault.text}")
            kind = ModelError if fault.retryable else kind
            continue
        return form
    details = "\n  ".join(reasons)
    source = source_of(server.settings.target, server.settings.base_url)
    raise kind(
        f"{source} cannot score texts, as tasks with log-likelihoods need "
        f"(multiple_choice, loglikelihood, loglikelihood_rolling)\n  {details}\n"
        "  fix: run tasks with output_type generate_until on this server, and the "
        "others on vLLM or with hf:"
    )


def _check(reading: PromptLogprobs) -> None:
    if len(reading.tokens) < 2:
        raise RequestFailedError("it does not repeat the text")
    if response_of(reading.tokens[1:], n_context=1).greedy is None:
        raise RequestFailedError(
            "it does not return which tokens are the most likely ones"
        )


async def _check_places(server: ProbedServer, form: LogprobFormat) -> None:
    """Check that greedily generated tokens are the most likely ones when they are
    scored as a prompt: llama-cpp-python 0.3 shifts the distributions of prompts without
    BOS by one token. Half of the tokens suffice, because of penalties and near ties;
    prompts that are tokenized differently are inconclusive."""
    words = await server.write(START, N_WRITTEN)
    text = START + "".join(words)
    reading = await server.read(text, form)
    first = token_at(reading, text, len(START)) or len(reading.tokens)
    places = takewhile(
        lambda pair: pair[0] == pair[1].text,
        zip(words, reading.tokens[first:], strict=False),
    )
    known = [token.greedy for _, token in places if token.greedy is not None]
    n_lost = known.count(False)
    if 2 * n_lost > len(known):
        raise RequestFailedError(
            f"its log-probabilities belong to other tokens: after {START!r} it writes "
            f"{shortened(''.join(words))}, and by them {n_lost} of the first "
            f"{len(known)} tokens of that are not the most likely ones"
        )


async def _check_ids(
    server: ProbedServer, encoding: ServerTokenizer, form: LogprobFormat
) -> None:
    """Check that the server's tokenizer matches the local one."""
    request = Loglikelihood("", PROBE)
    scored = encoding.scored([request])[request]
    if isinstance(scored, str):  # no BOS or prefix token
        ids, n_context = encoding.plain(PROBE), 0
    else:
        (line,) = scored
        ids, n_context = line.tokens.tolist(), len(line.tokens) - line.n_scored
    reading = await server.read(ids, form)
    # Some servers do not return the spelling of the first token.
    words = "".join(token.text for token in reading.tokens[n_context + 1 :])
    if not words or not PROBE.endswith(words):
        raise _other_tokenizer(server, f"its ids of {PROBE!r} mean {words!r} there")


async def gives_candidates(
    server: ProbedServer, ids: Sequence[int], form: LogprobFormat
) -> bool:
    """Whether a server returns the log-probabilities of selected tokens, and they are
    those of its prompts. Servers that do not know the parameter reject or ignore it."""
    context, tokens = ids[:-1], sorted({ids[-1], ids[0]})
    try:
        found = await server.ask_candidates(context, tokens, TRIAL_RETRIES)
        for token in tokens:
            reading = await server.read([*context, token], form)
            if not _is_near(found[token].logprob, reading.tokens[-1].logprob):
                return False
    except RequestFailedError:
        return False
    return True


def _is_near(one: float | None, other: float | None) -> bool:
    return None not in (one, other) and abs((one or 0) - (other or 0)) <= TOLERANCE


async def check_prompts(server: ProbedServer, encoding: ServerTokenizer) -> None:
    """Check that token ids mean the same on a server that scores nothing: its
    completion is the same as for the string. Raises ``RequestFailedError`` if it takes
    no ids, ``ScoringUnsupportedError`` if they mean another text to it."""
    expected = await server.go_on(PROBE, N_WRITTEN)
    texts = []
    # Not every server puts the special tokens of the tokenizer in front of a text.
    for ids in (encoding.prompt(PROBE), encoding.plain(PROBE)):
        texts.append(await server.go_on(ids, N_WRITTEN))
        # Half is enough: after a near tie the rest may be another one.
        if texts[-1].startswith(expected[: (len(expected) + 1) // 2]):
            return
    raise _other_tokenizer(
        server,
        f"after {PROBE!r} it writes {shortened(expected)}, and after its ids "
        f"{shortened(texts[0])}",
    )


def _other_tokenizer(server: ProbedServer, why: str) -> ScoringUnsupportedError:
    tokenizer, target = server.settings.tokenizer, server.settings.target
    return ScoringUnsupportedError(
        f"tokenizer={tokenizer} is not that of the server's {target!r}: {why}"
    )
