"""A run as Markdown for a pull request: failed gates first, then the table, then the
documents that got worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_evals.core.comparison import Comparison, DocumentChange, MetricChange
from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.record import Status
from pytest_evals.core.result import RunResult, TaskResult
from pytest_evals.errors import plural
from pytest_evals.gates.terms import figure
from pytest_evals.reports.details.examples import error_of, ids_by_index
from pytest_evals.reports.details.gate import gate_lines
from pytest_evals.reports.escape import cut, tail
from pytest_evals.reports.github.markdown import code, details, fenced, plain, table
from pytest_evals.reports.overview.counts import count_lines
from pytest_evals.reports.overview.remarks import remarks
from pytest_evals.reports.overview.rows import run_columns, run_rows, verdict_word
from pytest_evals.reports.terminal.comparison import change_cells

Changes = Mapping[tuple[str, str], Sequence[DocumentChange]]
"""For each task and gate id, the documents that flipped from correct to wrong."""

_SHOWN = 10
"""Maximum number of documents of each kind."""
_ROWS = 300
"""Above this number of rows, the table shows only those with a gate."""
_LONGEST = 100
"""Maximum characters of a prompt, an answer or a target."""
_NOTE = 200
"""Bytes reserved for the note about omitted sections."""
_SIGNS = {
    Outcome.PASSED: "✅",
    Outcome.FAILED: "❌",
    Outcome.INVALID: "❌",
    Outcome.INCONCLUSIVE: "⚠️",
    Outcome.SKIPPED: "⚪",
    Outcome.PENDING: "⏳",
}


def run_markdown(result: RunResult, most: int, changes: Changes | None = None) -> str:
    """Return the Markdown, with a final line break.

    Args:
        most: Maximum bytes; sections that do not fit are omitted, the last first.
        changes: Regressions behind the gates that did not pass.
    """
    sections = [_head(result), _table(result)]
    shown = [v for v in result.verdicts if v.is_red] + [
        v for v in result.verdicts if not v.is_red and v.outcome is Outcome.INCONCLUSIVE
    ]
    results = {task.task.name: task for task in result.tasks}
    groups = {group.group.name: group for group in result.groups}
    for i, verdict in enumerate(shown):
        name = verdict.gate.task
        lines = gate_lines(verdict, groups.get(name) or results[name])
        worse = (changes or {}).get((name, verdict.gate.id), ())
        sections.append(_gate(verdict, lines, worse, is_first=i == 0))
    sections += _errors(result)
    if result.comparison is not None:
        sections += _comparison(result.comparison)
    notes = "\n".join(f"- {plain(text)}" for text, _ in remarks(result))
    sections.append(details("Notes", notes) if notes else "")
    sections.append(fenced(count_lines(result)))
    return _fitting(sections, most)


def _head(result: RunResult) -> str:
    counts = Counter(verdict.outcome for verdict in result.verdicts)
    n_errors = sum(task.n_errored + task.n_unscored for task in result.tasks)
    n_gates = counts.total()
    outcomes = ", ".join(f"{n} {one.value}" for one, n in _in_order(counts))
    parts = [f"{outcomes} of {plural(n_gates, 'gate')}" * bool(n_gates)]
    lacking = f"{plural(n_errors, 'document')} without a score"
    parts += [lacking] * bool(n_errors)
    is_red = n_errors or any(verdict.is_red for verdict in result.verdicts)
    judged = {verdict.outcome for verdict in result.verdicts if not verdict.left_out}
    has_judged = bool(judged) or not result.verdicts
    only_green = judged <= {Outcome.PASSED} and has_judged and not result.partial
    sign = "❌" if is_red else "✅" if only_green else "⚠️"
    lines = [f"## {sign} evals: {'; '.join(filter(None, parts)) or 'no gates'}", ""]
    lines.append(f"Model {code(result.model)}.")
    if result.partial:
        lines.append(f"**A partial run:** {plain(result.partial)}.")
    return "\n".join(lines)


def _in_order(counts: Mapping[Outcome, int]) -> Iterator[tuple[Outcome, int]]:
    """Return the non-empty sections, the worst first."""
    bad = (Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE)
    for outcome in (*bad, Outcome.SKIPPED, Outcome.PASSED):
        if counts.get(outcome):
            yield outcome, counts[outcome]


def _table(result: RunResult) -> str:
    rows = [row.cells for row in run_rows(result)]
    lines = []
    if len(rows) > _ROWS:
        lines = ["", f"{len(rows):,} rows in all; these are the ones with a gate."]
        rows = [cells for cells in rows if cells[-1]][:_ROWS]
    change = next(c.title for c in run_columns(result) if c.title.startswith("change"))
    heading = ("task", "docs:", "metric", "value:", f"{change}:", "gate", "verdict")
    cells = [heading, *map(_cells, rows)]
    if not any(row[4] for row in cells[1:]):
        cells = [(*row[:4], *row[5:]) for row in cells]
    return "\n".join([table(cells[0], cells[1:]), *lines]) if rows else ""


def _cells(cells: Sequence[str]) -> tuple[str, ...]:
    name, docs, _, filter_, metric, value, error, change, claim, word = cells
    depth = (len(name) - len(name.lstrip(" "))) * 2
    key = f"{metric},{filter_}" if filter_ else metric
    signs = (s for o, s in _SIGNS.items() if word.lower().startswith(o.value))
    return (
        "&nbsp;" * depth + code(name.lstrip(" ").removeprefix("- ")),
        plain(docs),
        code(key),
        plain(f"{value} {error}".strip()),
        plain(change),
        code(claim),
        f"{next(signs, '')} {plain(word)}".strip(),
    )


def _gate(
    verdict: Verdict,
    lines: Sequence[str],
    worse: Sequence[DocumentChange],
    *,
    is_first: bool,
) -> str:
    gate = verdict.gate
    sign, word = _SIGNS[verdict.outcome], verdict_word(verdict)
    summary = f"{sign} <b>{plain(gate.task)}: {plain(gate.text)}</b> {plain(word)}"
    body = fenced(lines)
    if worse:
        title = f"worse than in {gate.baseline}"
        body += "\n\n" + _documents(title, worse)
    return details(summary, body, is_open=is_first)


def _documents(title: str, found: Sequence[DocumentChange]) -> str:
    n = len(found)
    more = f" ({_SHOWN} of {n:,})" if n > _SHOWN else f" ({n})"
    rows = [
        (
            code(f"{one.task}[{one.id}]"),
            plain(tail(_text(one.prompt), _LONGEST)),
            plain(cut(one.target, _LONGEST)),
            plain(cut(one.before, _LONGEST)),
            plain(cut(one.now, _LONGEST)),
        )
        for one in found[:_SHOWN]
    ]
    heading = ("document", "prompt", "target", "was", "now")
    return f"{plain(title)}{more}\n\n{table(heading, rows)}"


def _text(prompt: object) -> str:
    """Return a prompt; for a chat its last message."""
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if isinstance(prompt, Sequence) and prompt else {}
    return str(last.get("content", "")) if isinstance(last, Mapping) else str(last)


def _errors(result: RunResult) -> Iterator[str]:
    """Return the documents without a score."""
    found: list[tuple[str, str]] = []
    n_all = 0
    for task in result.tasks:
        n_all += task.n_errored + task.n_unscored
        found += _lacking(task, _SHOWN - len(found))
    if found:
        more = f" ({_SHOWN} of {n_all:,})" if n_all > _SHOWN else f" ({n_all})"
        rows = [(code(name), plain(cut(why, 2 * _LONGEST))) for name, why in found]
        yield details(
            f"Documents without a score{more}", table(("document", "why"), rows)
        )


def _lacking(task: TaskResult, most: int) -> Iterator[tuple[str, str]]:
    if most <= 0 or not task.n_errored + task.n_unscored:
        return
    ids = ids_by_index(task)
    lacking = [one for one in task.records if one.status is not Status.SCORED]
    for record in lacking[:most]:
        name = f"{task.task.name}[{ids.get(record.index, record.index)}]"
        yield name, error_of(record)


def _comparison(found: Comparison) -> Iterator[str]:
    n_worse, n_better = len(found.worse), len(found.better)
    paired = f"{plural(found.n_paired, 'document')}, {n_worse} worse, {n_better} better"
    lines = [f"### Compared with {code(found.name)}: {paired}"]
    lines += [f"- not compared: {plain(text)}" for text in found.refused]
    lines += [f"- {plain(text)}" for text in found.warnings]
    for one in found.differences:
        lines += [f"- differs: {plain(one.text)}"]
        lines += [f"  - {code(text)}" for text in one.examples]
    yield "\n".join(lines)
    if found.metrics:
        heading = (
            "task",
            "metric",
            f"{plain(found.name)}:",
            "now:",
            "change:",
            "90% CI",
        )
        yield table(heading, map(_change, found.metrics))
    for word, documents in (("worse", found.worse), ("better", found.better)):
        if documents:
            summary = f"{word} ({len(documents):,})"
            yield details(summary, _documents(f"{word} documents", documents))


def _change(one: MetricChange) -> tuple[str, ...]:
    values = ("-" if x is None else figure(x) for x in (one.before, one.now))
    name, key = code(one.task), code(one.key.removesuffix(",none"))
    return (name, key, *map(plain, (*values, *change_cells(one))))


def _fitting(sections: Sequence[str], most: int) -> str:
    """Join the sections that fit, with a note if some did not."""
    room, kept, n_left = most - _NOTE, [], 0
    for section in filter(None, sections):
        size = len(section.encode()) + 2
        if size <= room:
            kept.append(section)
            room -= size
        else:
            n_left += 1
    if n_left:
        kept.append(
            f"{n_left} parts of this summary did not fit; see the results file."
        )
    return "\n\n".join(kept) + "\n"
