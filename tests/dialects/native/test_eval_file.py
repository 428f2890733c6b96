"""Evals in YAML: prompt, rows and score."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_evals import RunResult, TaskFileError, TaskOptions, evaluate
from pytest_evals.dialects.detect import EVAL_KEYS, dialect
from pytest_evals.dialects.lookalikes import lookalike
from pytest_evals.dialects.native.eval_file import load_tasks
from tests.json_schemas import eval_schema

SUMS = """\
prompt: "{{a}} + {{b}} ="
rows:
  - {a: 1, b: 2, target: "3"}
  - {a: 2, b: 2, target: 4, id: even}
"""


def run(folder: Path, text: str, *rules: dict[str, Any], judge: Any = "") -> RunResult:
    """The result of an eval file with a scripted model."""
    (folder / "eval.yaml").write_text(text, "utf-8")
    model = folder / "answers.jsonl"
    model.write_text("\n".join(json.dumps(rule) for rule in rules), "utf-8")
    return evaluate(folder / "eval.yaml", f"scripted:{model}", judge=judge)


def values(result: RunResult, task: str = "eval") -> dict[str, float]:
    """Metric → value."""
    found = next(one for one in result.tasks if one.task.name == task).metrics
    return {one.name: one.estimate.value for one in found if one.estimate}


def problems(folder: Path, text: str) -> list[str]:
    """The problems of an eval file, as ``line: message``."""
    path = folder / "eval.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(TaskFileError) as error:
        load_tasks(path, TaskOptions())
    return [f"{one.where.line}: {one.message}" for one in error.value.problems]


def test_prompts_are_templates_over_rows_and_exact_is_the_default(
    tmp_path: Path,
) -> None:
    result = run(tmp_path, SUMS, {"prompt": "1 + 2 =", "text": " 3\n"}, {"text": "5"})
    assert values(result) == {"exact": 0.5}
    ids = [record.doc.id for record in result.tasks[0].records]
    assert ids == ["0", "even"]


def test_every_scorer_is_a_metric_and_the_first_decides_correctness(
    tmp_path: Path,
) -> None:
    text = SUMS + (
        "score:\n"
        "  - contains: {any_of: ['{{target}}', three], name: mentions}\n"
        "  - starts_with: The\n"
        "  - regex: {pattern: '(\\d+)\\.?$', group: 1}\n"
        "  - not: {contains: sorry}\n"
    )
    result = run(
        tmp_path,
        text,
        {"prompt": "1 + 2 =", "text": "The sum is three, or 3."},
        {"text": "sorry, 5"},
    )
    assert values(result) == {
        "mentions": 0.5,
        "starts_with": 0.5,
        "regex": 0.5,
        "not_contains": 0.5,
    }
    assert [one.correct for one in result.tasks[0].records] == [True, False]


def test_messages_and_system_make_a_chat(tmp_path: Path) -> None:
    text = """\
prompt:
  - {role: user, content: "Say {{word}}"}
  - {role: assistant, content: "Why?"}
  - {role: user, content: "Because."}
