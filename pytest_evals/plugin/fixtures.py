"""The fixtures ``eval_model`` and ``eval_judge``, which any conftest.py may override,
and ``eval_results`` for gates written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evals.errors import OptionError
from pytest_evals.plugin.settings.options import OPTIONS

if TYPE_CHECKING:
    from pytest_evals.core.model import Model
    from pytest_evals.plugin.eval_results import EvalResults
    from pytest_evals.plugin.unit_evals import UnitEvals


@pytest.fixture(scope="session")
def eval_model(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Model:
    """The evaluated model, opened once, when the first document is set up. If several
    models are tested, tests that request it run once for each.

    Override it in a conftest.py to return any object with a ``name`` and an ``answer``
    method, for the whole session or for one folder.
    """
    from pytest_evals.plugin.settings.run_options import full_spec
    from pytest_evals.run.readiness import NO_MODEL

    options = pytestconfig.stash[OPTIONS]
    tested = getattr(request, "param", options.models[0] if options.models else None)
    if tested is None:
        raise OptionError(NO_MODEL)
    return _opened(request, full_spec(options, tested.spec))


@pytest.fixture(scope="session")
def eval_judge(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Model:
    """The judge model, opened once, when the first document that it rates is set up.

    Override it in a conftest.py, as ``eval_model``.
    """
    from pytest_evals.run.readiness import NO_JUDGE

    options = pytestconfig.stash[OPTIONS]
    if not options.judge:
        raise OptionError(NO_JUDGE)
    if options.judge == options.model:
        tested: Model = request.getfixturevalue("eval_model")
        return tested
    return _opened(request, options.judge)


def _opened(request: pytest.FixtureRequest, spec: str) -> Model:
    from pytest_evals.plugin.session import SESSION
    from pytest_evals.plugin.settings.run_options import answers_of

    session = request.config.stash.get(SESSION, None)
    answers = session.run.inference.answers if session else answers_of(request.config)
    model = answers.named(spec)
    request.addfinalizer(model.close)
    return model


@pytest.fixture
def evals(request: pytest.FixtureRequest) -> UnitEvals:
    """Run a few cases inside a test: ``evals(rows, prompt=…, score=…, gates=…)``."""
    from pytest_evals.plugin.unit_evals import UnitEvals

    return UnitEvals(request)


@pytest.fixture(scope="session")
def eval_results(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> EvalResults:
    """The results of this session: ``eval_results("gsm8k")["exact_match"].value``.

    Tests that use it run after all documents and gates. If several models are tested,
    they run once for each.
    """
    from pytest_evals.plugin.eval_results import EvalResults

    model = getattr(request, "param", None)
    return EvalResults(pytestconfig, model.name if model is not None else "")
