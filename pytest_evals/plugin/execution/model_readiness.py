"""Check that models can be opened, and raise a usage error before the first test.

With pytest-xdist the workers check, because they know the model fixtures of each
folder; the first worker with an error ends the session.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.models.compatibility import check_ready
from pytest_evals.plugin.settings.option_checks import with_place

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

REFUSED = "evals_refused"  # key in ``workeroutput``


class ModelReadiness:
    """Checks the models of a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._n_called = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Check models before the first test. A worker checks when it has received its
        items, because the controller reads no messages before."""
        option = session.config.option
        is_run = not (option.collectonly or option.setuponly)
        if is_run and not session.testsfailed and self._session.assignment is None:
            self._check(session)
        try:
            return (yield)
        except pytest.exit.Exception:
            refused = (one.models.refused for one in self._session.all)
            why = next(filter(None, refused), "")
            if not why:
                raise
            if self._session.assignment is not None:
                session.config.workeroutput[REFUSED] = why  # type: ignore[attr-defined]
                raise
            error = pytest.UsageError(why)
            raise with_place(session.config, error) from None

    def before_item(self, session: pytest.Session) -> None:
        """Check models of a worker before its first test; exit if it cannot open one
        that it needs."""
        self._n_called += 1
        if self._n_called > 2:
            return
        for one in self._session.all:
            one.models.is_first = self._n_called == 1
        if self._n_called == 1 and self._session.assignment is not None:
            try:
                self._check(session)
            except pytest.UsageError as error:
                self._session.models.refused = str(error)
                raise pytest.exit.Exception(str(error)) from None

    def _check(self, session: pytest.Session) -> None:
        if self._session.options.plan or self._session.options.merge:
            return
        documents = [item for item in session.items if isinstance(item, DocItem)]
        config = session.config
        try:
            for one in self._session.all:
                items = [item for item in documents if item.parent.evals is one]
                check_ready(config, one.run.config.full_spec, one.models, items)
        except pytest.UsageError as error:
            raise with_place(config, error) from None
