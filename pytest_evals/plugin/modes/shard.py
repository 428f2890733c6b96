"""``--evals-shard=K/N``: run one part of a suite. Its gates are pending; the command
``merge`` judges them over all parts.

Every job computes the same parts, by the rule of workers. Each document, and each test
outside of evals, is in one part; tests that use the results run when parts are merged.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.record import Record
from pytest_evals.masking.values import masked_text
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.gates import GateItem
from pytest_evals.plugin.settings.option_table import TABLE
from pytest_evals.plugin.workers.serialization import record_line
from pytest_evals.plugin.workers.sharding import shard_items
from pytest_evals.reports.escape import near
from pytest_evals.reports.files.samples import Sample
from pytest_evals.run.task_identity import task_identity
from pytest_evals.store.cache import file_hash
from pytest_evals.store.history import RESULTS
from pytest_evals.store.parts import LEFT_OUT, PART, RECORDS, SELECTING, checksum
from pytest_evals.store.schema import SCHEMAS

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class ShardMode:
    """Leaves the other parts of a model's suite out of the session and writes the files
    of this one, as a pytest plugin. The first model's also keeps other tests."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._part, self._n = map(int, session.options.shard.split("/"))
        self._lines: list[str] = []
        self._failed: dict[str, None] = {}
        """Node ids of failed tests that are not evals."""
        if session.assignment is None:
            session.run.flow.on_keep = self._keep

    def _keep(self, record: Record, sample: Sample) -> None:
        self._session.run.writer.add_record(record_line(record, sample))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Keep the documents of this part, and all gates, once everything else has
        selected and sorted items."""
        yield
        session = self._session
        mine = [item for item in items if self._is_own(item)]
        ids = [item.nodeid for item in mine]
        # All models are cut by one run: workers have only one.
        recorded, run = session.all[0].recorded_costs, session.all[0].costs_run
        shards = shard_items(ids, session.suite, self._n, recorded=recorded)
        session.cut = cut_hash([[ids[i] for i in one] for one in shards.shards])
        kept = {id(mine[position]) for position in shards.shards[self._part - 1]}
        gone = {
            id(item)
            for item in mine
            if id(item) not in kept and not isinstance(item, GateItem)
        }
        items[:] = [item for item in items if id(item) not in gone]
        documents = [item for item in mine if isinstance(item, DocItem)]
        n, n_all = sum(id(item) in kept for item in documents), len(documents)
        costs = ""
        if recorded and run is not None:
            here = session.config.invocation_params.dir
            costs = f", by the costs in {near(run.path, here)}"
        of = f" of {session.model}" if session.model else ""
        self._lines = [
            f"evals: part {self._part} of {self._n}: {n:,} of {n_all:,} documents"
            f"{of}{costs}; gates are pending until the parts are merged"
        ]

    def _is_own(self, item: pytest.Item) -> bool:
        if isinstance(item, DocItem | GateItem):
            return self._session.owns(item)
        return self._session.is_first

    def pytest_report_collectionfinish(self) -> list[str]:
        """Show the number of documents in this part."""
        return self._lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember failed tests, which no other job runs."""
        is_ours = hasattr(report, "evals_word") or hasattr(report, "evals_is_document")
        if not self._session.is_first or self._session.assignment is not None:
            return
        if report.failed and not is_ours:
            self._failed[report.nodeid] = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Write ``part.json``, after all other files. A part without documents is as
        good as any other."""
        is_worker = self._session.assignment is not None
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not is_worker:
            session.exitstatus = pytest.ExitCode.OK
        yield
        writer = self._session.run.writer
        if is_worker or self._session.run.result is None or writer.path is None:
            return
        if not writer.error:
            writer.add_file(PART, self._facts(session))
        if not writer.error:  # of what was written, without secrets
            facts = json.loads((writer.path / PART).read_bytes())
            writer.add_file(PART, {**facts, "checksum": checksum(facts)})
        if writer.error:
            self._session.outcome.fail(session, writer.error)

    def _facts(self, session: pytest.Session) -> dict[str, Any]:
        evals = self._session
        run, folder = evals.run, evals.run.writer.path
        assert folder is not None
        names = [RESULTS, *run.writer.files.values()]
        if (folder / RECORDS).is_file():
            names.append(RECORDS)
        return {
            "schema_version": SCHEMAS["part"].current,
            "name": evals.model,
            "part": self._part,
            "parts": self._n,
            "partial": "" if run.partial == evals.part_of_run else run.partial,
            "cut": evals.cut,
            "command": part_command(evals.config),
            "tasks": {
                name: task_identity(one, evals.suite)
                for name, one in evals.suite.tasks.items()
            },
            "models": run.inference.worker_report(),
            "names": run.inference.machine(evals.options.model),
            "machine": machine(run.inference.info),
            "started": run.config.started.date,
            "elapsed_s": run.config.started.elapsed_s,
            "exit_code": int(session.exitstatus),
            "warnings": evals.warnings.of_documents(),
            "failed_tests": [*self._failed],
            "files": {name: file_hash(folder / name) for name in names},
        }


def machine(info: Any) -> dict[str, Any]:
    """Return what is known about this machine; ``info``: the model's description."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "device": info.get("device_name") or info.get("device") or "",
    }


def cut_hash(shards: Sequence[Sequence[str]]) -> str:
    """Return a hash of the node ids in each part: equal if two jobs cut a suite
    alike."""
    lines = (f"{part} {nodeid}\n" for part, ids in enumerate(shards) for nodeid in ids)
    return hashlib.sha256("".join(lines).encode("utf-8", "replace")).hexdigest()


_MODELS = ("model", "judge")


def part_command(config: pytest.Config) -> dict[str, Any]:
    """Return options and paths as JSON values without secrets, see
    :func:`~pytest_evals.store.parts.pytest_arguments`."""
    options: dict[str, list[str]] = {}
    for one in TABLE:
        value = config.getoption(one.dest)
        if value is not None and one.name not in LEFT_OUT:
            texts = value if isinstance(value, list) else [value]
            is_loose = one.name in _MODELS
            options[one.name] = [
                masked_text(str(text), loose=is_loose)
                for text in texts
                if one.kind != "flag"
            ]
    found: dict[str, Any] = {"options": options}
    found["paths"] = [_relative(str(arg), config) for arg in config.args]
    for name in SELECTING:
        given = config.getoption(name, None) or []
        found[name] = [given] if isinstance(given, str) else [*map(str, given)]
    return found


def _relative(arg: str, config: pytest.Config) -> str:
    """Return a path or node id relative to the folder where pytest was started: the
    other job may have another checkout."""
    path, colons, names = arg.partition("::")
    here = config.invocation_params.dir
    if Path(path).is_absolute() and Path(path).is_relative_to(config.rootpath):
        path = os.path.relpath(path, here)
    return f"{path}{colons}{names}"
