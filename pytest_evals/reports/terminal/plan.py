"""Plan of a run as text: number of requests, and the power of its gates."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from pytest_evals.core.run_plan import (
    GatePlan,
    RunPlan,
    SpendPlan,
    TaskPlan,
    amount,
    cap_amount,
    highest_cost,
)
from pytest_evals.errors import plural
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.overview.progress import duration
from pytest_evals.reports.overview.remarks import grouped
from pytest_evals.reports.overview.table import (
    TableColumn,
    TableLine,
    TableRow,
    table_lines,
)

_TASKS = (
    TableColumn(title="task", rank=3, least=8),
    TableColumn(title="docs", right=True),
    TableColumn(title="requests", right=True),
    TableColumn(title="prompts", right=True, rank=2),
    TableColumn(title="stored", right=True),
    TableColumn(title="time", right=True, rank=1),
)
_GATES = (
    TableColumn(title="gate", rank=5, least=12),
    TableColumn(title="claim", rank=1),
    TableColumn(title="last", right=True, rank=3),
    TableColumn(title="detects*", right=True),
    TableColumn(title="false positive", right=True),
    TableColumn(title="needs", right=True, rank=4),
    TableColumn(title="reads", right=True, rank=2),
)


def plan_lines(forecast: RunPlan, width: int) -> list[TableLine]:
    """Return two tables and warnings, at most ``width`` columns wide."""
    lines = table_lines(_TASKS, [_task(one) for one in forecast.tasks], width)
    for spend in forecast.spend:
        name = f"{spend.model}: " if spend.model else ""
        for text in _spend(spend):
            lines += _wrapped(f"{name}{text}", width)
    lines += [line for text in _follow_ups(forecast) for line in _wrapped(text, width)]
    lines += _gates(forecast, width)
    warnings = (
        f"{one.gate.task}::{one.gate.id}: {one.warning}"
        for one in forecast.gates
        if one.warning
    )
    for text in grouped(warnings):
        lines += _warning(text, width)
    for task in forecast.tasks:
        if task.n_faults:
            faulty = plural(task.n_faults, "document")
            message = f"{task.name}: {faulty} cannot be prompted"
            lines += _warning(message, width)
    return lines


def _gates(forecast: RunPlan, width: int) -> list[TableLine]:
    """Return the table of gates, and how often models that are worse pass."""
    if not forecast.gates:
        return []
    lines = [TableLine("")]
    lines += table_lines(_GATES, [_gate(one) for one in forecast.gates], width)
    lines += [TableLine(text) for text in _remarks(forecast)]
    for one in forecast.gates:
        name = f"{one.gate.task}::{one.gate.id}"
        if one.about:
            lines += _wrapped(f"- {name}: {one.about}", width)
        if one.cheaper:
            few = f"{one.n_cheaper:,} documents detect the same drop with the gate"
            lines += _wrapped(f"- {name}: {few}", width)
            lines += _wrapped(f"    - {one.cheaper}", width)
    for why, names in _uncomputed(forecast).items():
        lines += _wrapped(f"- {', '.join(names)}: {why}", width)
    return lines


def _spend(plan: SpendPlan) -> Iterator[str]:
    """Describe requests, tokens, cost and caps; ``~`` marks estimates."""
    parts = [plural(plan.n_requests, "request")]
    if plan.n_prompt_tokens is not None:
        tokens = plural(plan.n_prompt_tokens, "prompt token")
        counts = "" if plan.model else "; tokenizer= counts them"
        estimated = f"at 4 bytes per token{counts}"
        parts.append(tokens if plan.is_counted else f"~{tokens} ({estimated})")
        generated = "generated tokens without a limit"
        if plan.most_tokens is not None:
            generated = f"at most {plural(plan.most_tokens, 'generated token')}"
        if plan.n_generated is not None:
            generated += f", ~{plan.n_generated:,.0f} by the last run"
        parts.append(generated)
    yield f"to send, without retries, probes and follow-up requests: {'; '.join(parts)}"
    most = _cost(plan, plan.most_tokens)
    if plan.prices is not None:
        sign = "" if plan.is_counted else "~"
        prompts = f"at least {sign}{amount(_cost(plan, 0) or 0)}, for prompts alone"
        usual = _cost(plan, plan.n_generated)
        yield "".join(
            (
                f"cost: {prompts if most is None else f'at most {sign}{amount(most)}'}",
                "" if usual is None else f", ~{amount(usual)} by the last run",
            )
        )
    if plan.max_requests:
        left = plan.n_requests - plan.max_requests
        fits = (
            f"{left:,} request{'s remain' if left > 1 else ' remains'} for later runs"
            if left > 0
            else "not expected to be reached"
        )
        yield f"max_requests={plan.max_requests}: {fits}"
    if plan.max_cost:
        yield f"max_cost={cap_amount(plan.max_cost)}: {_fit(plan, most)}"


def _follow_ups(forecast: RunPlan) -> Iterator[str]:
    """Describe the requests that depend on answers, and all requests together."""
    for one in forecast.follow_ups:
        parts = [f"at most {one.n_requests:,}"]
        spend = one.spend
        if spend is not None and spend.n_prompt_tokens and spend.most_tokens:
            parts.append(f"at most {plural(spend.most_tokens, 'generated token')}")
        if one.cost is not None:
            parts.append(f"cost at most ~{amount(one.cost)}")
        yield f"follow-up requests to {one.model}: {'; '.join(parts)}"
    caps = forecast.max_requests or forecast.max_cost
    if not (forecast.follow_ups or caps):
        return
    n = sum(one.n_requests for one in forecast.spend)
    n += sum(one.n_requests for one in forecast.follow_ups)
    costs = [highest_cost(one) for one in forecast.spend]
    costs += [one.cost for one in forecast.follow_ups]
    known = [one for one in costs if one is not None]
    text = f"in all: at most {plural(n, 'request')}"
    if known:
        text += f"; cost at most ~{amount(sum(known))}"
        text += " for models with prices" * (len(known) < len(costs))
    yield text
    words = ("not expected to be reached", "may be reached")
    if most := forecast.max_requests:
        yield f"max_requests={most}: {words[n > most]}"
    if forecast.max_cost:
        is_reached = sum(known) > forecast.max_cost
        yield f"max_cost={cap_amount(forecast.max_cost)}: {words[is_reached]}"


def _fit(plan: SpendPlan, most: float | None) -> str:
    """Return whether a cap may be reached: each request is sent only if its highest
    cost still fits."""
    if plan.most_each > plan.max_cost:
        return (
            f"too low: one request may cost ~{amount(plan.most_each)}; raise it, or "
            "lower max_gen_toks"
        )
    is_enough = most is not None and most + plan.most_each <= plan.max_cost
    return "not expected to be reached" if is_enough else "may be reached"


def _cost(plan: SpendPlan, n_generated: float | None) -> float | None:
    if plan.prices is None or plan.n_prompt_tokens is None or n_generated is None:
        return None
    return (plan.n_prompt_tokens * plan.prices[0] + n_generated * plan.prices[1]) / 1e6


def _uncomputed(forecast: RunPlan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in forecast.gates:
        if one.why:
            found.setdefault(one.why, []).append(f"{one.gate.task}::{one.gate.id}")
    return found


def _warning(text: str, width: int) -> list[TableLine]:
    return _wrapped(f"warning: {text}", width, {"yellow": True})


def _wrapped(
    text: str, width: int, markup: Mapping[str, bool] | None = None
) -> list[TableLine]:
    parts = textwrap.wrap(one_line(text), max(width, 20), subsequent_indent="    ")
    return [TableLine(one_line(part), markup or {}) for part in parts]


def _task(one: TaskPlan) -> TableRow:
    n, noun = one.n_characters, "character"
    if one.n_tokens is not None:
        n, noun = one.n_tokens, "token"
    near = "" if one.n_tokens is None else "~"
    prompts = f"{near}{_short(n)} {noun}{'s' * (n != 1)}"
    return TableRow(
        (
            one_line(one.name),
            f"{one.n_documents:,}",
            f"{one.n_requests:,}",
            prompts,
            "?" if one.n_stored is None else f"{one.n_stored:,}",
            "?" if one.seconds is None else f"~{duration(one.seconds)}",
        )
    )


def _gate(one: GatePlan) -> TableRow:
    return TableRow(
        (
            one_line(f"{one.gate.task}::{one.gate.id}"),
            one_line(one.gate.text),
            "-" if one.last is None else f"{one.last:.3f}",
            "-" if one.detects is None else f"{100 * one.detects:.1f} pt",
            "-"
            if one.false_positive_rate is None
            else _percent(one.false_positive_rate),
            "-" if one.n_needed is None else f"{one.n_needed:,} docs",
            "" if one.read is None else f"{100 * one.read:.0f}%",
        ),
        {"yellow": True} if one.warning else {},
    )


def _remarks(forecast: RunPlan) -> Iterator[str]:
    yield (
        "* smallest drop detected at 80% power if "
        f"{_percent(forecast.flips)} of answers flip between two runs;"
    )
    yield "  false positive: probability of failing although nothing has changed"
    if any(one.n_needed is not None for one in forecast.gates):
        yield "  needs: documents that decide it in 80% of runs if the number stays"
    if forecast.source:
        yield f"  computed from {one_line(forecast.source)}"
    elif any(one.last is not None for one in forecast.gates):
        yield "  no earlier run: computed from the expected values of gates"
    else:
        yield "  no earlier run: the numbers are unknown"


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.1f}%"


def _short(n: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if n >= size:
            return f"{n / size:.1f} {letter}"
    return str(n)
