"""Measure the CPU time that each part of the plugin's fast path saves.

    python tests/bench/fast_path.py [--docs 20000] [--rounds 5] [--workers 2] [PART …]

The suite of ``plugin_overhead.py`` runs with the fast path, and with one part of it
replaced by pytest's own implementation, in turn. A row is a part: the median over all
rounds of the difference to the run of the same round with all parts. ``off`` is
``--evals-fast-path=off``. Other plugins are not loaded. With ``--workers`` the time is
the sum over all processes.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from pathlib import Path

import plugin_overhead

FAST = "pytest_evals.plugin.execution.fast_path"
REPLACED = {
    "one report a document": """
        from {FAST}.protocol import FastPath
        FastPath._is_between_documents = lambda self, item, then: False
    """,
    "shared protocol calls": """
        from {FAST} import protocol
        protocol._is_observed = lambda config: True
    """,
    "hook calls without pluggy": """
        from {FAST} import hook_calls
        hook_calls._is_plain = lambda manager: False
    """,
    "counts of the terminal": """
        from {FAST} import hook_calls
        hook_calls._counting_terminal = lambda config: []
    """,
    "own capture": """
        import pytest
        from {FAST} import protocol
        def run(self, item, receivers, of_silent):
            capture = item.config.pluginmanager.getplugin("capturemanager")
            def captured():
                with capture.item_capture("call", item):
                    item.runtest()
            call = pytest.CallInfo.from_call(captured, "call", reraise=protocol._RAISED)
            report = pytest.TestReport.from_item_and_call(item, call)
            item.mark(report)
            for receive, part in receivers:
                receive(*(report,)[part])
        protocol.FastPath._run = run
    """,
    "location": """
        from pytest_evals.plugin.documents import DocItem
        del DocItem.location
    """,
    "garbage collection: thresholds": """
        import gc
        from {FAST}.protocol import ReducedGarbageCollection
        def keep(self):
            self._thresholds = gc.get_threshold()
        ReducedGarbageCollection.__init__ = keep
    """,
    "garbage collection: exit": """
        import gc
        from {FAST}.protocol import ReducedGarbageCollection
        ReducedGarbageCollection.end = lambda self: gc.set_threshold(*self._thresholds)
    """,
    "batches of reports (workers)": """
        from {FAST} import report_batches
        report_batches._sender_of = lambda config: None
    """,
    "packed reports (workers)": """
        from {FAST} import report_batches
        report_batches.packed_report = lambda report: None
    """,
    "off": "",
}
"""Part → code that replaces it, run when the suite's conftest is loaded."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("parts", nargs="*", default=[])
    given = parser.parse_args()
    workers = [f"-n{given.workers}"] if given.workers else []
    plugins = ["pytest_evals.plugin.hooks", *["xdist.plugin"] * bool(workers)]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTEST_PLUGINS"] = ",".join(reversed(plugins))
    parts = given.parts or [p for p in REPLACED if bool(workers) or "workers" not in p]
    runs: dict[str, list[float]] = {part: [] for part in ("", *parts)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "pytest.ini").write_text("[pytest]\n")
        empty = _cpu_s(folder, "", given.docs, workers)
        (folder / "suite.bench").write_text("")
        for seed in range(given.rounds):
            order = list(runs)
            random.Random(seed).shuffle(order)
            for part in order:
                runs[part].append(_cpu_s(folder, part, given.docs, workers))
    each = 1e6 / given.docs
    whole = statistics.median(runs[""]) - empty
    print(f"{given.docs} documents, {given.rounds} rounds")
    print(f"{'all parts: µs/document':34}{whole * each:8.1f}")
    for part in parts:
        pairs = zip(runs[part], runs[""], strict=True)
        saved = [each * (without - full) for without, full in pairs]
        shown = " ".join(f"{one:.0f}" for one in saved)
        print(f"{part:34}{statistics.median(saved):8.1f}   ({shown})")


def _cpu_s(folder: Path, part: str, n_docs: int, workers: list[str]) -> float:
    """CPU time of all processes of a run."""
    code = REPLACED.get(part, "").replace("{FAST}", FAST)
    lines = [line.removeprefix(" " * 8) for line in code.splitlines()]
    text = "\n".join([plugin_overhead.CONFTEST, *lines, ""])
    (folder / "conftest.py").write_text(text)
    off = ["--evals-fast-path=off"] if part == "off" else []
    return plugin_overhead.run(folder, n_docs, ["-q", *workers, *off]).cpu_s


if __name__ == "__main__":
    main()
