"""Normalization of log-probabilities by characters, by tokens, or by the unconditional
probability (PMI). Names as in lighteval 0.13.0 (``metrics/normalizations.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError, unknown_name
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = [
    "LogProbCharNorm",
    "LogProbNormalization",
    "LogProbPMINorm",
    "LogProbTokenNorm",
    "choice_logprobs",
    "document_logprobs",
    "normalization",
    "normalize_log_probs",
]


@dataclass(frozen=True, slots=True)
class LogProbCharNorm:
    """Log-probability per character (code point).

    Args:
        name: Suffix of metric names.
        ignore_first_space: Do not count a leading space.
    """

    name: str = "norm"
    ignore_first_space: bool = False


@dataclass(frozen=True, slots=True)
class LogProbTokenNorm:
    """Log-probability per token."""

    name: str = "norm_token"


@dataclass(frozen=True, slots=True)
class LogProbPMINorm:
    """Pointwise mutual information with the question."""

    name: str = "norm_pmi"


LogProbNormalization = LogProbCharNorm | LogProbTokenNorm | LogProbPMINorm

T = TypeVar("T")

_NAMES: Mapping[str, LogProbNormalization | None] = {
    "none": None,
    "char": LogProbCharNorm(),
    "char_ignore_first_space": LogProbCharNorm(ignore_first_space=True),
    "token": LogProbTokenNorm(),
    "pmi": LogProbPMINorm(),
}


def normalization(
    given: LogProbNormalization | str | None,
) -> LogProbNormalization | None:
    """Return a normalization given as an object or by its name in task files."""
    if not isinstance(given, str):
        return given
    if given not in _NAMES:
        raise EvalsError(unknown_name("log-probability normalization", given, _NAMES))
    return _NAMES[given]


def document_logprobs(response: ModelResponse) -> list[float]:
    """Return the log-probabilities of a document.

    Raises:
        DocumentError: They are missing.
    """
    if not len(response.logprobs):  # a task module may set an array
        raise DocumentError("the response has no log-probabilities")
    return list(response.logprobs)


def choice_logprobs(
    given: LogProbNormalization | None, doc: Doc, response: ModelResponse
) -> list[float]:
    """Return the normalized log-probabilities of a document's choices.

    Unconditional log-probabilities may also be appended to the others, as in lighteval.

    Raises:
        DocumentError: Log-probabilities, tokens or choices are missing.
    """
    n, logprobs = len(doc.choices), document_logprobs(response)
    alone = response.unconditioned_logprobs
    if alone is None and len(logprobs) == 2 * n:
        alone = logprobs[n:]
    return normalize_log_probs(
        given,
        logprobs[:n],
        alone,
        doc.choices,
        response.output_tokens[:n],
    )


def normalize_log_probs(
    normalization: LogProbNormalization | None,
    choices_logprob: Sequence[float],
    unconditioned_logprob: Sequence[float] | None,
    choices_text: Sequence[str] | None,
    choices_tokens: Sequence[Sequence[int]] | None,
) -> list[float]:
    """Return normalized log-probabilities.

    Args:
        normalization: The normalization; ``None`` for none.
        unconditioned_logprob: Log-probability of each choice without the question.
        choices_tokens: Their tokens; only their number is used.

    Raises:
        DocumentError: A required argument is missing, has a different length than the
            choices, or contains an empty choice.
    """
    if normalization is None:
        return list(choices_logprob)
    if isinstance(normalization, LogProbPMINorm):
        alone = _checked(
            unconditioned_logprob, choices_logprob, "unconditional log-probability"
        )
        return [lp - other for lp, other in zip(choices_logprob, alone, strict=True)]
    if isinstance(normalization, LogProbTokenNorm):
        tokens = _checked(choices_tokens, choices_logprob, "list of tokens")
        lengths = [len(each) for each in tokens]
    else:
        texts = _checked(choices_text, choices_logprob, "text")
        lengths = [_length(text, normalization.ignore_first_space) for text in texts]
    if not all(lengths):
        raise DocumentError(
            f"choice {lengths.index(0)} is empty; its log-probability cannot be "
            "normalized by length"
        )
    return [lp / size for lp, size in zip(choices_logprob, lengths, strict=True)]


def _length(text: str, ignore_first_space: bool) -> int:
    skipped = ignore_first_space and text.startswith(" ")
    return len(text) - skipped


def _checked(
    given: Sequence[T] | None, logprobs: Sequence[float], noun: str
) -> Sequence[T]:
    if given is None or len(given) != len(logprobs):
        n = 0 if given is None else len(given)
        raise DocumentError(
            f"the normalization needs one {noun} for each of {len(logprobs)} choices, "
            f"got {n}"
        )
    return given
