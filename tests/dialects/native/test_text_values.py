"""Values of rows are the text that was written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evals import RunResult, TaskFileError, TaskOptions, evaluate
from pytest_evals.core.record import Status
from pytest_evals.dialects.native.eval_file import load_tasks


def rows_of(folder: Path, text: str) -> list[dict[str, Any]]:
    """The rows of an eval file."""
    (folder / "eval.yaml").write_text(text, "utf-8")
    (task,) = load_tasks(folder / "eval.yaml", TaskOptions())
    return [dict(task.ask(n).doc.row) for n in range(len(task.rows.ids()))]


def fault(folder: Path, text: str) -> str:
    """The problems that collection finds."""
    with pytest.raises(TaskFileError) as error:
        rows_of(folder, text)
    return str(error.value)


def run(folder: Path, text: str, answer: Any) -> RunResult:
    (folder / "eval.yaml").write_text(text, "utf-8")
    return evaluate(folder / "eval.yaml", answer)


def test_scalars_in_a_row_are_the_text_that_was_written(tmp_path: Path) -> None:
    written = {
        "price": "4.90",
        "time": "10:30",
        "zip": "01067",
        "code": "007",
        "flag": "yes",
        "none": "null",
        "tilde": "~",
        "nothing": "",
        "date": "2024-01-01",
        "no_date": "2024-13-01",
        "power": "1e3",
        "hex": "0x10",
        "long": "1_000",
        "large": "9" * 4000,
        "equal": "=",
        "infinite": ".inf",
        "quoted": "4.90",
    }
    unquoted = [f"{k}: {v}" for k, v in written.items() if k != "quoted"]
    row = "\n    ".join([*unquoted, "quoted: '4.90'"])
    text = f'prompt: "{{{{price}}}}"\ntarget: x\nrows:\n  - {row}\n'
    assert rows_of(tmp_path, text) == [written]


def test_an_unquoted_null_in_a_row_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "eval.yaml").write_text(
        'prompt: "{{q}}"\nrows:\n'
        '  - {q: a, target: "null", note: ~}\n'
        "  - {q: b, target: null, note: ~}\n"
        "  - {q: c, target: , note: [null]}\n",
        "utf-8",
    )
    (task,) = load_tasks(tmp_path / "eval.yaml", TaskOptions())
    place = tmp_path / "eval.yaml"
    fix = "not a missing value; leave it empty, or quote it"
    assert task.warnings() == (
        f"{place}:3: 'note' is the text '~', {fix}: \"~\"",
        f"{place}:4: 'target' is the text 'null', {fix}: \"null\"",
    )


def test_nested_values_and_tagged_ones_keep_their_types(tmp_path: Path) -> None:
    text = """
prompt: "{{price}}"
target: x
rows:
  - {price: 4.90, amount: [4, 4.90], more: {n: 007}, tagged: !!int "4"}
"""
    assert rows_of(tmp_path, text) == [
        {"price": "4.90", "amount": [4, 4.9], "more": {"n": 7}, "tagged": 4}
    ]


def test_rows_of_anchors_and_merged_rows_are_text_as_well(tmp_path: Path) -> None:
    text = """
prompt: "{{price}}"
target: x
rows:
  - &first {price: 4.90, zip: 01067}
  - *first
  - {<<: *first, price: 3.00}
