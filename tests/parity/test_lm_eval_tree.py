"""lm-eval's own task tree: this package loads each file as lm-eval does.

``lm_eval_tree.py`` describes the comparison. Groups are compared as mappings only;
their members are tested elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("lm_eval_tree.py")
N_WORKERS = int(os.getenv("PYTEST_XDIST_WORKER_COUNT", "1"))
PARTS = max(1, min((os.cpu_count() or 1) // N_WORKERS, 4))
"""Processes: each must import the modules of the tasks, and the workers are busy
too."""

NO_SCRIPT = "the evaluate library has no script"
REFUSED = {
    "polemo2/polemo2_in.yaml": NO_SCRIPT,
    "polemo2/polemo2_out.yaml": NO_SCRIPT,
    "wmt2016/ro_en-t5_prompt.yaml": NO_SCRIPT,
}
"""Tasks whose configuration lm-eval can load and this package cannot, since a metric is
a script that both must download; lm-eval looks for it one step later."""

NO_FUNCTION = "has no function 'filter_per_entities_from_lines'"
BROKEN = {"evalita_llm/_evalita-mp_ner-fic_group_p1.yaml": NO_FUNCTION}
"""Files that lm-eval cannot load on any machine."""

MISSING = re.compile(
    r"^(ModuleNotFoundError|ImportError): |are required|module script|SWI-Prolog",
    re.MULTILINE,
)
"""Messages of lm-eval's helper modules about a library or program that is not
installed."""


def installed() -> str:
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return "none"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """The combined output of the program's parts."""
    if installed() != "0.4.13":
        pytest.skip(f"needs lm_eval 0.4.13, and {installed()} is installed")
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(part), str(PARTS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in range(PARTS)
    ]
    whole: dict[str, Any] = {}
    for process in running:
        out, err = process.communicate()
        assert process.returncode == 0, err[-2000:]
        for key, value in json.loads(out).items():
            known = whole.get(key, type(value)())
            whole[key] = known | value if isinstance(value, dict) else known + value
    return whole


@pytest.mark.nightly
def test_every_file_that_lm_eval_can_load_has_the_same_configuration_here(
    report: dict[str, Any],
) -> None:
    n_loadable = report["n_tasks"] - len(report["refused"])
    share = report["n_same"] / n_loadable
    print(f"{report['n_same']} of {n_loadable} tasks: {share:.2%}")
    assert report["differing"] == {}
    assert share == 1
    # 13,986 files, 855 of them groups, as counted with lm-eval's own index.
    assert report["n_files"] == 13_986
    assert report["n_same"] + report["n_same_mappings"] == 13_986 - len(REFUSED)


@pytest.mark.nightly
def test_the_recording_is_true_of_the_installed_lm_eval(report: dict[str, Any]) -> None:
    """Of a sample, of all groups and classes, and of all differences."""
    assert report["stale"] == []
    assert 1000 < report["n_loaded"] < 3000


@pytest.mark.nightly
def test_no_file_is_refused_that_lm_eval_can_load(report: dict[str, Any]) -> None:
    assert report["refused"].keys() == REFUSED.keys()
    for name, text in report["refused"].items():
        assert REFUSED[name] in text


@pytest.mark.nightly
def test_files_that_lm_eval_cannot_load_lack_a_library_or_are_known(
    report: dict[str, Any],
) -> None:
    """In that case the import failure and its reason are one error of the file."""
    odd = {
        name: text
        for name, text in report["not_loadable"].items()
        if not MISSING.search(text)
    }
    assert odd.keys() == BROKEN.keys()
    for name, text in odd.items():
        assert BROKEN[name] in text
    for name, text in report["not_loadable_here"].items():
        assert re.search("importing '|: class: ", text), name
