"""Detection of eval files in a folder, without pytest."""

from pathlib import Path

import pytest

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.readers import PYTHON_FILES, eval_files, load_file
from pytest_evals.errors import TaskFileError
from pytest_evals.plugin.settings.option_table import TABLE

MODULE = "from lighteval.tasks.requests import Doc\nTASKS_TABLE = []\n"
TASK = "task: quiz\ndataset_path: json\n"


@pytest.fixture
def tree(tmp_path):
    files = {
        "b.yaml": TASK,
        "a/c.yml": TASK,
        "a/eval_own.py": MODULE,
        "a/helper.py": MODULE,
        "a/gates.yaml": "gates: [quiz/acc >= 0.5]\n",
        "a/workflow.yaml": "jobs: {}\n",
        ".evals/d.yaml": TASK,
        "node_modules/e.yaml": TASK,
        "notes.txt": TASK,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_eval_files_are_detected_by_their_content(tree):
    found = [path.relative_to(tree).as_posix() for path in eval_files(tree)]
    assert found == ["a/c.yml", "a/eval_own.py", "b.yaml"]


def test_modules_have_the_names_that_pytest_takes():
    (option,) = [one for one in TABLE if one.name == "python-files"]
    assert option.default.split() == [*PYTHON_FILES]


def test_a_file_that_is_not_an_eval_file_is_an_error(tree):
    with pytest.raises(
        TaskFileError, match=r"workflow\.yaml: this is not an eval file"
    ):
        load_file(tree / "a" / "workflow.yaml", TaskOptions())
    with pytest.raises(TaskFileError, match=r"none\.yaml: file not found"):
        load_file(Path("none.yaml"), TaskOptions())
