"""The pytest plugin. No other package of ours imports pytest."""

import pytest

CLASH = (
    "pytest-evals and pytest-model-evals both install the package pytest_evals and "
    "overwrite each other\n"
    "  fix: pip uninstall pytest-evals pytest-model-evals, then install the one you "
    "want"
)


def __getattr__(name: str) -> object:
    # If pytest-evals was installed last, its ``pytest_evals/__init__.py`` has replaced
    # ours. It imports this name before pytest can load our hooks.
    if name == "eval_bag":
        raise pytest.UsageError(CLASH)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
