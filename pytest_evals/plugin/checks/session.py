"""Checks of a session before a model is opened."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_evals.plugin.checks.gates import check_gates
from pytest_evals.plugin.checks.reference_models import check_reference_models
from pytest_evals.plugin.models.compatibility import check_models
from pytest_evals.plugin.session import EvalSession
from pytest_evals.plugin.settings.option_checks import usage_errors, with_place


def check_session(
    session: EvalSession, ids: Iterable[str] | None = None, *, is_broken: bool = False
) -> None:
    """Check tasks, gates and models.

    Args:
        ids: Node ids of the items that will run; ``None`` for all.
        is_broken: Whether something could not be collected, which is reported already.

    Raises:
        pytest.UsageError: A gate names nothing, or a model cannot exist.
    """
    spec = session.run.config.full_spec
    try:
        with usage_errors():
            session.selection.check(session.task_index.included_names())
        check_gates(session, is_broken=is_broken)
        tasks = session.suite.with_documents(ids)
        check_models(session.config, session.run.inference.answers, spec, tasks)
        check_reference_models(session, ids)
    except pytest.UsageError as error:
        raise with_place(session.config, error) from None
