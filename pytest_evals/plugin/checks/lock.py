"""``evals.lock``: the revisions and contents that a suite was prefetched with.

``--evals-prefetch`` writes it into the rootdir; ``--evals-locked`` compares the suite
with it before anything is sent. It is sorted JSON:

| key            | contents                                                       |
|----------------|----------------------------------------------------------------|
| `repositories` | repository of the Hub → its commit                             |
| `folders`      | local folder of a model or tokenizer → hash of its files       |
| `tasks`        | task → its file, number of documents, and hashes of its rows,  |
|                | prompts, settings and Python files                             |

Hashes are the first 16 digits of SHA-256. They do not depend on the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_evals.core.dialogue import JUDGE
from pytest_evals.core.key import canonical, request_keys
from pytest_evals.core.node_names import file_id
from pytest_evals.core.task import Task
from pytest_evals.data.sources import is_of_hub
from pytest_evals.errors import OptionError, plural
from pytest_evals.models.checkpoint import (
    Repository,
    commit_of,
    model_folders,
    model_repositories,
    provenance,
)
from pytest_evals.models.registry import parse_spec
from pytest_evals.models.spec import ModelSpec
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.files.samples import sample_of
from pytest_evals.run.batches import ask
from pytest_evals.run.task_identity import public_config
from pytest_evals.store.cache import FileHashes, file_hash
from pytest_evals.store.files import replace_text

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession
    from pytest_evals.plugin.settings.option_table import Options

Need = TypeVar("Need")
LOCK = "evals.lock"
VERSION = 1
DIGITS = 16
_WRITE = "run with --evals-prefetch instead"
_SHOWN = 50  # differences that are listed
_IMPORT = re.compile(r"(?m)^\s*(?:from|import)\s(.*)")
_IN_YAML = re.compile(r"[\w-]+\.ya?ml\b|\w+(?=\.(?!jsonl?\b|csv\b|ya?ml\b))")
"""Names of YAML files, and those of modules before ``.function`` or ``.py``."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SHORT = 12  # digits of commits


def write_lock(
    session: EvalSession, tasks: Collection[Task], commits: Mapping[str, str]
) -> None:
    """Write the lock of these tasks, of these repositories, and of the local folders
    that tasks and models need.

    Raises:
        StoreError: It cannot be written.
    """
    root = session.config.rootpath
    content = {
        "schema_version": VERSION,
        "repositories": dict(commits),
        "folders": {
            file_id(folder, root): _folder_hash(folder, session)
            for folder in _folders(session.options, tasks)
        },
        "tasks": {one.name: _entry(one, root) for one in tasks},
    }
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    replace_text(root / LOCK, text, "--rootdir")


def check_lock(session: EvalSession, tasks: Collection[Task]) -> None:
    """Compare tasks, and the repositories and folders that they and the models need,
    with the lock. Tasks that were compared for another model are not compared again.

    Raises:
        pytest.UsageError: They differ, or there is no lock that can be read.
    """
    root = session.config.rootpath
    lock = _read(root / LOCK)
    lines: list[str] = []
    for repository, users in needed_repositories(session.options, tasks).items():
        name, before = repository_name(repository), lock["repositories"]
        now = {"commit": commit_of(repository.name, repository.revision, repository[0])}
        found = {"commit": before[name]} if name in before else None
        changed = _differences(name, found, now)
        lines += (f"{one} (for {listed(users)})" for one in changed)
    for folder, users in _folders(session.options, tasks).items():
        name, before = file_id(folder, root), lock.get("folders", {})
        now = {"files": _folder_hash(folder, session)}
        found = {"files": before[name]} if name in before else None
        changed = _differences(f"folder {name}", found, now)
        lines += (f"{one} (for {listed(users)})" for one in changed)
    for task in tasks:
        if task.name in session.shared.locked:
            continue
        session.shared.locked.add(task.name)
        now = _entry(task, root)
        found = lock["tasks"].get(task.name)
        message = f"{now['file']}: task {task.name}"
        lines += _differences(message, found, now)
    for name, entry in sorted(lock["tasks"].items()):
        file = str(entry.get("file"))
        if not file.startswith("..") and not (root / file).exists():
            lines.append(f"{file}: task {name}: in {LOCK}, but the file is missing")
    if lines:
        n, more = len(lines), len(lines) - _SHOWN
        shown = [f"  {one_line(one)}" for one in lines[:_SHOWN]]
        shown += [f"  and {more:,} more"] * (more > 0)
        raise pytest.UsageError(
            f"--evals-locked: {plural(n, 'difference')} from {LOCK}\n"
            + "\n".join(shown)
            + f"\n  fix: undo them; to accept them, {_WRITE}, and commit {LOCK}"
        )


def needed_repositories(
    options: Options, tasks: Iterable[Task]
) -> dict[Repository, list[str]]:
    """Return each repository of the Hub that tasks and models need, with its users."""
    of_models = _of_models(options, tasks, model_repositories)
    return _by_need([*_of_tasks(tasks), *of_models])


def repository_name(repository: Repository) -> str:
    """Return kind, name and revision, as the lock names a repository."""
    kind, name, revision = repository
    return f"{kind} {name}" + (f" at {revision}" if revision else "")


def listed(users: list[str], most: int = 3) -> str:
    """Return the first users of a repository, and the number of the others."""
    more = len(users) - most
    return ", ".join(users[:most]) + (f" and {more} more" if more > 0 else "")


def _folders(options: Options, tasks: Iterable[Task]) -> dict[Path, list[str]]:
    """Return each local folder that tasks and models need, with its users."""
    return _by_need(_of_models(options, tasks, model_folders))


