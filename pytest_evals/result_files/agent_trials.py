"""Results of agents: Harbor's jobs and SWE-bench's reports.

Harbor writes ``jobs/NAME/<trial>/result.json``; a trial with an ``exception_info`` has
no score, even with a reward. SWE-bench writes a report with lists of ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    ForeignRun,
    GradedAnswer,
    as_number,
    document_rows,
    foreign_run,
    shown_fields,
)
from pytest_evals.result_files.tables import parse_json, read_bytes

_NAMED = 3


def trial_files(folder: Path) -> list[Path]:
    """The results of Harbor's trials in a folder and below."""
    found = sorted({*folder.glob("*/result.json"), *folder.glob("*/*/result.json")})
    return [path for path in found if _trial(path) is not None]


def _trial(path: Path) -> dict[str, Any] | None:
    try:
        found = parse_json(read_bytes(path), path)
    except OptionError:
        return {"exception_info": {"exception_message": "result.json is not JSON"}}
    is_trial = isinstance(found, dict) and bool(
        {"verifier_result", "exception_info", "trial_name"} & found.keys()
    )
    return found if is_trial else None


def read_harbor(folder: Path) -> ForeignRun:
    """The trials of one job of Harbor; several of one task are repeats.

    Raises:
        OptionError: The folder has several jobs.
    """
    files = trial_files(folder)
    jobs = sorted({file.parent.parent for file in files})
    if len(jobs) > 1:
        named = ", ".join(one.name for one in jobs[:_NAMED])
        message = f"{folder}: {len(jobs)} jobs: {named}"
        raise OptionError(f"{message}\n  fix: name the folder of one job")
    answers = [_of_trial(file) for file in files]
    metrics = dict.fromkeys(name for one in answers for name in one.scores)
    answers = [
        one._replace(scores={**dict.fromkeys(metrics or ["reward"]), **one.scores})
        for one in answers
    ]
    rows, notes = document_rows(answers)
    return foreign_run(folder, "Harbor", {jobs[0].name: rows}, notes=notes)


def _of_trial(path: Path) -> GradedAnswer:
    trial = _trial(path) or {}
    fault = trial.get("exception_info")
    error = ""
    if isinstance(fault, Mapping):
        kind, message = (fault.get(f"exception_{k}") for k in ("type", "message"))
        error = ": ".join(str(one) for one in (kind, message) if one)
    found = trial.get("verifier_result")
    found = found if isinstance(found, Mapping) else {}
    rewards = found.get("rewards")
    if not isinstance(rewards, Mapping):
        rewards = {"reward": found["reward"]} if "reward" in found else {}
    scores = {str(name): as_number(value) for name, value in rewards.items()}
    agent = trial.get("agent_result")
    agent = agent if isinstance(agent, Mapping) else {}
    cost = as_number(agent.get("cost_usd"))
    return GradedAnswer(
        at=str(path),
        id=str(trial.get("task_name") or path.parent.name.rpartition("__")[0]),
        scores=scores,
        repeat=str(trial.get("trial_name") or path.parent.name),
        error=error or ("" if scores else "the verifier gave no reward"),
        fields=shown_fields(doc={"trial": path.parent.name})
        | ({} if cost is None else {"cost": cost}),
    )


def is_swe_bench(found: object) -> bool:
    """Whether a JSON value is a report of SWE-bench."""
    return isinstance(found, dict) and isinstance(found.get("resolved_ids"), list)


def read_swe_bench(path: Path) -> ForeignRun:
    """The instances of a report of SWE-bench: the metric is ``resolved``. An instance
    with an error, or that was not run to the end, has no score."""
    report = parse_json(read_bytes(path), path)
    rows, notes = document_rows(_instances(report, path))
    return foreign_run(
        path, "SWE-bench", {path.name.partition(".")[0]: rows}, notes=notes
    )


def _instances(report: Mapping[str, Any], path: Path) -> Iterator[GradedAnswer]:
    def ids(name: str) -> list[str]:
        found = report.get(f"{name}_ids")
        return [*map(str, found)] if isinstance(found, list) else []

    known: dict[str, tuple[float | None, str]] = {}
    for name in ("unresolved", "empty_patch"):
        known |= dict.fromkeys(ids(name), (0.0, ""))
    known |= dict.fromkeys(ids("resolved"), (1.0, ""))
    known |= dict.fromkeys(ids("error"), (None, "the evaluation ended with an error"))
    for name in ("incomplete", "submitted", "completed"):
        why = "it was not evaluated"
        known |= {one: (None, why) for one in ids(name) if one not in known}
    for id_ in sorted(known):
        value, error = known[id_]
        yield GradedAnswer(str(path), id_, {"resolved": value}, error=error)
