"""Counts of a run, one line each: documents, gates, prompts, tokens, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.core.finite import is_finite
from pytest_evals.core.gate import Outcome
from pytest_evals.core.latency import FIRST_TOKEN, PER_TOKEN, REPLY
from pytest_evals.core.result import RunResult, TaskResult, is_cut_off
from pytest_evals.core.run_plan import amount
from pytest_evals.errors import plural
from pytest_evals.reports.overview.progress import duration, has_speed

_ARE_UNKNOWN = "requests of unknown cost are"


def count_lines(result: RunResult) -> Iterator[str]:
    """Yield the lines; empty ones are omitted."""
    parts = (_documents, _gates, _prompts, _tokens, _responses)
    lines = [*(part(result) for part in parts), *_served(result)]
    lines += [_time(result)] if result.elapsed_s else []
    yield from filter(None, lines)


def _documents(result: RunResult) -> str:
    counts = Counter[str]()
    # Documents may be answered by then.
    missing = "not scored" if is_cut_off(result.partial) else "not run"
    for task in result.tasks:
        counts["correct"] += task.n_correct
        counts["wrong"] += task.n_wrong
        counts["scored"] += _neither(task)
        counts["errored"] += task.n_errored
        counts["unscored"] += task.n_unscored
        counts[missing] += task.n_missing
        counts["excluded from metrics"] += task.n_excluded
    parts = ", ".join(f"{n:,} {word}" for word, n in counts.items() if n)
    return f"documents: {parts or 'none'}"


def _neither(task: TaskResult) -> int:
    """Return the number of documents whose metrics are neither correct nor wrong."""
    return max(
        0,
        task.n_selected
        - (task.n_correct + task.n_wrong)
        - (task.n_errored + task.n_unscored + task.n_missing + task.n_excluded),
    )


def _gates(result: RunResult) -> str:
    counts = Counter(verdict.outcome for verdict in result.verdicts)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome]
    return f"gates: {', '.join(t for t in parts if t[0] != '0')}" if counts else ""


def _prompts(result: RunResult) -> str:
    """Describe the first tokens of prompts, for models that report them: an extra or
    missing token there changes every metric."""
    begin = " ".join(map(repr, result.model_info.get("first_tokens") or ()))
    rule = result.model_info.get("bos_rule")
    parts = [f"begin {begin}"] if begin else []
    parts += [f"BOS token {rule}"] if rule else []
    return f"prompts: {'; '.join(parts)}" if parts else ""


def _tokens(result: RunResult) -> str:
    read = sum(task.n_prompt_tokens for task in result.tasks)
    made = sum(task.n_tokens for task in result.tasks)
    if not read and not made:
        return ""  # the model does not report them
    text = f"tokens: {read:,} in prompts, {made:,} scored or generated"
    n = result.n_requests
    return f"{text}; {plural(n, 'request')}" if n else text


def _responses(result: RunResult) -> str:
    """Return the numbers of sent and cached responses; empty without any."""
    reuse = result.reuse
    parts = []
    if reuse.n_asked:
        parts.append(f"{reuse.n_asked:,} sent")
    if reuse.n_reused:
        took = f" (originally took {duration(reuse.elapsed_s)})"
        parts.append(f"{reuse.n_reused:,} reused from the store{took}")
    text = ", ".join(parts)
    if reuse.note:
        words = "; others not stored, because" if parts else "none stored, because"
        text += f"{words} {reuse.note}"
    return f"responses: {text}" if text else ""


def _served(result: RunResult) -> Iterator[str]:
    """Yield usage and latency of the tested model; of the others, which task files
    name, if it has none."""
    infos: Mapping[str, Mapping[str, Any]] = {"": result.model_info}
    if "usage" not in result.model_info:
        infos = result.judges
    for name, info in infos.items():
        for line in (usage_line(info), latency_line(info)):
            yield f"{name}: {line}" if name and line else line


def _time(result: RunResult) -> str:
    tokens = sum(task.n_prompt_tokens + task.n_tokens for task in result.tasks)
    if result.reuse.n_asked or result.reuse.n_reused:
        tokens = result.reuse.n_tokens  # stored responses took no time
    speed = ""
    if result.model_s > 0 and tokens and has_speed(result.model):
        speed = f" ({tokens / result.model_s:,.0f} tokens/s)"
    model = f"{duration(result.model_s)} in the model{speed}"
    return f"time: {model}, {duration(result.elapsed_s)} in all"


def usage_line(info: Mapping[str, Any]) -> str:
    """Return ``server: 20 of 1,020 requests were retries: 429 (18), timeout (2);
    cost …``; empty if there is nothing to report. ``info``: the model's info; counts
    are below ``usage``."""
    usage = info.get("usage")
    if not isinstance(usage, Mapping):
        return ""
    parts = []
    counts = {name: n for name, n in usage.items() if is_finite(n) and n >= 0}
    retried = usage.get("retried")
    if isinstance(retried, Mapping) and retried and "retries" in counts:
        known = [(why, n) for why, n in retried.items() if is_finite(n)]
        ordered = sorted(known, key=lambda one: -one[1])
        reasons = ", ".join(f"{why} ({n})" for why, n in ordered)
        n, n_all = int(counts["retries"]), int(counts.get("requests", 0))
        were = "was a retry" if n == 1 else "were retries"
        parts.append(f"{n:,} of {plural(n_all, 'request')} {were}: {reasons}")
    if "cost" in counts:
        n_in, n_out = (
            int(counts.get(f"{name}_tokens", 0)) for name in ("prompt", "completion")
        )
        unknown = int(counts.get("requests_of_unknown_cost", 0))
        least = "at least " if unknown else ""
        parts.append(
            f"cost {least}{amount(counts['cost'])} for {plural(n_in, 'token')} of "
            f"prompts and {n_out:,} of answers"
        )
        if unknown:
            are = "request of unknown cost is" if unknown == 1 else _ARE_UNKNOWN
            parts.append(f"{unknown:,} {are} not included")
    return f"server: {'; '.join(parts)}" if parts else ""


_LOCAL_S = 0.01
"""Replies of functions that are faster come from this process alone."""


def latency_line(info: Mapping[str, Any]) -> str:
    """Return ``latency (p50, p95): first token 0.2 s, 0.5 s; token …; reply …``,
    with rates; empty for a model without latencies. ``info`` is the model's info,
    see :func:`~pytest_evals.core.latency.with_latency`."""
    latency = info.get("latency")
    if not isinstance(latency, Mapping):
        return ""
    reply = latency.get(REPLY)
    if "function" in info and isinstance(reply, Mapping) and reply["p50"] < _LOCAL_S:
        return ""  # a function without a model or a server behind it
    includes = " (prompt included)" if latency.get("per_token_includes_prompt") else ""
    names = {FIRST_TOKEN: "first token", PER_TOKEN: f"per token{includes}"}
    names[REPLY] = "reply"
    parts = []
    for name, title in names.items():
        found = latency.get(name)
        if isinstance(found, Mapping):
            parts.append(f"{title} {_short(found['p50'])}, {_short(found['p95'])}")
        elif found:
            parts.append(f"{title} {found}")
    for name, unit in (("replies_per_s", "replies/s"), ("tokens_per_s", "tokens/s")):
        if name in latency:
            parts.append(f"{latency[name]:,g} {unit}")
    return f"latency (p50, p95): {'; '.join(parts)}"


def _short(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
