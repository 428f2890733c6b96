"""Several models as the parameter of tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pytest_evals.core.model import Model
from pytest_evals.models.names import NamedModel
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.run_options import answers_of, full_spec

_OPENED: pytest.StashKey[tuple[NamedModel, Model]] = pytest.StashKey()
"""The model of the fixture ``evals``; one is open at a time."""


def parametrize_by_model(
    metafunc: pytest.Metafunc, models: Sequence[NamedModel], fixtures: Sequence[str]
) -> None:
    """Parametrize a test by the models, except fixtures that somebody overrides or
    parametrizes."""
    taken = {*_parametrized(metafunc)}
    names = [
        name
        for name in fixtures
        if name in metafunc.fixturenames
        and name not in taken
        and _is_own(metafunc, name)
    ]
    if names:
        values = [(one,) * len(names) for one in models]
        ids = [one.name for one in models]
        metafunc.parametrize(names, values, indirect=True, ids=ids, scope="session")


def _parametrized(metafunc: pytest.Metafunc) -> Iterator[str]:
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        yield from names.replace(",", " ").split() if isinstance(names, str) else names


def _is_own(metafunc: pytest.Metafunc, name: str) -> bool:
    found = metafunc._arg2fixturedefs.get(name, ())
    return bool(found) and found[-1].func.__module__.startswith("pytest_evals.")


def opened_model(config: pytest.Config, tested: NamedModel) -> Model:
    """Return one of several models; the one before it is closed."""
    opened = config.stash.get(_OPENED, None)
    if opened is not None and opened[0] == tested:
        return opened[1]
    if opened is None:
        config.add_cleanup(lambda: config.stash[_OPENED][1].close())
    else:
        opened[1].close()
    spec = full_spec(config.stash[OPTIONS], tested.spec)
    model = answers_of(config).named(spec)
    config.stash[_OPENED] = tested, model
    return model
