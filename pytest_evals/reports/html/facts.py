"""What ``results.json`` says of a run, in the shape of the page.

A file that lacks a field, since an older version or another program wrote it, gives a
page that says less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from pytest_evals.reports.html.prompt import shots_of

__all__ = ["facts_of"]

Results = Mapping[str, Any]
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
"""What stands on the last page: all that the run was made with."""


def facts_of(results: Results) -> dict[str, Any]:
    """Everything but documents, comparison and history.

    Args:
        results: What ``results.json`` says.
    """
    told = {name: results.get(name) for name in _COPIED}
    listed = list(_listed(results))
    return {
        **told,
        "gates": [_gate(one, results) for one in _list(results.get("gates"))],
        "listed": [{"name": name, "depth": depth} for name, depth in listed],
        "parts": {name: _part(name, results) for name, _ in listed},
        "special": _special(results),
        "begins": _begins(results),
        "made": {name: results.get(name) for name in _SHOWN if results.get(name)},
    }


def _table(results: Results, section: str) -> Mapping[str, Any]:
    found = results.get(section)
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if value else []


def _listed(results: Results) -> Iterator[tuple[str, int]]:
    """Names of groups and tasks in the order of the terminal's table, with the number
    of groups around them."""
    groups = _table(results, "group_subtasks")
    names = [*_table(results, "results")]
    held = {child for members in groups.values() for child in members}
    top = [name for name in names if name not in held]
    top.sort(key=lambda name: (name not in groups, name))
    for name in top:
        yield from _below(name, groups, {*names}, 0)


def _below(
    name: str, groups: Mapping[str, Any], known: set[str], depth: int
) -> Iterator[tuple[str, int]]:
    yield name, depth
    for child in sorted(groups.get(name, ())):
        if child in known and depth < len(known):
            yield from _below(child, groups, known, depth + 1)


def _part(name: str, results: Results) -> dict[str, Any]:
    """A task or a group."""
    numbers = _table(results, "results").get(name) or {}
    config = _table(results, "configs").get(name) or {}
    directions = _table(results, "higher_is_better").get(name) or {}
    metrics = []
    for key, value in numbers.items():
        metric, comma, filter_ = key.partition(",")
        if comma and not metric.endswith("_stderr"):
            stderr = numbers.get(f"{metric}_stderr,{filter_}")
            metrics.append(
                {
                    "key": key,
                    "name": metric,
                    "filter": filter_,
                    "value": value,
                    "stderr": None if isinstance(stderr, str) else stderr,
                    "higher": directions.get(metric),
                }
            )
    members = _table(results, "group_subtasks").get(name)
    return {
        "alias": numbers.get("alias") or name,
        "members": members,
        "metrics": metrics,
        "counts": _table(results, "counts").get(name),
        "shots": shots_of(results, name).n,
        "version": _table(results, "versions").get(name),
        "kind": config.get("output_type"),
        "node": _node(name, results, config),
        "config": config,
    }


def _node(name: str, results: Results, config: Mapping[str, Any]) -> str:
    """The node id of a task or group."""
    known = _table(results, "node_ids").get(name)
    if isinstance(known, str):
        return known
    source = (config.get("metadata") or {}).get("config_source")
    return f"{source}::{name}" if source else name


def _gate(gate: dict[str, Any], results: Results) -> dict[str, Any]:
    """A gate as it is stored, with its node id and the direction of its metric."""
    task = str(gate.get("task", ""))
    directions = _table(results, "higher_is_better").get(task) or {}
    node = _node(task, results, _table(results, "configs").get(task) or {})
    return {
        **gate,
        "node": f"{node}::{gate.get('id')}",
        "higher": directions.get(gate.get("metric")),
    }


def _special(results: Results) -> list[str]:
    """Texts of the tokenizer's special tokens."""
    found = (results.get(f"tokenizer_{name}_token") for name in ("bos", "eos", "pad"))
    texts = [one[0] for one in found if isinstance(one, list) and one]
    return [*dict.fromkeys(text for text in texts if isinstance(text, str) and text)]


def _begins(results: Results) -> str:
    """How every prompt begins once it is tokens, for models that say it."""
    info = _table(results, "model_info")
    special = {*_special(results)}
    first = [*map(str, info.get("first_tokens") or ())]
    begin = [*takewhile(special.__contains__, first)]
    rule = info.get("bos_rule")
    told = [f"begins with {' '.join(begin)}"] if begin else []
    told += [f"BOS token {rule}"] if rule else []
    return "; ".join(told)