"""
    first = {"price": "4.90", "zip": "01067"}
    assert rows_of(tmp_path, text) == [first, first, {"price": "3.00", "zip": "01067"}]


def test_the_cells_of_a_csv_file_are_the_text_that_was_written(tmp_path: Path) -> None:
    cells = "\ufeffq,price,days,zip,none\r\n"
    cells += '"a ""b"",\nc",4.90,30,01067,NA\r\nd,10.00,,007,\r\n'
    expected = [
        {"q": 'a "b",\nc', "price": "4.90", "days": "30", "zip": "01067", "none": "NA"},
        {"q": "d", "price": "10.00", "days": "", "zip": "007", "none": ""},
    ]
    tabs = "q\tprice\na\t4.90\n\nb\n"
    (tmp_path / "rows.csv").write_text(cells, "utf-8", newline="")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(cells.encode()))
    (tmp_path / "rows.tsv").write_text(tabs, "utf-8")
    text = 'prompt: "{{q}}"\ntarget: x\ndataset: '
    assert rows_of(tmp_path, f"{text}rows.csv\n") == expected
    assert rows_of(tmp_path, f"{text}rows.csv.gz\n") == expected
    assert rows_of(tmp_path, f"{text}rows.tsv\n") == [
        {"q": "a", "price": "4.90"},
        {"q": "b", "price": ""},
    ]


def test_a_folder_of_csv_files_is_text_and_json_lines_keep_types(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.csv").write_text("q,zip,n\na,007,\nb,1,30\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "a", "n": 4.9, "z": "007"}))
    text = 'prompt: "{{q}}"\ntarget: x\ndataset: '
    assert rows_of(tmp_path, f"{text}./data\n") == [
        {"q": "a", "zip": "007", "n": ""},
        {"q": "b", "zip": "1", "n": "30"},
    ]
    assert rows_of(tmp_path, f"{text}rows.jsonl\n") == [
        {"q": "a", "n": 4.9, "z": "007"}
    ]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("q,q\n1,2\n", "rows.csv:1: columns 1 and 2 are both 'q'"),
        ("q,a\n1,2,3\n", "rows.csv:2: 3 cells, and the header has 2"),
        ('q,a\n1,"2\n', "rows.csv:2: unexpected end of data"),
        ("", "rows.csv: the file has no rows"),
    ],
)
def test_a_file_that_is_not_a_table_is_an_error_with_its_line(
    tmp_path: Path, cells: str, message: str
) -> None:
    (tmp_path / "rows.csv").write_text(cells, "utf-8")
    assert message in fault(tmp_path, 'prompt: "{{q}}"\ntarget: x\ndataset: rows.csv\n')


def test_answers_are_compared_with_the_text_that_was_written(tmp_path: Path) -> None:
    text = """
prompt: "{{q}}"
rows:
  - {id: 007, q: price, target: 4.90}
  - {id: 08, q: time, target: 10:30}
  - {id: 1.0, q: list, target: [4, "five"]}
score:
  - exact
  - {contains: {any_of: [4.90, 10:30, 5], name: some}}
gates: [exact >= 1, some >= 0.6]
"""
    answers = {"price": "4.90", "time": "10:30", "list": "4"}
    result = run(tmp_path, text, lambda prompt: answers[prompt])
    assert [one.doc.id for one in result.tasks[0].records] == ["007", "08", "1.0"]
    assert [[s.value for s in one.scores] for one in result.tasks[0].records] == [
        [1, 1],
        [1, 1],
        [1, 0],
    ]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("target: 4.90", "4.90"),
        ("target: [1, 10:30]", "10:30"),
        ("target: yes", "yes"),
        ("score: {contains: 007}", "is 007"),
        ("score: {not: {starts_with: 1}}", "007"),
    ],
)
def test_targets_and_texts_of_scorers_are_as_written(
    tmp_path: Path, keys: str, answer: str
) -> None:
    text = f"prompt: '{{{{q}}}}'\nrows: [{{q: a}}]\n{keys}\n"
    result = run(tmp_path, text, lambda prompt: answer)
    assert [one.value for one in result.tasks[0].records[0].scores] == [1]


def test_choices_are_as_written(tmp_path: Path) -> None:
    text = """
