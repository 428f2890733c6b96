"""The plan of a run: its requests, and the power of its gates, before anything is
sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_evals.core.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """The planned requests of a task."""

    name: str
    n_documents: int
    n_requests: int
    n_stored: int | None
    """Number of cached responses; ``None`` if that is unknown without opening the
    model."""
    n_characters: int  # total length of the prompts
    n_tokens: int | None = None
    """Estimated number of tokens, from an earlier run; ``None`` without one."""
    seconds: float | None = None  # estimated time of inference, from an earlier run
    n_generated: float | None = None
    """Estimated number of tokens of the answers that are not stored, from an earlier
    run."""
    n_faults: int = 0  # number of documents that cannot be prompted
    is_tested: bool = True  # whether the requests are to the tested model


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The power of a gate. Numbers are shares; ``None`` if unknown."""

    gate: Gate
    n: int
    last: float | None = None  # value of its metric in the earlier run
    detects: float | None = None
    """Minimum detectable effect: the smallest drop detected with a power of 0.8."""
    false_positive_rate: float | None = None
    """Probability that it fails although nothing has changed."""
    n_needed: int | None = None  # number of documents needed to detect its margin
    read: float | None = None
    """Share of the documents that early stopping is expected to run."""
    warning: str = ""
    """Why its verdict has little value; empty if there is no such reason."""
    about: str = ""  # how often models that are worse pass
    cheaper: str = ""
    """An entry of a gate that detects the same drop with fewer documents; empty without
    one."""
    n_cheaper: int = 0  # number of documents that it needs
    why: str = ""  # why nothing was computed; empty otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendPlan:
    """Requests, tokens and cost of a served model. Requests that depend on answers, and
    retries, are not known before."""

    model: str = ""  # its name; empty for the tested model of --model
    n_requests: int  # number of requests that will be sent
    n_prompt_tokens: int | None = None
    """Tokens of their prompts; ``None`` if nothing counts them."""
    is_counted: bool = False
    """Whether a tokenizer has counted them; otherwise they are estimated."""
    n_scored: int = 0  # number of log-likelihood requests, which generate one token
    most_tokens: int | None = 0
    """Highest number of generated tokens; ``None`` if a request has no limit."""
    n_generated: float | None = None
    """Estimated number of generated tokens, from an earlier run; ``None`` without one.
    """
    most_each: float = 0.0  # highest cost of one request, as spend caps count it
    prices: tuple[float, float] | None = None
    """Prices per million tokens of prompts and answers, if they are known."""
    max_requests: int = 0  # spend cap, 0 for none
    max_cost: float = 0.0  # spend cap, 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpPlan:
    """The requests to a model that depend on answers, at most."""

    model: str
    n_requests: int
    spend: SpendPlan | None = None  # their tokens and cost, if the model is served

    @property
    def cost(self) -> float | None:
        """The highest cost; ``None`` if it is unknown."""
        return None if self.spend is None else highest_cost(self.spend)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The plan of a run."""

    tasks: tuple[TaskPlan, ...]
    gates: tuple[GatePlan, ...]
    source: str = ""
    """The earlier run that the estimates are based on; empty if missing."""
    flips: float = 0.0  # assumed flip rate between two runs
    spend: tuple[SpendPlan, ...] = ()  # requests and cost, for each served model
    follow_ups: tuple[FollowUpPlan, ...] = ()  # for each model
    max_requests: int = 0  # cap of all models together, 0 for none
    max_cost: float = 0.0  # likewise


def highest_cost(plan: SpendPlan) -> float | None:
    """The cost of requests with as many generated tokens as possible; ``None`` if it is
    unknown."""
    n = plan.most_tokens
    if plan.prices is None or plan.n_prompt_tokens is None or n is None:
        return None
    return (plan.n_prompt_tokens * plan.prices[0] + n * plan.prices[1]) / 1e6


def amount(cost: float, n_digits: int = 4) -> str:
    """A cost as text, with at least this many significant digits, without exponent."""
    n_decimals = n_digits - 1 - math.floor(math.log10(cost)) if cost > 0 else 1
    return f"{cost:,.{max(2, n_decimals)}f}".rstrip("0").rstrip(".")


def cap_amount(cap: float) -> str:
    """A spend cap as in its setting."""
    return amount(cap, 12).replace(",", "")
