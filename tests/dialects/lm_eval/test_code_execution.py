"""Consent for tasks that execute answers."""

import importlib.util

import pytest

from pytest_evals.dialects.lm_eval.code_execution import uses_sandbox_only

SAFE = "import evaluate\nmetric = evaluate.load('code_eval')\ndef f(): return metric\n"


@pytest.mark.parametrize(
    ("source", "only"),
    [
        (SAFE, True),
        (SAFE + "import re, math\n", True),
        ("def f(): pass", False),
        (SAFE + "import subprocess\n", False),
        (SAFE + "from os import system\n", False),
        (SAFE + "from .other import run\n", False),
        (SAFE + "def g(text): exec(text)\n", False),
        (SAFE + "other = evaluate.load('someone/else')\n", False),
        (SAFE + "name = 'x'\nother = evaluate.load(name)\n", False),
    ],
)
def test_consent_is_waived_only_for_code_eval(tmp_path, monkeypatch, source, only):
    file = tmp_path / "utils.py"
    file.write_text(source.replace("import evaluate", "evaluate = None", 1))
    spec = importlib.util.spec_from_file_location(f"utils_of_{hash(source)}", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, spec.name, module)

    def f():
        """Stands for a function of the module."""

    f.__module__ = spec.name
    file.write_text(source)
    assert uses_sandbox_only({"metric_list": [{"metric": f}]}) is only
