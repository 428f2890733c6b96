"""``python -m pytest_evals judge`` and ``python -m pytest_evals report``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals import report
from pytest_evals.core.gate import Verdict
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.gates.read.entry import read_expression
from pytest_evals.gates.scores import judge_gate

_WRONG_USE = 2
"""Exit code for usage errors, as in argparse."""
_USAGE = "usage: python -m pytest_evals {judge,report} …"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    remaining = [*(sys.argv[1:] if arguments is None else arguments)]
    commands = {"judge": _judge, "report": report.main}
    if not remaining or remaining[0] not in commands:
        sys.stderr.write(f"{_USAGE}\n  fix: add --help after a command\n")
        return _WRONG_USE
    return commands[remaining[0]](remaining[1:])


def _judge(arguments: Sequence[str]) -> int:
    """Return 0 if the gate passed, 1 if it failed, is inconclusive or invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_evals judge",
        description="Judge a gate on scores from anywhere. Exit code 0 if it passes.",
    )
    parser.add_argument(
        "scores",
        metavar="SCORES.jsonl",
        type=Path,
        help="one JSON object a line and document; its key with the metric's name is "
        "the score: a number, true, false, or null if it is missing; a list of them "
        "for several answers",
    )
    parser.add_argument(
        "gate",
        help="text such as 'acc >= 0.9', or an entry of gates: as JSON, such as "
        '\'{"metric": "acc", "min": 0.9, "over": "population"}\'',
    )
    parser.add_argument(
        "--baseline",
        metavar="JSONL",
        type=Path,
        help="scores of the same documents in the same order",
    )
    parser.add_argument(
        "--cluster", metavar="KEY", help="key of the label of a document's cluster"
    )
    parser.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        default=(0.0, 1.0),
        help="smallest and largest possible score (default: 0 1); -inf inf if they are "
        "unbounded",
    )
    try:
        verdict = _verdict(parser.parse_args(arguments))
    except EvalsError as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USE
    why = ": ".join(filter(None, (verdict.conclusion, verdict.reason)))
    sys.stdout.write(f"{verdict.outcome}: {why}\n")
    return 0 if verdict.outcome == "passed" else 1


def _verdict(options: argparse.Namespace) -> Verdict:
    gate = _gate(options.gate)
    metric = _metric(gate)
    rows = _rows(options.scores)
    scores = [_value(row, metric, at) for at, row in rows]
    lists = [one for one in scores if isinstance(one, list)]
    baseline = None
    if options.baseline is not None:
        baseline = [_value(row, metric, at) for at, row in _rows(options.baseline)]
    clusters = None
    if options.cluster is not None:
        clusters = [str(_value(row, options.cluster, at)) for at, row in rows]
    low, high = options.range
    is_open = low == float("-inf") and high == float("inf")
    return judge_gate(
        gate,
        scores,
        baseline=baseline,
        clusters=clusters,
        repeats=len(lists[0]) if lists else None,
        range=None if is_open else (low, high),
    )


def _gate(text: str) -> str | Mapping[str, Any]:
    if not text.lstrip().startswith("{"):
        return text
    try:
        entry: Mapping[str, Any] = json.loads(text)
    except ValueError as error:
        raise OptionError(f"the gate is invalid JSON: {error}") from None
    return entry


def _metric(gate: str | Mapping[str, Any]) -> str:
    """Return the key of the scores."""
    if isinstance(gate, str):
        return read_expression(gate).metric
    name = str(gate.get("metric", "")).partition(",")[0]
    if not name:
        raise OptionError('the gate has no metric\n  fix: add "metric": "acc"')
    return name


def _rows(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the objects of a JSON Lines file, each with its file and line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {error}") from None
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        at = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise OptionError(f"{at}: invalid JSON") from None
        if not isinstance(row, dict):
            raise OptionError(f"{at}: a line must be an object, not {row!r:.40}")
        rows.append((at, row))
    return rows


def _value(row: Mapping[str, Any], key: str, at: str) -> Any:
    if key in row:
        return row[key]
    keys = ", ".join(map(repr, row)) or "none"
    raise OptionError(f"{at}: no key {key!r}; the keys are {keys}")


if __name__ == "__main__":
    sys.exit(main())
