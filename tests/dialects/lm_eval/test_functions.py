"""``!function module.name``: the object that it resolves to, and its error messages."""

import os

import pytest

from pytest_evals.dialects.lm_eval.functions import resolve
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef
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
        "'no_such_library' (utils.py:1)\n"
        "  fix: install the package that provides 'no_such_library'"
    )


@pytest.mark.parametrize("name", ["helper.py", "helper/__init__.py"])
def test_a_module_next_to_the_task_file_is_put_on_the_import_path(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path.parent)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("Y = 1\n")
    (tmp_path / "utils.py").write_text("from helper import Y\n")

    folder = tmp_path.name
    assert failure(tmp_path, "utils.Y").endswith(
        f"No module named 'helper' ({folder}/utils.py:1)\n"
        f"  fix: put its folder on the import path: run with PYTHONPATH={folder}, or "
        f"set pythonpath = {folder} in pytest's ini file, relative to that file"
    )


def test_a_name_without_module_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert failure(tmp_path, "process") == (
        "a.yaml:3: !function process: expected module.name\n"
        "  fix: !function module.name"
    )


@pytest.mark.parametrize("dotted", ["../utils.f", "../../a/utils.f", "..utils.f"])
def test_a_module_may_be_named_by_its_path_from_the_file(dotted, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "utils.py").write_text("f = 'parent'\n")
    (tmp_path / "a" / "b" / "utils.py").write_text("f = 'own'\n")
    assert found(tmp_path / "a" / "b", dotted) == "parent"
    assert found(tmp_path / "a" / "b", "./utils.f") == "own"
    assert found(tmp_path / "a", "b/utils.f") == "own"


def test_a_path_to_a_module_ends_at_the_rootdir(tmp_path):
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "utils.py").write_text("f = 1\n")
    (tmp_path / "root" / "link.py").symlink_to(tmp_path / "utils.py")
    place = Place(tmp_path / "root" / "sub" / "a.yaml", 3)
    for dotted in ("../../utils.f", f"{tmp_path}/utils.f", "../link.f"):
        with pytest.raises(TaskFileError) as error:
            resolve(FunctionRef(place, dotted), [str(tmp_path / "root")])
        assert str(error.value).startswith(
            f"{place}: !function {dotted}: {tmp_path}/utils.py is outside of the "
            f"rootdir {tmp_path}/root\n  fix: "
        )


def test_a_path_without_a_module_names_the_file(tmp_path):
    (tmp_path / "sub").mkdir()
    message = failure(tmp_path / "sub", "../utils.f")
    assert message.endswith(f"!function ../utils.f: no file {tmp_path}/utils.py")
