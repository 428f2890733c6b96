"""Messages for ids and files on the command line that name no test."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evals.dialects.detect import YAML_SUFFIXES
from pytest_evals.errors import Place, suggestion
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.suite.eval_files import is_eval_file

_NOT_FOUND = "not found: "
_KEYS = "prompt and rows or dataset, or the keys of lm-eval or LatticeFlow"


def explained(session: pytest.Session, error: pytest.UsageError) -> pytest.UsageError:
    """Return pytest's error about ids that were not found, with similar ids of the eval
    files that it names."""
    return pytest.UsageError(*(_explained(session, str(one)) for one in error.args))


def _tasks_hint(session: pytest.Session, name: str) -> str:
    """Return the fix if a task is named where files are expected."""
    has_model = bool(session.config.stash[OPTIONS].model)
    if not has_model or "/" in name or "." in name or "::" in name:
        return ""
    return f"\n  fix: if it is a task, write --evals-tasks={name}"


def _explained(session: pytest.Session, text: str) -> str:
    """Return the error for one argument."""
    name = text.removeprefix(_NOT_FOUND).partition("\n")[0]
    file, _, inside = name.partition("::")
    path = Path(file)
    if text.startswith("file or directory not found: ") and "\n" not in text.strip():
        return text + _tasks_hint(session, text.partition(": ")[2].strip())
    if not text.startswith(_NOT_FOUND) or not path.is_file():
        return text
    if is_eval_file(path, session.config.hook, session.config):
        if not inside:
            return text
        items = session.perform_collect([file], genitems=True)
        known = [item.nodeid.partition("::")[2] for item in items]
        given = (one.partition("::")[2] for one in session.config.args if "::" in one)
        # pytest leaves out the brackets of an id.
        lost = (one for one in given if one.startswith(inside) and one not in known)
        inside = next(lost, inside)
        hint = suggestion(inside, known) if known else ""
        list_all = f"list all ids: pytest {Place(path)} --collect-only -q"
        return f"{Place(path)}: unknown test {inside!r}{hint}\n  fix: {list_all}"
    if path.suffix not in YAML_SUFFIXES:
        return text
    message = "is empty" if not path.read_bytes().strip() else "is not an eval file"
    return f"{Place(path)} {message}\n  fix: write {_KEYS}"
