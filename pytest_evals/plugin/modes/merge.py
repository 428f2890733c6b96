"""``--evals-merge``: take the documents from parts of a run (``--evals-shard``) instead
of running them.

The session collects the suite as ever. Each document is kept as its part had it, as the
controller of pytest-xdist keeps those of workers; gates, tests of the results, reports
and the exit code follow as in one run. No model is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.record import Record
from pytest_evals.errors import StoreError, plural
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.result_tests import is_late
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.workers.serialization import read_record_line, record_key
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.batches import Job
from pytest_evals.run.task_identity import NEEDS, needs, public_config, task_identity
from pytest_evals.store.folder import SampleLines
from pytest_evals.store.part_differences import difference, part_faults
from pytest_evals.store.parts import PARTS, RECORDS, StoredPart, read_parts

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

MERGED: pytest.StashKey[dict[str, list[StoredPart]]] = pytest.StashKey()
"""The parts that a session merges, by the name of their model."""
_SHOWN = 5  # documents and differences that a message lists


def begin_merge(config: pytest.Config) -> None:
    """Read the parts that a session merges, and use no workers; refuse parts that are
    not all those of one run."""
    try:
        parts = read_parts(config.stash[OPTIONS].merge)
    except StoreError as error:
        raise pytest.UsageError(f"--evals-merge: {error}") from None
    models = config.stash[OPTIONS].models
    names = [one.name for one in models] if len(models) > 1 else [""]
    by_model: dict[str, list[StoredPart]] = {name: [] for name in names}
    for part in sorted(parts, key=lambda part: part.number):
        by_model.setdefault(part.model, []).append(part)
    if faults := [*_model_faults(by_model, names)]:
        raise _refused(faults)
    config.stash[MERGED] = by_model
    if config.getoption("dist", "no") != "no":
        config.option.dist, config.option.tx = "no", []


def _model_faults(
    by_model: Mapping[str, Sequence[StoredPart]], names: Sequence[str]
) -> Iterator[str]:
    for name, parts in by_model.items():
        model = f"model {name!r}" if name else "one model without a name"
        if name not in names:
            here = ", ".join(names) if names[0] else "one model"
            yield f"{parts[0].path}: is of {model}; --model gives {here}"
        elif not parts:
            yield f"no part is of {model}"
        else:
            yield from (
                f"{name}: {text}" if name else text for text in part_faults(parts)
            )


def _refused(faults: Sequence[str]) -> pytest.UsageError:
    more = len(faults) - 2 * _SHOWN
    shown = [*faults[: 2 * _SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return pytest.UsageError("the parts cannot be merged:\n  " + "\n  ".join(shown))


class MergeMode:
    """The documents of all parts, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._parts = session.config.stash[MERGED][session.model]
        self._records: dict[tuple[str, int], tuple[StoredPart, bytes]] = {}
        self._samples: dict[Path, SampleLines] = {}
        session.merged = self.take

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Leave out tests that have run in a part."""
        yield
        items[:] = [
            one for one in items if isinstance(one, DocItem | GateItem) or is_late(one)
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the records; refuse parts whose suite differs, or whose documents are
        missing or there twice."""
        if session.testsfailed:
            return
        faults = [*self._suite_faults()] or [*self._read_records()]
        documents = {
            (item.job.task.name, item.job.index): item.nodeid
            for item in session.items
            if isinstance(item, DocItem) and self._session.owns(item)
        }
        if not faults:
            faults = [*self._document_faults(documents)]
        if faults:
            raise _refused(faults)
        inference = self._session.run.inference
        inference.expect(len(documents))
        for part in self._parts:
            inference.add_worker(part.facts["models"])
            warnings = self._session.warnings.of_workers
            warnings[part.number] = part.facts["warnings"]

    def pytest_report_collectionfinish(self) -> str | None:
        """Show the number of parts."""
        if not self._session.is_first:
            return None
        n = len(self._parts)
        return f"evals: documents of {plural(n, 'part')}; no model is opened"

    def _suite_faults(self) -> Iterator[str]:
        """Yield how the tasks here differ from those of the parts."""
        suite, first = self._session.suite, self._parts[0]
        for name in {**first.tasks, **suite.tasks}:
            if name not in suite.tasks:
                yield f"{name}: this task of the parts is not collected here{_PASS}"
            elif name not in first.tasks:
                yield f"{name}: this task is not in the parts{_PASS}"
            else:
                run = suite.tasks[name]
                here = public_config(run.task) | task_identity(run, suite)
                lacking = {*needs(suite.required(name))} - {*first.tasks[name][NEEDS]}
                configs = first.results.get("configs") or {}
                there = {**configs.get(name, {}), **first.tasks[name]}
                for key in here:
                    is_same = key == NEEDS and not lacking
                    text = difference(there.get(key), here[key])
                    if text and not is_same:
                        yield f"{name}: {key}: {text[0]} in the parts, {text[1]} here"

    def _read_records(self) -> Iterator[str]:
        """Read the records of all parts; yield documents that are there twice."""
        for part in self._parts:
            path = part.path / RECORDS
            if RECORDS not in part.facts["files"]:
                continue
            for line in path.read_bytes().splitlines():
                try:
                    key = record_key(line)
                except ValueError as error:
                    yield f"{path}: is damaged: {error}"
                    return
                other = self._records.get(key)
                if other is not None and other[0] is not part:
                    yield (
                        f"{key[0]}: document {key[1]} is in part {other[0].number} and "
                        f"in part {part.number}"
                    )
                self._records[key] = part, line

    def _document_faults(self, here: dict[tuple[str, int], str]) -> Iterator[str]:
        """Yield the documents that only the parts or only the suite has."""
        missing = [nodeid for key, nodeid in here.items() if key not in self._records]
        more = [f"{name}[{n}]" for name, n in self._records if (name, n) not in here]
        for nodeids, where in (
            (missing, "is in no part"),
            (more, "of the parts is not collected here"),
        ):
            if nodeids:
                n, listed = len(nodeids), ", ".join(nodeids[:_SHOWN])
                dots = ", …" * (n > _SHOWN)
                yield f"{plural(n, 'document')} {where}: {listed}{dots}"

    def take(self, job: Job) -> Record:
        """Keep a document as its part had it, and return its record."""
        part, line = self._records[job.task.name, job.index]
        record, hashes, reads = read_record_line(line)
        file = part.path / Path(part.results["sample_files"][job.task.name]).name
        if file not in self._samples:
            self._samples[file] = SampleLines(file)
        lines = self._samples[file].of(job.index)
        run = self._session.run
        run.inference.arrived(record, part.facts.get("names"))
        run.flow.keep(record, Sample(lines, hashes, reads))
        return record

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Fail for tests that failed in a part; write ``parts.json``."""
        for part in self._parts:
            if failed := part.facts["failed_tests"]:  # only the first model has them
                tests = plural(len(failed), "test")
                why = f"{tests} failed in part {part.number}: {', '.join(failed)}"
                self._session.outcome.fail(session, why)
                self._session.outcome.line = self._session.outcome.line or why
        if self._session.progress is not None:
            about = {"parts": [*map(_about, self._parts)]}
            self._session.run.writer.add_file(PARTS, about)
        yield


_PASS = "; merge the commit that the parts ran, with the same options"


def _about(part: StoredPart) -> dict[str, Any]:
    """Return what is kept of a part: its machine and times."""
    facts = part.facts
    names = ("part", "parts", "machine", "started", "elapsed_s", "exit_code", "cut")
    models = facts["models"]
    return {
        **{name: facts.get(name) for name in names},
        "documents": {
            name: counts.get("selected", 0) - counts.get("missing", 0)
            for name, counts in (part.results.get("counts") or {}).items()
        },
        "n_requests": models.get("n_requests"),
        "model_seconds": models.get("model_s"),
        "folder": part.path.name,
    }
