"""SGLang's own ``/generate``: log-probabilities from a position of the prompt on, and
of selected tokens.

SGLang's completions take neither: ``echo`` scores whole prompts and does not read the
prefix cache. With ``logprob_start_len``, tokens before that position come from the
cache (SGLang 0.5.23: ``GenerateReqInput``, ``Req._compute_max_prefix_len``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.models.openai.candidates import Candidate, candidates_of
from pytest_evals.models.openai.client import Reply
from pytest_evals.models.openai.errors import RequestFailedError, shortened
from pytest_evals.models.openai.prompt_logprobs import (
    TOLERANCE,
    PromptToken,
    logprob_of,
)


def span_body(start: int) -> dict[str, Any]:
    """Parameters of a request for the log-probabilities of the tokens after
    ``start``."""
    return {"logprob_start_len": start, "top_logprobs_num": 1}


def selection_body(tokens: Sequence[int]) -> dict[str, Any]:
    """Parameters of a request for the log-probabilities of selected next tokens."""
    return {"token_ids_logprob": [*tokens]}


def read_span(reply: Reply, ids: Sequence[int], start: int) -> tuple[PromptToken, ...]:
    """The tokens after ``start`` in a reply; the token at ``start`` has no
    log-probability in it.

    Raises:
        RequestFailedError: The reply is for other tokens or incomplete.
    """
    rows = _rows(reply, "input_token_logprobs")
    tops = _rows(reply, "input_top_logprobs")
    if [row[1] for row in map(_row, rows)] != list(ids[start:]):
        raise RequestFailedError(
            f"it gives log-probabilities of {len(rows)} tokens that are not the last "
            f"{len(ids) - start} token ids of the prompt"
        )
    if len(tops) != len(rows):
        raise RequestFailedError("its lists of log-probabilities differ in length")
    tokens = []
    for row, top in zip(rows[1:], tops[1:], strict=True):
        logprob = logprob_of(row[0])
        best = logprob_of(_row(top[0])[0]) if isinstance(top, list) and top else None
        tokens.append(PromptToken("", logprob, _is_top(logprob, best)))
    return tuple(tokens)


def _is_top(logprob: float | None, best: float | None) -> bool | None:
    if logprob is None or best is None:
        return None
    if logprob > best + TOLERANCE:
        raise RequestFailedError(
            f"it gives {logprob:g} for a token, and {best:g} for the most likely one"
        )
    return logprob >= best


def read_selection(reply: Reply, tokens: Sequence[int]) -> Mapping[int, Candidate]:
    """The values of selected next tokens in a reply.

    Raises:
        RequestFailedError: One is missing.
    """
    (best, *_) = _rows(reply, "output_token_logprobs")
    (found, *_) = _rows(reply, "output_token_ids_logprobs")
    values = {
        row[1]: logprob_of(row[0])
        for row in map(_row, found if isinstance(found, list) else ())
    }
    highest, generated = _row(best)[:2]
    chosen = {token: values.get(token) for token in tokens}
    return candidates_of(chosen, generated, logprob_of(highest))


def _rows(reply: Reply, name: str) -> list[Any]:
    meta = reply.get("meta_info")
    rows = meta.get(name) if isinstance(meta, dict) else None
    if not isinstance(rows, list) or not rows:
        raise RequestFailedError(f"it gives no {name}: {shortened(str(reply))}")
    return rows


def _row(row: Any) -> list[Any]:
    """An entry of a list: log-probability, token id and text."""
    if not isinstance(row, list) or len(row) < 2 or type(row[1]) is not int:
        raise RequestFailedError(f"it gives {row!r:.60} for a token")
    return row
