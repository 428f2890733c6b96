"""What a session has found, as one result: while it goes on, and when it is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_evals.core.result import RunResult, lacking
from pytest_evals.masking.known import hidden
from pytest_evals.plugin.results.interim import UNFINISHED
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.settings.run_options import public
from pytest_evals.reports.files.environment import environment
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.scorers.groups import overall_results

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["close", "summed_up"]


def summed_up(evals: EvalSession, names: Sequence[str]) -> RunResult:
    """What is known of some tasks, before all is known of all."""
    models, options = evals.models, evals.options
    return RunResult(
        model=models.name or options.model,
        model_info=models.info,
        judges=models.judges,
        tasks=tuple(map(evals.records.result, names)),
        verdicts=tuple(evals.judging.told.values()),
        options=public(options),
        started=evals.started.date,
        elapsed_s=evals.started.elapsed_s,
        model_s=models.model_s,
        n_requests=models.n_requests,
        reuse=models.reuse,
        partial=UNFINISHED,
    )


def close(evals: EvalSession, session: pytest.Session) -> None:
    """Sum up, and write what lasts.

    A worker only says what its model was and cost, what it found odd, and what further
    runs have shown.
    """
    evals.models.close()
    if evals.orders is not None:
        told = {
            "models": evals.models.told(),
            "warnings": evals.notices.new(),
            "repeats": evals.repeats.told(),
        }
        # Secrets that only a worker has met are unknown to the controller.
        evals.config.workeroutput["evals"] = hidden(json.dumps(told))  # type: ignore[attr-defined]
        return
    stopped = session.shouldstop or session.shouldfail
    lacks = lacking(map(evals.records.result, evals.runs))
    evals.partial = evals.partial or str(stopped or "") or lacks
    found, groups = summed_up(evals, [*evals.runs]), evals.known.group_names()
    evals.found = replace(
        found,
        groups=tuple(map(evals.records.group_result, groups)),
        overall=overall_results(found.tasks, groups),
        partial=evals.partial,
        warnings=tuple(evals.notices.all()),
    )
    _write(evals, evals.found, int(session.exitstatus))
    if evals.samples.error and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _write(evals: EvalSession, found: RunResult, exit_code: int) -> None:
    evals.samples.flush()
    if is_distributed(evals.config):
        evals.samples.sort()
    results = results_json(
        found,
        exit_code=exit_code,
        environment=environment(),
        task_hashes=evals.samples.hashes.digests(),
        sample_files=evals.samples.files,
        node_ids=evals.known.node_ids(),
    )
    evals.samples.results(results, evals.options.json)