prompt: "{{q}}"
rows: [{q: price, target: 4.90}, {q: price, target: 1}]
choices: [4.90, 10:30]
"""
    (tmp_path / "eval.yaml").write_text(text, "utf-8")
    (task,) = load_tasks(tmp_path / "eval.yaml", TaskOptions())
    docs = [task.ask(n).doc for n in (0, 1)]
    assert [(one.choices, one.gold_index) for one in docs] == [
        (["4.90", "10:30"], 0),
        (["4.90", "10:30"], 1),
    ]


@pytest.mark.parametrize(
    ("template", "what", "fix"),
    [
        (
            "{{ price * 2 }}",
            "'price' is the text '4.90'",
            "{{ price|float }} to compute",
        ),
        ("{{ price + n }}", "'+' needs a number", "{{ price ~ n }} to join"),
        ("{{ price - n }}", "unsupported operand", "{{ n|float }}, {{ price|float }}"),
        ("{{ 'x' if n == 3 else 'y' }}", "'==' needs a number", "{{ n|float }}"),
        ("{{ 'x' if n in [3, 4] else 'y' }}", "'in' needs a number", "{{ n|float }}"),
        ("{{ 'x' if n < price else 'y' }}", "'<' needs a number", "{{ n|float }}"),
        ("{{ 'x' if n > 2 else 'y' }}", "'>' needs a number", "{{ n|float }}"),
        ("{% if flag %}x{% endif %}{{n}}", "'false', which is true", "{% if flag == "),
        (
            "{{ n if void is not none else 1 }}",
            "'is none' is never",
            "{% if void == ''",
        ),
        ("{{ '%.1f' % price }}", "real number, not str", "{{ price|float }}"),
        ("{{ price|round }}", "__round__", "{{ price|float }}"),
    ],
)
def test_computing_with_text_is_an_error_that_names_the_fix(
    tmp_path: Path, template: str, what: str, fix: str
) -> None:
    rows = "rows: [{price: 4.90, n: 3, flag: false, void: , target: x}]\n"
    found = fault(tmp_path, f'prompt: "{template}"\n{rows}')
    assert found.startswith(str(tmp_path / "eval.yaml:1: prompt: "))
    assert what in found
    assert fix in found.partition("\n  fix: ")[2]
    scorer = f'prompt: "{{{{n}}}}"\n{rows}score: {{contains: "{template}"}}\n'
    assert fault(tmp_path, scorer).startswith(str(tmp_path / "eval.yaml:3: score: "))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ price|float * 2 }}", "9.8"),
        ("{{ n|int + 1 }}", "4"),
        ("{{ first + ' ' + last }}", "Ada Lovelace"),
        ("{{ price ~ n }}", "4.903"),
        ("{{ 'x' if n == '3' else 'y' }}", "x"),
        ("{{ 'x' if first < last else 'y' }}", "x"),
        ("{{ first if first else last }}", "Ada"),
        ("{{ amounts[0] + 1 }}", "5"),
    ],
)
def test_templates_that_convert_or_join_text_work(
    tmp_path: Path, template: str, expected: str
) -> None:
    row = "{price: 4.90, n: 3, first: Ada, last: Lovelace, amounts: [4], target: x}"
    (tmp_path / "eval.yaml").write_text(f'prompt: "{template}"\nrows: [{row}]\n')
    (task,) = load_tasks(tmp_path / "eval.yaml", TaskOptions())
    assert task.ask(0).doc.query == expected


def test_a_row_of_a_csv_file_that_cannot_be_computed_is_an_error_of_its_document(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.csv").write_text("q,flag\na,yes\nb,no\n", "utf-8")
    text = "prompt: '{% if flag %}{{q}}{% endif %}'\ntarget: a\ndataset: rows.csv\n"
    records = run(tmp_path, text, lambda prompt: "a").tasks[0].records
    assert [one.status for one in records] == [Status.SCORED, Status.ERRORED]
    assert "'flag' is the text 'no', which is true" in records[1].error


def test_rows_given_in_python_keep_their_types() -> None:
    rows = [{"q": "a", "n": 4.5, "target": 9.0}]
    result = evaluate(rows, lambda prompt: "9.0", prompt="{{ n * 2 }}")
    assert result.tasks[0].records[0].doc.query == "9.0"
    assert result.tasks[0].records[0].doc.row["n"] == 4.5
