"""The plan of a run: its requests, and the power of its gates, before anything is
sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_evals.core.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """The planned requests of a task.

    Args:
        n_stored: Number of cached responses; ``None`` if that is unknown without
            opening the model.
        n_characters: Total length of the prompts.
        n_tokens: Estimated number of tokens, from an earlier run; ``None`` without one.
        seconds: Estimated time of inference, from an earlier run.
        n_generated: Estimated number of tokens of the answers that are not stored, from
            an earlier run.
        n_faults: Number of documents that cannot be prompted.
        is_tested: Whether the requests are to the tested model.
    """

    name: str
    n_documents: int
    n_requests: int
    n_stored: int | None
    n_characters: int
    n_tokens: int | None = None
    seconds: float | None = None
    n_generated: float | None = None
    n_faults: int = 0
    is_tested: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The power of a gate. Numbers are shares; ``None`` if unknown.

    Args:
        last: Value of its metric in the earlier run.
        detects: Minimum detectable effect: the smallest drop detected with a power of
            0.8.
        false_positive_rate: Probability that it fails although nothing has changed.
        n_needed: Number of documents needed to detect its margin.
        read: Share of the documents that early stopping is expected to run.
        warning: Why its verdict has little value; empty if there is no such reason.
        why: Why nothing was computed; empty otherwise.
    """

    gate: Gate
    n: int
    last: float | None = None
    detects: float | None = None
    false_positive_rate: float | None = None
    n_needed: int | None = None
    read: float | None = None
    warning: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendPlan:
    """Requests, tokens and cost of a served model. Requests that depend on answers, and
    retries, are not known before.

    Args:
        model: Its name; empty for the tested model of ``--model``.
        n_requests: Number of requests that will be sent.
        n_prompt_tokens: Tokens of their prompts; ``None`` if nothing counts them.
        is_counted: Whether a tokenizer has counted them; otherwise they are estimated.
        n_scored: Number of log-likelihood requests, which generate one token.
        most_tokens: Highest number of generated tokens; ``None`` if a request has no
            limit.
        n_generated: Estimated number of generated tokens, from an earlier run; ``None``
            without one.
        most_each: Highest cost of one request, as spend caps count it.
        prices: Prices per million tokens of prompts and answers, if they are known.
        max_requests: Spend cap, 0 for none.
        max_cost: Spend cap, 0 for none.
    """

    model: str = ""
    n_requests: int
    n_prompt_tokens: int | None = None
    is_counted: bool = False
    n_scored: int = 0
    most_tokens: int | None = 0
    n_generated: float | None = None
    most_each: float = 0.0
    prices: tuple[float, float] | None = None
    max_requests: int = 0
    max_cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run.

    Args:
        source: The earlier run that the estimates are based on; empty if missing.
        flips: Assumed flip rate between two runs.
        spend: Requests and cost, for each served model.
    """

    tasks: tuple[TaskPlan, ...]
    gates: tuple[GatePlan, ...]
    source: str = ""
    flips: float = 0.0
    spend: tuple[SpendPlan, ...] = ()


def amount(cost: float, n_digits: int = 4) -> str:
    """A cost as text, with at least this many significant digits, without exponent."""
    n_decimals = n_digits - 1 - math.floor(math.log10(cost)) if cost > 0 else 1
    return f"{cost:,.{max(2, n_decimals)}f}".rstrip("0").rstrip(".")


def cap_amount(cap: float) -> str:
    """A spend cap as in its setting."""
    return amount(cap, 12).replace(",", "")