system: "Be brief."
rows: [{word: hi, target: hi}]
"""
    path = tmp_path / "chat.yaml"
    path.write_text(text, "utf-8")
    (task,) = load_tasks(path, TaskOptions())
    (request,) = task.ask(0).requests
    assert [tuple(one) for one in request.prompt] == [
        ("system", "Be brief."),
        ("user", "Say hi"),
        ("assistant", "Why?"),
        ("user", "Because."),
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv"])
def test_data_files_next_to_the_eval_are_read_by_suffix(
    tmp_path: Path, suffix: str
) -> None:
    rows = [{"q": "one", "a": "1"}, {"q": "two", "a": "2"}]
    sign = "\t" if suffix == "tsv" else ","
    content = {
        "jsonl": "\n".join(map(json.dumps, rows)),
        "json": json.dumps(rows),
    }.get(suffix, "\n".join([f"q{sign}a", f"one{sign}1", f"two{sign}2"]))
    (tmp_path / f"rows.{suffix}").write_text(content + "\n", "utf-8")
    text = f"prompt: '{{{{q}}}}'\ndataset: rows.{suffix}\ntarget: '{{{{a}}}}'\n"
    result = run(tmp_path, text, {"prompt": "one", "text": "1"}, {"text": "1"})
    assert values(result) == {"exact": 0.5}


def test_repeats_give_the_mean_over_answers(tmp_path: Path) -> None:
    text = SUMS + "repeats: 3\ngeneration: {temperature: 1}\n"
    result = run(tmp_path, text, {"prompt": "1 + 2 =", "text": "3"}, {"text": "5"})
    assert values(result) == {"exact": 0.5}
    record = result.tasks[0].records[0]
    assert len(record.responses) == 3


def test_a_model_in_the_file_answers_if_the_session_has_none(
    pytester: pytest.Pytester,
) -> None:
    pytester.makefile(
        ".jsonl", answers='{"prompt": "1 + 2 =", "text": "3"}\n{"text": "4"}'
    )
    path = pytester.path / "answers.jsonl"
    (pytester.path / "sums.yaml").write_text(
        SUMS + f"model: scripted:{path}\n", "utf-8"
    )
    done = pytester.runpytest_inprocess("-p", "pytest_evals.plugin.hooks", "sums.yaml")
    done.assert_outcomes(passed=2)


def test_near_misses_are_reported_with_their_lines(tmp_path: Path) -> None:
    assert problems(tmp_path, SUMS + "scores: exact\n") == [
        "5: an eval has no key 'scores'; did you mean 'score'?"
    ]
    assert problems(tmp_path, SUMS + "score: exct\n") == [
        "5: score: unknown scorer 'exct'; did you mean 'exact'?"
    ]
    found = problems(tmp_path, SUMS + "score:\n  - contains: {txt: a}\n")
    assert found == ["6: score: contains has no argument 'txt'; did you mean 'text'?"]
    found = problems(tmp_path, SUMS + "score: [exact, exact]\n")
    assert found == ["5: two scorers are called 'exact'"]
    (found,) = problems(tmp_path, SUMS + "score: {regex: '('}\n")
    assert found.startswith("5: regex: invalid pattern")


@pytest.mark.parametrize(
    "keys",
    [
        "dataset: NAME.csv\nprompt: '{{q}}'\n",
        "rows:\n- {q: NAME.png}\n"
        "prompt:\n- {role: user, content: [{type: image, path: '{{q}}'}]}\n",
    ],
)
def test_a_name_that_no_file_can_have_is_not_found(tmp_path: Path, keys: str) -> None:
    text = f"{keys.replace('NAME', 'a' * 300)}target: b\nscore: exact\n"
    with pytest.raises(TaskFileError, match="file not found"):
        run(tmp_path, text)


def test_a_column_that_no_row_has_is_reported_at_the_prompt(tmp_path: Path) -> None:
    text = "prompt: '{{questoin}}'\nrows:\n  - {question: a, target: b}\n"
    path = tmp_path / "eval.yaml"
    path.write_text(text, "utf-8")
    (task,) = load_tasks(path, TaskOptions())
    with pytest.raises(TaskFileError, match=r"questoin.*did you mean 'question'"):
        task.rows.ids()


@pytest.mark.parametrize(
    "text",
    [
        SUMS,
        SUMS + "score: {contains: hello}\ngates: ['contains >= 0.5']\n",
        SUMS + "score:\n- exact\n- not: {contains: {text: a, name: x}}\nrepeats: 2\n",
        "prompt: [{role: user, content: '{{q}}'}]\ndataset: {path: a/b, split: dev}\n"
        "score: {judge: {rubric: 'Polite?', scale: [1, 5]}}\n",
    ],
)
def test_the_schema_accepts_all_files_that_the_reader_accepts(
    tmp_path: Path, text: str
) -> None:
    jsonschema.validate(yaml.safe_load(text), eval_schema())
    path = tmp_path / "eval.yaml"
    path.write_text(text, "utf-8")
    assert load_tasks(path, TaskOptions())


@pytest.mark.parametrize(
    "wrong",
    [
        "scores: exact\n",
        "score: exct\n",
        "repeats: 0\n",
        "repeats: 1000000000\n",
        "score: {contains: {txt: a}}\n",
    ],
)
def test_the_schema_rejects_files_that_the_reader_rejects(
    tmp_path: Path, wrong: str
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(SUMS + wrong), eval_schema())
    assert problems(tmp_path, SUMS + wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SUMS, "native"),
        ("prompt: a\ndataset: b.jsonl\n", "native"),
        ("prompt: a\n", None),
        ("rows: []\n", None),
        ("task: a\ndataset_path: json\nprompt: a\nrows: []\n", "lm_eval"),
        ("prompt: a\nrows: []\ndoc_to_text: b\n", None),
        ("nested:\n  prompt: a\n  rows: []\n", None),
    ],
)
def test_a_file_is_an_eval_by_its_top_level_keys(text: str, expected: str) -> None:
    assert dialect(text.encode()) == expected


def scripted_judge(folder: Path, *rules: dict[str, str]) -> str:
    """The spec of a judge that answers by these rules."""
    path = folder / "judge.jsonl"
    path.write_text("\n".join(map(json.dumps, rules)), "utf-8")
    return f"scripted:{path}"


def test_a_judge_with_a_rubric_gives_values_and_reasons(tmp_path: Path) -> None:
    judge = scripted_judge(
        tmp_path,
        {"regex": r"<answer-\w+>\nthree", "text": '{"reason": "a word", "grade": 2}'},
        {"text": 'Sure: {"reason": "right", "grade": 5}'},
    )
    text = SUMS + "score: {judge: {rubric: Is it a number?, scale: [1, 5]}}\n"
    result = run(
        tmp_path,
        text,
        {"prompt": "1 + 2 =", "text": "three"},
        {"text": "4"},
        judge=judge,
    )
    assert values(result) == {"judge": pytest.approx((0.25 + 1) / 2)}
    scores = [record.scores[0] for record in result.tasks[0].records]
    assert [one.explanation for one in scores] == ["a word", "right"]
    assert [one.correct for one in scores] == [False, True]


def test_a_judge_that_fails_leaves_the_case_unscored(tmp_path: Path) -> None:
    judge = scripted_judge(
        tmp_path,
        {"regex": r"<answer-\w+>\n3", "text": "I cannot say."},
        {"text": '{"reason": "fine", "pass": true}'},
    )
    text = SUMS + "score: {judge: Is it a number?}\n"
    result = run(
        tmp_path,
        text,
        {"prompt": "1 + 2 =", "text": "3"},
        {"text": "4"},
        judge=judge,
    )
    assert values(result) == {"judge": 1.0}
    (metric,) = result.tasks[0].metrics
    assert (metric.n_scored, metric.n_unscored) == (1, 1)


def test_an_unscored_case_counts_neither_as_correct_nor_as_wrong(
    tmp_path: Path,
) -> None:
    judge = scripted_judge(tmp_path, {"text": "I cannot say."})
    text = SUMS + "score: [{judge: Is it a number?}, {contains: '3'}]\n"
    result = run(
        tmp_path,
        text,
        {"prompt": "1 + 2 =", "text": "3"},
        {"text": "4"},
        judge=judge,
    )
    (task,) = result.tasks
    assert (task.n_correct, task.n_wrong, task.n_unscored) == (0, 0, 2)
    assert values(result)["contains"] == 0.5


def test_detection_knows_the_keys_of_the_eval_schema() -> None:
    assert sorted(EVAL_KEYS) == sorted(eval_schema()["properties"])


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (
            SUMS.replace("prompt:", "promt:"),
            1,
            "looks like an eval, which has no key 'promt'; did you mean 'prompt'?",
        ),
        (
            SUMS.replace("rows:", "row:") + "score: exact\n",
            2,
            "looks like an eval, which has no key 'row'; did you mean 'rows'?",
        ),
    ],
)
def test_a_file_that_resembles_an_eval_is_reported(
    tmp_path: Path, text: str, line: int, what: str
) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(text, "utf-8")
    found = lookalike(path)
    assert found is not None
    problem = found.problem
    assert found.is_error
    assert (problem.where.line, problem.message) == (line, what)


@pytest.mark.parametrize(
    "text",
    ["prompt: a\nlicense: b\n", "score: 1\n", "dataset: a\nversion: 2\n"],
)
def test_other_yaml_files_are_not_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text, "utf-8")
    assert lookalike(path) is None


@pytest.mark.parametrize(
    ("score", "is_share"),
    [
        ("exact", True),
        ("similar", False),
        ("{judge: {rubric: Is it polite?}}", True),
        ("{judge: {rubric: Is it polite?, scale: [1, 5]}}", False),
        ("{judge: {rubric: Is it polite?, repeats: 3}}", True),
        ("{judge: {rubric: Is it polite?, repeats: 2}}", False),
        ("{judge: {rubric: Is it polite?, repeats: 3, vote: mean}}", False),
        ("{pairwise: {rubric: Which?, versus: '{{b}}'}}", False),
    ],
)
def test_scorers_of_correct_and_wrong_are_planned_as_proportions(
    tmp_path, score, is_share
):
    """Plans, early stopping and gates have one answer to that."""
    path = tmp_path / "bot.yaml"
    path.write_text(f"rows: [{{q: a, b: c, target: d}}]\nprompt: x\nscore: {score}\n")
    (task,) = load_tasks(path, TaskOptions())
    assert [one.is_share for one in task.metrics] == [is_share]
