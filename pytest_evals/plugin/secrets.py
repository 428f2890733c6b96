"""Known secrets, kept out of pytest's own reports, terminal and usage errors; and
commands of CI logs, kept out of the latter."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import ConftestImportFailure

from pytest_evals.masking.registry import (
    hidden,
    knows_any,
    masking_logs,
    remembering,
)

_OURS = b"pytest_evals"
_OF_PYTEST = frozenset(
    {"_pytest", "pluggy", "importlib", "<frozen importlib._bootstrap>"}
)
"""Parts of the paths of frames that pytest leaves out."""
_FLAGS = ("--evals-", "--model")


def learn_environment() -> None:
    """Register the secrets of environment variables; called in sessions with evals
    only, so that others show their output unchanged."""
    from pytest_evals.masking.values import watch_environment

    watch_environment()


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(args: list[str]) -> Generator[None, None, None]:
    """Mask secrets in the error of a conftest that cannot be imported."""
    try:
        yield
    except ConftestImportFailure as failure:
        if any(one.startswith(_FLAGS) for one in args) or _is_ours(failure.path):
            with remembering():
                learn_environment()
                text = _text_of(failure)
                shown = hidden(text)
            if shown is not text:
                raise pytest.UsageError(shown) from None
        raise


def _text_of(failure: ConftestImportFailure) -> str:
    found = pytest.ExceptionInfo.from_exception(failure.cause)
    found.traceback = found.traceback.filter(
        lambda entry: not _OF_PYTEST.intersection(Path(entry.path).parts)
    )
    shown = found.getrepr(style="short", chain=False)
    return f"ImportError while loading conftest {str(failure.path)!r}.\n{shown}"


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Generator[None, Any, Any]:
    """Remember secrets for as long as the session runs, and mask them in the error that
    pytest shows when it ends before it has begun."""
    with remembering(), masking_logs():
        try:
            return (yield)
        except pytest.UsageError as error:
            error.args = tuple(map(_safe, error.args))
            raise


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Mask them in all that is written to the terminal."""
    manager = session.config.pluginmanager
    if not manager.has_plugin("terminalreporter"):
        return
    writer = session.config.get_terminal_writer()
    write = writer.write

    def masked(text: str, **how: bool) -> None:
        write(hidden(text), **how)

    vars(writer)["write"] = masked


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Learn secrets if a module or a conftest with evals cannot be imported: there is
    no eval yet."""
    report = yield
    if report.failed and _is_ours(collector.path):
        learn_environment()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """As for tests; a controller does not know the secrets of its workers."""
    text = str(warning_message.message)
    shown = hidden(text)
    if shown is not text:
        warning_message.message = UserWarning(shown)
        warning_message.category = UserWarning


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """As for tests."""
    pytest_runtest_logreport(report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Mask them before JUnit files, other plugins and pytest-xdist see a report."""
    found = report.longrepr
    properties = getattr(report, "user_properties", None)
    lines = getattr(report, "evals_shown", None)  # pytest-reportlog writes them
    has_text = found is not None or report.sections or properties or lines
    if not has_text or not knows_any():
        return
    if isinstance(found, tuple):  # why a test is skipped
        path, line, why = found
        report.longrepr = (path, line, hidden(why))
    elif found is not None:
        text = str(found)
        shown = hidden(text)
        if shown is not text:
            report.longrepr = shown
    if report.sections:
        report.sections = [(name, hidden(text)) for name, text in report.sections]
    if properties:
        properties[:] = [
            (name, hidden(value) if isinstance(value, str) else value)
            for name, value in properties
        ]
    if lines:
        vars(report)["evals_shown"] = [hidden(line) for line in lines]


def _safe(value: object) -> object:
    """A usage error without commands of CI logs in what it repeats."""
    if not isinstance(value, str):
        return value
    from pytest_evals.reports.escape import one_line

    return "\n".join(map(one_line, hidden(value).split("\n")))


def _is_ours(path: Path) -> bool:
    """Whether a module, or the conftest of a folder, uses this package."""
    with suppress(OSError):
        file = path / "conftest.py" if path.is_dir() else path
        return _OURS in file.read_bytes()
    return False
