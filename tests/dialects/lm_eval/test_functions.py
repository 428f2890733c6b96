"""``!function module.name``: the object that it resolves to, and its error messages."""

import os

import pytest

from pytest_evals.dialects.lm_eval.functions import resolve
from pytest_evals.dialects.yaml_reader.function_tag import FunctionRef
from pytest_evals.errors import Place, TaskFileError


def found(folder, dotted):
    return resolve(FunctionRef(Place(folder / "a.yaml", 3), dotted))


def failure(folder, dotted):
    with pytest.raises(TaskFileError) as error:
        found(folder, dotted)
    return str(error.value)


def test_a_module_next_to_the_file_is_found_first(tmp_path):
    (tmp_path / "json.py").write_text("def loads(text):\n    return 'mine'\n")

    assert found(tmp_path, "json.loads")("{}") == "mine"
    assert found(tmp_path / "elsewhere", "json.loads")("{}") == {}


def test_modules_of_the_same_name_do_not_mix(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "utils.py").write_text(f"NAME = {name!r}\n")

    names = [found(tmp_path / name, "utils.NAME") for name in ("one", "two")]

    assert names == ["one", "two"]


def test_a_module_is_loaded_once(tmp_path):
    (tmp_path / "utils.py").write_text("A = object()\nB = A\n")

    a, b = (found(tmp_path, f"utils.{x}") for x in "AB")

    assert a is b


def test_a_changed_module_is_loaded_again(tmp_path):
    for number in (1, 2):
        (tmp_path / "utils.py").write_text(f"A = {number}\n")
        os.utime(tmp_path / "utils.py", ns=(number * 10**9, number * 10**9))
        assert found(tmp_path, "utils.A") == number


def test_a_misspelt_function_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utils.py").write_text("def process_docs(docs): ...\n")

    assert failure(tmp_path, "utils.proces_docs") == (
        "a.yaml:3: utils.py has no 'proces_docs'; did you mean 'process_docs'?"
    )


def test_a_module_that_is_nowhere_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert failure(tmp_path, "no_such_module.f") == (
        "a.yaml:3: !function no_such_module.f: no module 'no_such_module'\n"
        "  fix: write no_such_module.py or install the module"
    )


def test_a_module_that_fails_reports_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utils.py").write_text("X = 1\nY = {}['y']\n")

    assert failure(tmp_path, "utils.Y") == (
        "a.yaml:3: importing 'utils' failed: KeyError: 'y' (utils.py:2)"
    )


def test_a_library_that_the_module_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "utils.py").write_text("import no_such_library\n")

    assert failure(tmp_path, "utils.Y") == (
        "a.yaml:3: importing 'utils' failed: ModuleNotFoundError: No module named "
        "'no_such_library' (utils.py:1)"
    )


def test_a_name_without_module_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert failure(tmp_path, "process") == (
        "a.yaml:3: !function process: expected module.name\n"
        "  fix: !function module.name"
    )
