"""The end of a session: compute and write its results."""

from __future__ import annotations

import json

import pytest

from pytest_evals.masking.registry import hidden
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.process import is_distributed


def finish(evals: EvalSession, session: pytest.Session) -> None:
    """Compute and write the results; a worker sends its models, warnings and repeated
    runs to the controller."""
    run = evals.run
    run.inference.close()
    if evals.assignment is not None:
        report = {
            "models": run.inference.worker_report(),
            "warnings": evals.warnings.new(),
            "repeats": evals.repeats.as_json(),
        }
        # The controller does not know secrets that only a worker has seen.
        evals.config.workeroutput["evals"] = hidden(json.dumps(report))  # type: ignore[attr-defined]
        return
    stopped = session.shouldstop or session.shouldfail
    run.partial = run.partial or run.spend_cap or str(stopped or "")
    if run.spend_cap and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    result = run.finish(evals.warnings.all())
    run.writer.flush()
    if is_distributed(evals.config):
        run.writer.sort()
    run.writer.results(
        result,
        exit_code=int(session.exitstatus),
        node_ids=evals.suite.node_ids(),
        copy=evals.options.json,
    )
    if run.writer.error and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
