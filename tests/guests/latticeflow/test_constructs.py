"""Every construct of LatticeFlow's files, with a valid and an invalid file each in
``tests/task_files/latticeflow``.

The files contain the expectations. At the beginning of a valid file::

    # model: {"text": "Paris"}      reply of the tested model, as in scripted:….jsonl
    # judge: {"text": "RIGHT"}      reply of all other models
    # with: p=3                     a parameter, as in --evals-latticeflow-config
    # gives: accuracy = 0.5         metrics; with several tasks: key/accuracy
    # error q2: no answer  prefix of a document's error, after its place
    # unscored q2: the judge's      the same for a document without a score
    # wants q1: Paris               the target in reports
    # excluded: q1, q4              documents excluded by an action
    # gates: p.rule passed          gates by their ids
    # warns: it is called           prefix of a warning of the task, after its place

In an invalid file, on the line that the message must name::

    type: single_turn  # wrong: all messages of this line, separated by ;
    template: '…'      # fails q1: prefix of the error of a document
    user_prompt: '…'   # unscored q1: the same for a document without a score

Numbers are computed by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pytest_evals import evaluate
from pytest_evals.core.record import Status
from pytest_evals.core.task import SuiteFiles, TaskOptions
from pytest_evals.errors import TaskFileError
from pytest_evals.guests.latticeflow import filters, generator, parameters
from pytest_evals.guests.latticeflow.loader import load_tasks
from pytest_evals.guests.latticeflow.metrics import reader as metrics
from pytest_evals.guests.latticeflow.metrics.reader import FUNCTIONS
from pytest_evals.guests.latticeflow.scoring import reader as reading
from pytest_evals.guests.latticeflow.solvers import conversations as multi
from pytest_evals.guests.latticeflow.solvers import reader as solvers

FOLDER = Path(__file__).parents[2] / "task_files" / "latticeflow"
FILES = [p for p in sorted(FOLDER.glob("*/*.yaml")) if p.parent.name != "data"]
WRONG = [path for path in FILES if path.name.endswith(".wrong.yaml")]
RIGHT = [path for path in FILES if path not in WRONG]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.yaml')}"


@pytest.fixture(scope="module")
def files():
    """Data shared by all files; each is read once."""
    return SuiteFiles()


@pytest.fixture
def comments(monkeypatch, tmp_path):
    """Return file → its comments: the words before the colon, and the text after it."""
    monkeypatch.chdir(FOLDER)
    rows = FOLDER / "data" / "rows.jsonl"
    monkeypatch.setenv("ROWS_URL", rows.as_uri())
    monkeypatch.setenv("ROWS_KEY", "rows")
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))

    def read(path):
        words = (
            "model|judge|with|gives|wants|error|unscored|excluded|gates|warns|wrong"
            "|fails"
        )
        pattern = re.compile(rf"# ({words})(?: (\w+))?: (.*)")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            match = pattern.search(line)
            if match is not None:
                yield (*match.groups(), number)

    return read


def loaded(path, facts, files):
    """The tasks of a file."""
    given = dict(text.split("=") for word, _, text, _ in facts if word == "with")
    values = {key: int(v) if v.isdigit() else v for key, v in given.items()}
    words = {word for word, *_ in facts}
    options = TaskOptions(
        root=str(FOLDER),
        base=str(FOLDER),
        parameters=values,
        has_model="model" in words,
        has_judge="judge" in words,
        files=files,
    )
    return load_tasks(path, options)


def scripted(facts, word, folder):
    """The model that the comments describe."""
    rules = [text for fact, _, text, _ in facts if fact == word]
    if not rules:
        return "scripted:fail"
    path = folder / f"{word}.jsonl"
    path.write_text("\n".join(rules) + "\n", "utf-8")
    return f"scripted:{path}"


def run(path, facts, files, folder):
    model, judge = (scripted(facts, word, folder) for word in ("model", "judge"))
    tasks = loaded(path, facts, files)
    return evaluate(tasks, model, TaskOptions(base=str(FOLDER)), judge=judge)


def lacking(record) -> str:
    """The reason why a document has no score."""
    return record.error or next(
        (score.unscored for score in record.scores if score.unscored), ""
    )


def numbers(result):
    """Name of a metric, with and without its task → value."""
    found = {}
    for task in result.tasks:
        for metric in task.metrics:
            value = metric.estimate.value if metric.estimate else None
            found[metric.name] = found[f"{task.task.name}/{metric.name}"] = value
    return found


def check_numbers(text, found) -> None:
    for pair in text.split(", "):
        name, _, number = pair.partition(" = ")
        expected = None if number == "nothing" else pytest.approx(float(number))
        assert found[name] == expected, found


@pytest.mark.parametrize("path", RIGHT, ids=name_of)
def test_a_valid_file_gives_the_results_in_its_comments(
    path, files, comments, tmp_path
):
    facts = [*comments(path)]
    result = run(path, facts, files, tmp_path)
    records = [record for task in result.tasks for record in task.records]
    lost = {r.doc.id: lacking(r) for r in records if r.status is not Status.SCORED}
    warnings = [message for task in result.tasks for message in task.task.warnings()]
    gates = {v.gate.id: v.outcome.value for v in result.verdicts}
    for word, about, text, _ in facts:
        if word == "gives":
            check_numbers(text, numbers(result))
        elif word == "wants":
            assert [r.doc.target for r in records if r.doc.id == about] == [text]
        elif word in ("error", "unscored"):
            assert text in lost.pop(about)
        elif word == "excluded":
            assert text == ", ".join(r.doc.id for r in records if r.excluded)
        elif word == "gates":
            assert gates == dict(pair.split(" ") for pair in text.split(", "))
        elif word == "warns":
            message = warnings.pop(0)
            assert re.match(rf"\S+:\d+: {re.escape(text)}", message), message
    assert (lost, warnings) == ({}, [])


@pytest.mark.parametrize("path", WRONG, ids=name_of)
def test_an_invalid_file_has_the_errors_in_its_comments(
    path, files, comments, tmp_path
):
    facts = [*comments(path)]
    shown = path.relative_to(FOLDER)
    expected = {
        (number, one)
        for word, _, text, number in facts
        if word == "wrong"
        for one in text.split("; ")
        if not one.startswith("did you mean")
    }
    if expected:
        with pytest.raises(TaskFileError) as caught:
            for task in loaded(path, facts, files):
                task.rows.ids()
        messages = Counter(
            (problem.where.line, problem.message.partition("; ")[0])
            for problem in caught.value.problems
        )
        assert {*messages.elements()} == expected, str(caught.value)
        assert {
            str(p.where.path.relative_to(FOLDER)) for p in caught.value.problems
        } == {str(shown)}
        hints = re.findall(r"# wrong: .*?; (did you mean '[^']*'\?)", path.read_text())
        assert all(hint in str(caught.value) for hint in hints), str(caught.value)
        return
    ((word, about, text, line),) = [
        fact for fact in facts if fact[0] in ("fails", "unscored")
    ]
    (result,) = run(path, facts, files, tmp_path).tasks
    record = next(r for r in result.records if r.doc.id == about)
    assert f"{shown}:{line}: {text}" in lacking(record)
    assert record.status is (Status.ERRORED if word == "fails" else Status.UNSCORED)


def test_each_construct_has_a_file_that_is_right_and_one_that_is_wrong():
    """The reader's dispatch tables list all constructs."""
    tables = {
        "solvers": [*solvers._READERS, "chat_completion", "generic", "postprocessor"],
        "builders": [*multi._READERS],
        "scorers": [*reading._READERS],
        "metrics": [*metrics._READERS],
        "aggregators": [
            f.replace("@", "_at_").replace("^", "_all_") for f in FUNCTIONS
        ],
        "parameters": [*parameters._PARAMETERS],
        "filters": [*filters._OPS],
        "generators": [*generator._SYNTHESIZERS, *generator._READERS],
    }
    lacking = [
        f"{folder}/{name}{ending}"
        for folder, names in tables.items()
        for name in names
        for ending in (".yaml", ".wrong.yaml")
        if not (FOLDER / folder / f"{name}{ending}").is_file()
    ]
    assert lacking == []
