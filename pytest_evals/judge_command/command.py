"""``pytest-model-evals judge NEW [GATE…]``: the verdict on results that exist."""

from __future__ import annotations

import argparse
import gc
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_evals.core.gate import Verdict
from pytest_evals.core.metric import ANYTHING, SHARE
from pytest_evals.judge_command.columns import read_columns
from pytest_evals.judge_command.gates import given_gates
from pytest_evals.judge_command.output import shown, write_files
from pytest_evals.judge_command.run_pairs import RunPairs
from pytest_evals.judge_command.verdicts import judged
from pytest_evals.result_files.documents import ForeignRun
from pytest_evals.result_files.find import read_results
from pytest_evals.store.history import EarlierRun, with_names_of

_FAILED = 1
"""Exit code: a gate failed or is invalid."""
_FILES = ("json", "markdown", "html", "junit")
_DESCRIPTION = """\
Judge gates on results that exist already: those of lm-eval, lighteval, inspect, Harbor,
SWE-bench or of this program, or a file with a row for each document.

Exit code 0 if no gate failed, 1 if one failed or is invalid, 2 for wrong use.
"""
_EXAMPLES = """\
examples:
  pytest-model-evals judge scores.jsonl 'acc >= 0.9'
  pytest-model-evals judge new/ --baseline old/ '{"metric": "acc", "max_drop": 0.02}'
  pytest-model-evals judge new/ --baseline old/ --gates gates.yaml --html report.html
"""


def main(prog: str, arguments: Sequence[str]) -> int:
    """Judge, and return the exit code."""
    gc.disable()  # nearly all objects live until the end: collecting took half the time
    try:
        return _judge(prog, arguments)
    finally:
        gc.enable()


def _judge(prog: str, arguments: Sequence[str]) -> int:
    options = _parser(prog).parse_intermixed_args(arguments)
    gates = given_gates(
        options.gate,
        options.gates,
        cluster=options.cluster or "",
        has_baseline=options.baseline is not None,
    )
    read = partial(read_results, gated=gates.metrics(), id_key=options.id or "")
    columns = None
    if not (options.id or options.html):
        columns = read_columns(options.new, gates.gates, options.baseline)
    run: EarlierRun
    baseline: EarlierRun | None
    if columns is not None:
        run, baseline = columns
    else:
        run = read(options.new)
        baseline = None if options.baseline is None else read(options.baseline)
    pairs = None
    if baseline is not None:
        baseline = _same_name(baseline, run)
        baseline = with_names_of(baseline, run.results.get("node_ids") or {})
        pairs = RunPairs(run, baseline)
    span = options.range or SHARE
    found = judged(run, gates, pairs=pairs, policy=options.inconclusive, span=span)
    changes = None if pairs is None else pairs.comparison(str(options.baseline), span)
    notes = [note for one in (run, baseline) for note in getattr(one, "notes", ())]
    notes += _assumed(found.result.verdicts) if options.range is None else ()
    sys.stdout.write(shown(found, changes, [*dict.fromkeys(notes)]))
    code = _FAILED if any(one.is_red for one in found.result.verdicts) else 0
    paths = {name: getattr(options, name) for name in _FILES}
    write_files(found, run, changes, paths, code)
    return code


def _assumed(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield which scores other than 0 and 1 are assumed to be in the default range."""
    for one in verdicts:
        metric = one.metric if one.interval and one.gate.range is None else None
        how = metric.how if metric is not None and metric.total is None else None
        if how is not None and how.is_mean and how.span == ANYTHING:
            yield (
                f"{one.gate.task}: {how.name} is assumed to be from 0 to 1 in all "
                "documents, since its range is unknown: set --range=LOW,HIGH"
            )


def _same_name(baseline: EarlierRun, run: EarlierRun) -> EarlierRun:
    """The baseline; its only task has the name of the run's only task, since files with
    rows give tasks the names of the files."""
    if not (
        isinstance(baseline, ForeignRun) and len(baseline.tasks) == len(run.tasks) == 1
    ):
        return baseline
    if baseline.program != "rows" or len(baseline.tasks) != 1:
        return baseline
    (rows,), (name,) = baseline.documents.values(), run.tasks
    counts = {name: next(iter(baseline.results["counts"].values()))}
    results = {**baseline.results, "counts": counts}
    return replace(baseline, documents={name: rows}, results=results)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{prog} judge",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("new", metavar="NEW", type=Path, help="file or folder with results")
    add(
        "gate",
        metavar="GATE",
        nargs="*",
        help="text such as 'acc >= 0.9' or 'arc/acc,none >= 0.5', or an entry of "
        'gates: as JSON, \'{"metric": "acc", "min": 0.9, "over": "population"}\'',
    )
    add("--gates", metavar="FILE", type=Path, help="a gates.yaml; tasks by name")
    add("--baseline", metavar="OLD", type=Path, help="older results to compare with")
    add("--id", metavar="KEY", help="key of a document's id; default: id, doc_id, …")
    add(
        "--cluster", metavar="KEY", help="field by which documents depend on each other"
    )
    add(
        "--range",
        type=_range,
        metavar="LOW,HIGH",
        help="smallest and largest score of a document, for metrics of unknown range "
        "(default: 0,1); none if they are unbounded",
    )
    add(
        "--inconclusive",
        choices=("warn", "fail", "pass"),
        default="warn",
        help="meaning of a gate that cannot be decided (default: warn, exit code 0)",
    )
    for name in _FILES:
        add(f"--{name}", metavar="PATH", type=Path, help=f"write {_ABOUT[name]}")
    return parser


def _range(text: str) -> tuple[float, float]:
    if text == "none":
        return (-math.inf, math.inf)
    low, high = map(float, text.split(","))
    if not low < high:
        raise ValueError(text)
    return low, high


_range.__name__ = "range"  # argparse's message names it
_ABOUT = {
    "json": "results.json, as a run of pytest does",
    "markdown": "a summary for a pull request",
    "html": "the HTML report",
    "junit": "the gates as test cases in JUnit's XML",
}
