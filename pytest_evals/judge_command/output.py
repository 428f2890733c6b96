"""What the command shows and writes: the terminal's tables, and the files of a run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

from pytest_evals.core.comparison import Comparison
from pytest_evals.core.gate import WORST_FIRST, Outcome, Verdict
from pytest_evals.errors import plural
from pytest_evals.judge_command.stored import as_stored
from pytest_evals.judge_command.verdicts import Judged
from pytest_evals.reports.details.gate import gate_lines, headline
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.github.annotations import annotation_lines, of_verdicts
from pytest_evals.reports.github.pull_request import run_markdown
from pytest_evals.reports.terminal.comparison import comparison_lines, difference_lines
from pytest_evals.reports.terminal.summary import summary_lines
from pytest_evals.store.files import append_lines, replace_text, write_json
from pytest_evals.store.history import EarlierRun
from pytest_evals.store.writable import check_file

_COMMENT = 65_000
"""Bytes of a file of Markdown: GitHub takes comments of 65,536 characters."""
_WIDTH = 100


def shown(judged: Judged, comparison: Comparison | None, notes: Sequence[str]) -> str:
    """The text for the terminal, which ends with the verdict."""
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    lines = [f"note: {one_line(note)}" for note in notes]
    if comparison is not None:
        lines += ["", *(line.text for line in difference_lines(comparison))]
        comparison = replace(comparison, differences=())
    for verdict in judged.result.verdicts:
        if verdict.outcome is Outcome.PASSED or verdict.left_out:
            continue
        lines += ["", *_details(verdict, judged)]
    reported = {(v.gate.task, v.gate.id) for v in judged.result.verdicts}
    summary = summary_lines(judged.result, width, reported=reported)
    lines += ["", *(line.text for line in summary)]
    if comparison is not None:
        lines += ["", f"compared with {comparison.name}"]
        lines += [line.text for line in comparison_lines(comparison, width)]
    return "\n".join([*lines, "", conclusion(judged.result.verdicts), ""]).lstrip("\n")


def _details(verdict: Verdict, judged: Judged) -> Iterator[str]:
    gate = verdict.gate
    sign = verdict.outcome.value.upper()
    yield f"{sign} {one_line(f'{gate.task}::{gate.id}')}"
    result = judged.results[gate.task]
    for line in gate_lines(verdict, result, is_rerunnable=False):
        yield f"  {line}".rstrip()


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """``verdict: no-go: 2 of 14 gates failed, 1 inconclusive, 3 advisory``."""
    deciding = [one for one in verdicts if not one.left_out and not one.gate.advisory]
    counts = Counter(one.outcome for one in deciding)
    if any(one.is_red for one in deciding):
        word = "no-go"
    elif counts[Outcome.INCONCLUSIVE] or not counts[Outcome.PASSED]:
        word = "undecided"
    else:
        word = "go"
    found = [(one.value, counts[one]) for one in WORST_FIRST if counts[one]]
    parts = [f"{n} {outcome}" for outcome, n in found if outcome != "passed"]
    of = plural(len(deciding), "gate")
    first, n = found[0] if found else ("judged", 0)
    parts[:1] = [f"{n} of {of} {first}" if deciding else "no gate was judged"]
    n_advisory = sum(one.gate.advisory for one in verdicts)
    n_left_out = sum(one.left_out for one in verdicts)
    parts += [f"{n_advisory} advisory"] if n_advisory else []
    parts += [f"{n_left_out} not judged, which have when"] if n_left_out else []
    return f"verdict: {word}: {', '.join(parts)}"


def write_files(
    judged: Judged,
    run: EarlierRun,
    comparison: Comparison | None,
    paths: dict[str, Path | None],
    exit_code: int,
) -> None:
    """Write the reports that were asked for, and in GitHub Actions the job's summary
    and annotations. ``paths``: option (``json``, ``markdown``, ``html``, ``junit``) →
    its file.

    Raises:
        StoreError: A file cannot be written.
    """
    result = replace(judged.result, comparison=comparison)
    stored = as_stored(run, result, exit_code)
    for name, path in paths.items():
        if path is not None:
            check_file(path, f"--{name}")
    if path := paths["json"]:
        write_json(path, dict(stored.results), "--json")
    if path := paths["markdown"]:
        replace_text(path, run_markdown(result, _COMMENT), "--markdown")
    if path := paths["junit"]:
        replace_text(path, _junit(result.verdicts), "--junit")
    if path := paths["html"]:
        from pytest_evals.reports.html.other_runs import OtherRuns
        from pytest_evals.reports.html.write import write_html

        changes = asdict(comparison) if comparison is not None else None
        write_html(stored, path, others=OtherRuns(None, changes, []), option="--html")
    _on_github(judged)


def _on_github(judged: Judged) -> None:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    if place := os.environ.get("GITHUB_STEP_SUMMARY"):
        text = run_markdown(judged.result, _COMMENT)
        append_lines(Path(place), [text], "GITHUB_STEP_SUMMARY")
    for line in annotation_lines([*of_verdicts(judged.result.verdicts)], Path.cwd()):
        print(line)  # noqa: T201 - GitHub reads commands from the output


def _junit(verdicts: Sequence[Verdict]) -> str:
    """The gates as test cases."""
    suite = ElementTree.Element("testsuite", name="gates", tests=str(len(verdicts)))
    n_failed = 0
    for verdict in verdicts:
        gate = verdict.gate
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(gate.task), name=_xml(gate.id)
        )
        text = _xml(headline(verdict))
        if verdict.is_red:
            n_failed += 1
            ElementTree.SubElement(case, "failure", message=text)
        elif verdict.outcome is not Outcome.PASSED:
            ElementTree.SubElement(case, "skipped", message=text)
    suite.set("failures", str(n_failed))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _xml(text: str) -> str:
    return one_line(text)