def _by_need(needs: Iterable[tuple[Need, str]]) -> dict[Need, list[str]]:
    """Return the users of each thing that they need, each user once."""
    found: dict[Need, dict[str, None]] = {}
    for need, user in needs:
        found.setdefault(need, {})[user] = None
    return {need: [*names] for need, names in found.items()}


def _folder_hash(folder: Path, session: EvalSession) -> str:
    """Hash of the names and contents of the files that loading a model reads."""
    files = provenance(str(folder), "", FileHashes(session.options.dir))
    text = canonical(files)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS] if files else ""


def _of_models(
    options: Options, tasks: Iterable[Task], of: Callable[[ModelSpec], Iterable[Need]]
) -> Iterator[tuple[Need, str]]:
    """Yield what the models of tasks and options need, with their users."""
    sources = [(one, task.name) for task in tasks for one in task.models.values()]
    given = [one.spec for one in options.models] or [options.model]
    sources += [(one, "--model") for one in given]
    sources.append((options.judge, "--evals-judge"))
    for source, user in sources:
        if isinstance(source, str) and source not in ("", JUDGE):
            with suppress(OptionError):  # a spec of the hook that opens models
                yield from [(one, user) for one in of(parse_spec(source))]


def _of_tasks(tasks: Iterable[Task]) -> Iterator[tuple[Repository, str]]:
    for task in tasks:
        path = task.config.get("dataset_path")
        if isinstance(path, str) and path and is_of_hub(path):
            arguments = task.config.get("dataset_kwargs") or {}
            revision = str(arguments.get("revision") or "")
            yield Repository("dataset", path, revision), task.name


def _entry(task: Task, root: Path) -> dict[str, Any]:
    """Render all documents of a task, and return what the lock has of it."""
    rows, prompts, n = hashlib.sha256(), hashlib.sha256(), task.rows.total()
    for index in range(n):
        record = ask(task, index)
        hashes = sample_of(record, task).hashes
        rows.update((hashes[:64] + hashes[128:]).encode())
        prompts.update(b"!" if record.error else b".")
        for key in request_keys(record.requests):
            prompts.update(b"?" if key is None else key.digest(b""))
    config = {k: v for k, v in public_config(task).items() if k != "gates"}
    settings = canonical(config).replace(json.dumps(str(root))[1:-1], "")
    settings = _ADDRESS.sub("", settings)
    found: dict[str, Any] = {
        "file": file_id(task.source.path, root),
        "documents": n,
        "rows": rows.hexdigest()[:DIGITS],
        "prompts": prompts.hexdigest()[:DIGITS],
        "settings": hashlib.sha256(settings.encode()).hexdigest()[:DIGITS],
    }
    code = _code(task.source.path)
    if code:
        found["code"] = {file_id(one, root): file_hash(one)[:DIGITS] for one in code}
    return found


def _code(path: Path) -> list[Path]:
    """Return the Python files of a task: its own, and those next to it or one folder
    below that it, a file that it includes, or one of these names."""
    folder, names = path.parent, dict[str, list[Path]]()
    for one in (*folder.glob("*.y*ml"), *folder.glob("*.py"), *folder.glob("*/*.py")):
        name = one.parent.name if one.name == "__init__.py" else one.stem
        names.setdefault(name if one.suffix == ".py" else one.name, []).append(one)
    found, waiting = {path}, [path]
    while waiting:
        file = waiting.pop()
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        words = _IN_YAML.findall(text)
        if file.suffix == ".py":
            words = re.findall(r"\w+", " ".join(_IMPORT.findall(text)))
        for word in names.keys() & {*words}:
            new = [one for one in names[word] if one not in found]
            found.update(new)
            waiting += new
    return sorted(one for one in found if one.suffix == ".py" and one.is_file())


def _read(path: Path) -> dict[str, Any]:
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise pytest.UsageError(
            f"--evals-locked: {str(path)!r} does not exist\n"
            f"  fix: to write it, {_WRITE}"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(f"{path}: {error}") from None
    if not isinstance(lock, dict) or lock.get("schema_version") != VERSION:
        raise _invalid(f"{path}: schema_version is not {VERSION}")
    tasks = lock.get("tasks")
    parts = [lock.get("repositories"), lock.get("folders", {}), tasks]
    if isinstance(tasks, dict):
        parts += tasks.values()
    if not all(isinstance(one, dict) for one in parts):
        raise _invalid(
            f"{path}: repositories, folders, tasks and each task must be mappings"
        )
    return lock


def _invalid(why: str) -> pytest.UsageError:
    return pytest.UsageError(f"--evals-locked: {one_line(why)}\n  fix: {_WRITE}")


def _differences(
    label: str, before: Mapping[str, Any] | None, now: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each value that differs."""
    if before is None:
        yield f"{label}: not in {LOCK}"
        return
    old, new = _flat(before), _flat(now)
    for key in sorted(old.keys() | new.keys(), key=lambda one: (one not in new, one)):
        if old.get(key) != new.get(key):
            was, is_ = (str(one.get(key) or "unknown") for one in (old, new))
            if key != "file":
                was, is_ = was[:_SHORT], is_[:_SHORT]
            yield f"{label}: {key}: {was} in {LOCK}, {is_} now"


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    code = entry.get("code")
    files = code if isinstance(code, dict) else {}
    return {
        **{key: value for key, value in entry.items() if key != "code"},
        **{f"code {name}": value for name, value in files.items()},
    }
