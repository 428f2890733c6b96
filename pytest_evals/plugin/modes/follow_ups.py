"""The requests that conversations, juries and repeats can take at most, before any is
sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.model import ModelOpener
from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import FollowUpPlan, SpendPlan, amount
from pytest_evals.errors import EvalsError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.registry import parse_spec, spend_plan
from pytest_evals.plugin.documents import DocItem
from pytest_evals.run.request_bound import later_requests

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

_SAMPLE = 50  # documents of a task whose dialogues are tried for the line before a run


def follow_up_plans(
    session: EvalSession, items: Sequence[DocItem]
) -> Iterator[FollowUpPlan]:
    """Yield the highest number and cost of follow-up requests of each model."""
    for source, requests in _requests(session, items).items():
        yield FollowUpPlan(
            model=name_of(source),
            n_requests=len(requests),
            spend=_known_spend(session, source, requests),
        )


def follow_up_line(session: EvalSession, items: Sequence[object]) -> list[str]:
    """The line before a run: the highest number and cost of follow-up requests; none
    without any. Of many documents some are tried."""
    documents = [one for one in items if isinstance(one, DocItem)]
    documents = [one for one in documents if one.job.task.longest is not None]
    if not documents:
        return []
    step = max(1, len(documents) // _SAMPLE)
    tried = documents[::step]
    share = len(documents) / len(tried)
    plans = [*follow_up_plans(session, tried)]
    n = round(sum(one.n_requests for one in plans) * share)
    if not n:
        return []
    sign = "~" if len(tried) < len(documents) else ""
    costs = [one.cost for one in plans]
    known = [one for one in costs if one is not None]
    cost = f", cost at most ~{amount(sum(known) * share)}" if known else ""
    if known and len(known) < len(costs):
        cost += " for models with prices"
    return [f"evals: follow-up requests at most: {sign}{n:,}{cost}"]


def _requests(
    session: EvalSession, items: Sequence[DocItem]
) -> Mapping[ModelSource, list[Request]]:
    found: dict[ModelSource, list[Request]] = {}
    for item in items:
        task = item.job.task
        if task.longest is None:
            continue
        record = session.models.requests_of(item)
        if record.error:
            continue
        for model, request in later_requests(record, task):
            found.setdefault(_source(session, item, model), []).append(request)
    return found


def _source(session: EvalSession, item: DocItem, model: str) -> ModelSource:
    if not model:
        return session.run.config.full_spec
    source = item.job.task.models[model]
    return (session.options.judge or "judge") if source == JUDGE else source


def spend_of(
    session: EvalSession, source: ModelSource, requests: Sequence[Request]
) -> SpendPlan | None:
    """Return tokens and cost of requests; ``None`` if they are unknown.

    Raises:
        EvalsError: The spec of the model is invalid.
    """
    if isinstance(source, ModelOpener):
        return source.spend_plan(requests)
    if not isinstance(source, str) or session.run.inference.answers.is_hooked(source):
        return None
    return spend_plan(parse_spec(source), requests)


def _known_spend(
    session: EvalSession, source: ModelSource, requests: Sequence[Request]
) -> SpendPlan | None:
    try:
        return spend_of(session, source, requests)
    except EvalsError:
        return None


def name_of(source: ModelSource) -> str:
    """A model's name in the plan."""
    if isinstance(source, ModelOpener):
        return source.name
    if not isinstance(source, str):
        return str(getattr(source, "__name__", "a model"))
    try:
        spec = parse_spec(source)
    except EvalsError:
        return masked_text(source)
    return f"{spec.kind}:{masked_text(spec.target)}"
