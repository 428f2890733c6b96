"""``init`` writes files that run, and overwrites none."""

from pathlib import Path

from pytest_evals.__main__ import main
from pytest_evals.init import STARTERS, text_of


def test_the_first_eval_and_its_gates_run(pytester, capsys):
    pytester.makeini("[pytest]\n")
    assert main(["init"]) == 0
    assert "pytest --model=scripted:echo evals" in capsys.readouterr().out
    result = pytester.runpytest("--model=scripted:echo", "evals")
    result.assert_outcomes(passed=4)


def test_existing_files_are_not_overwritten(tmp_path: Path, capsys):
    place = tmp_path / "evals" / "gates.yaml"
    place.parent.mkdir()
    place.write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert "existing: evals/gates.yaml" in capsys.readouterr().err
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == ["gates.yaml"]
    assert place.read_text() == "mine"


def test_the_workflow_is_that_of_the_docs():
    page = Path(__file__).parent.parent / "docs" / "ci.md"
    assert f"```yaml\n{text_of('workflow.yml')}```" in page.read_text("utf-8")


def test_all_starter_files_are_listed():
    folder = Path(main.__code__.co_filename).parent / "starter"
    assert {one.name for one in folder.iterdir()} == {one.source for one in STARTERS}
