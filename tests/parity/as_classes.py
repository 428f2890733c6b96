"""The recorded tasks as classes: each task file is passed to a class that adds nothing.

In lm-eval a task file and ``class ...(ConfigurableTask): pass`` with the same keys are
the same task. ``test_without_lm_eval.py`` runs this without lm-eval, so that the class
is the shim of lm-eval's.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
_SPEC = importlib.util.spec_from_file_location("parity", HERE / "test_parity.py")
parity = sys.modules["parity"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(parity)
vars().update({k: v for k, v in vars(parity).items() if k.startswith("test_")})
opened = parity.opened

CLASS = """
from lm_eval.api.task import ConfigurableTask

class Same(ConfigurableTask):
    pass
"""
BESIDE = "gen_evaluate"
"""Its metric is next to the task; a class searches the working directory of Python."""
FILES = [
    path for path in parity.RECORDINGS if not path.stem.startswith(("py_", BESIDE))
]


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def run(request, opened, tmp_path_factory):
    def through_a_class(file: Path) -> Path:
        folder = tmp_path_factory.mktemp("task")
        (folder / "same.py").write_text(CLASS)
        task = folder / "task.yaml"
        task.write_text(f"include: {file}\nclass: !function same.Same\n")
        return task

    return parity.run_of(request.param, opened, through_a_class)
