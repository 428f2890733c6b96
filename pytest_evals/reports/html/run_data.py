"""Data of the report from ``results.json``.

Fields that are missing, because another version or program wrote the file, are omitted
from the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from pytest_evals.reports.html.prompt import fewshot_examples
from pytest_evals.reports.html.sections import is_number, mapping, section

Results = Mapping[str, Any]
_COUNTED = (
    "total",
    "selected",
    "correct",
    "wrong",
    "errored",
    "unscored",
    "missing",
    "excluded",
    "truncated",
    "cut_short",
)
_GATE = {"task": "", "claim": "", "reason": "", "outcome": "skipped", "source": ""}
"""Required fields of a gate, with defaults."""
_COPIED = (
    "verdict",
    "exit_code",
    "partial",
    "date",
    "model_seconds",
    "n_requests",
    "n_reused",
    "model_name",
    "total_evaluation_time_seconds",
)
_SHOWN = (
    "model_info",
    "judges",
    "options",
    "library_versions",
    "python_version",
    "platform",
    "git_hash",
    "pytest_evals_version",
    "system_instruction",
    "chat_template",
    "notes",
)
"""Fields of the last tab: the environment of the run."""


def run_data(results: Results) -> dict[str, Any]:
    """Return the report's data without documents, comparison and history."""
    copied = {name: results.get(name) for name in _COPIED}
    listed = list(_listed(results))
    return {
        **copied,
        "gates": [
            _gate(one, results)
            for one in _list(results.get("gates"))
            if isinstance(one, dict)
        ],
        "listed": [{"name": name, "depth": depth} for name, depth in listed],
        "parts": {name: _part(name, results) for name, _ in listed},
        "warnings": [*map(str, _list(results.get("warnings")))],
        "special": _special(results),
        "begins": _begins(results),
        "made": {name: results.get(name) for name in _SHOWN if results.get(name)},
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _listed(results: Results) -> Iterator[tuple[str, int]]:
    """Yield names of groups and tasks in the order of the terminal's table, with their
    depth."""
    names = section(results, "results")
    groups = {
        name: [child for child in map(str, _list(members)) if child in names]
        for name, members in section(results, "group_subtasks").items()
    }
    held = {child for members in groups.values() for child in members}
    top = sorted(names.keys() - held, key=lambda name: (name not in groups, name))
    for name in top:
        yield from _below(name, groups, ())


def _below(
    name: str, groups: Mapping[str, list[str]], around: tuple[str, ...]
) -> Iterator[tuple[str, int]]:
    yield name, len(around)
    for child in sorted(groups.get(name, ())):
        if child != name and child not in around:
            yield from _below(child, groups, (*around, name))


def _part(name: str, results: Results) -> dict[str, Any]:
    numbers = mapping(section(results, "results").get(name))
    config = mapping(section(results, "configs").get(name))
    directions = mapping(section(results, "higher_is_better").get(name))
    members = section(results, "group_subtasks").get(name)
    return {
        "alias": str(numbers.get("alias") or name),
        "members": members if isinstance(members, list) else None,
        "metrics": [*_metrics(numbers, directions)],
        "counts": _counts(section(results, "counts").get(name)),
        "judge_errors": [*_judge_errors(section(results, "judge_errors").get(name))],
        "shots": fewshot_examples(results, name).n,
        "version": section(results, "versions").get(name),
        "kind": config.get("output_type"),
        "node": _node(name, results, config),
        "config": config,
    }


def _metrics(numbers: Results, directions: Results) -> Iterator[dict[str, Any]]:
    for key, value in numbers.items():
        metric, comma, filter_ = key.partition(",")
        if comma and not metric.endswith("_stderr"):
            stderr = numbers.get(f"{metric}_stderr,{filter_}")
            yield {
                "key": key,
                "name": metric,
                "filter": filter_,
                "value": value if is_number(value) else None,
                "stderr": stderr if is_number(stderr) else None,
                "higher": directions.get(metric),
            }


def _node(name: str, results: Results, config: Mapping[str, Any]) -> str:
    known = section(results, "node_ids").get(name)
    if isinstance(known, str):
        return known
    source = mapping(config.get("metadata")).get("config_source")
    return f"{source}::{name}" if source else name


def _counts(found: Any) -> dict[str, int] | None:
    if not isinstance(found, dict):
        return None
    numbers = {name: found.get(name) for name in _COUNTED}
    return {name: n if isinstance(n, int) else 0 for name, n in numbers.items()}


def _judge_errors(found: Any) -> Iterator[dict[str, Any]]:
    """Yield the errors of a task's judges: lines of text, and a table of both ratings
    if there is one."""
    for one in map(mapping, _list(found)):
        table = {
            str(human): {str(name): n for name, n in mapping(row).items()}
            for human, row in mapping(one.get("confusion")).items()
        }
        yield {
            "metric": str(one.get("metric") or ""),
            "text": [*map(str, _list(one.get("text")))],
            "confusion": table,
        }


def _gate(gate: dict[str, Any], results: Results) -> dict[str, Any]:
    task = str(gate.get("task", ""))
    directions = mapping(section(results, "higher_is_better").get(task))
    node = _node(task, results, mapping(section(results, "configs").get(task)))
    return {
        **_GATE,
        **gate,
        "node": f"{node}::{gate.get('id')}",
        "higher": directions.get(str(gate.get("metric"))),
    }


def _special(results: Results) -> list[str]:
    found = (results.get(f"tokenizer_{name}_token") for name in ("bos", "eos", "pad"))
    texts = [one[0] for one in found if isinstance(one, list) and one]
    return [*dict.fromkeys(text for text in texts if isinstance(text, str) and text)]


def _begins(results: Results) -> str:
    """Return the first tokens of every prompt, for models that report them."""
    info = section(results, "model_info")
    special = {*_special(results)}
    first = [*map(str, _list(info.get("first_tokens")))]
    begin = [*takewhile(special.__contains__, first)]
    rule = info.get("bos_rule")
    parts = [f"begins with {' '.join(begin)}"] if begin else []
    parts += [f"BOS token {rule}"] if rule else []
    return "; ".join(parts)
