"""Answers that contain reasoning, and refusals, in whole runs."""

from __future__ import annotations

import json
import re

import pytest

from pytest_evals import evaluate
from pytest_evals.errors import OptionError

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}{opened}"
doc_to_target: "{{{{a}}}}"
generation_kwargs: {{until: {until}}}
{more}
"""
EVAL = 'prompt: "{{q}}"\nscore: [exact]\ndataset: rows.jsonl\ntarget: a\n'
MODEL = """
import pytest
from pytest_evals import Response

class Mine:
    name = "mine"
    fingerprint = {"version": 1}
    n_requests = 0

    def answer(self, requests):
        for position, request in enumerate(requests):
            with open("requests.txt", "a") as file:
                file.write("one\\n")
            yield position, Response(text=REFUSAL, finish="refused")

@pytest.fixture(scope="session")
def eval_model():
    return Mine()
"""


@pytest.fixture
def folder(pytester):
    """Writes two questions, an lm-eval task and an eval, and the answers of a model."""

    def write(answer, *, until="[]", opened="", more="", rule="text"):
        rows = [{"q": f"Q{n}?", "a": f"a{n}"} for n in (1, 2)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        pytester.path.joinpath("rows.jsonl").write_text(text)
        rules = [
            {"regex": f"{row['q'][:2]}[?]", rule: answer.format(**row)} for row in rows
        ]
        text = "".join(json.dumps(one) + "\n" for one in rules)
        pytester.path.joinpath("answers.jsonl").write_text(text)
        fields = {"until": until, "opened": opened, "more": more}
        task = TASK.format(name="words", **fields)
        pytester.path.joinpath("words.yaml").write_text(task)
        pytester.path.joinpath("mine.yaml").write_text(EVAL)

    return write


def run(pytester, *args):
    given = [*args, "--model=scripted:answers.jsonl", "-pno:cacheprovider"]
    return pytester.runpytest_inprocess(*given)


def warnings_of(result):
    lines = result.stdout.str().splitlines()
    return [one for one in lines if "warning: " in one and "reasoning" in one]


@pytest.mark.parametrize(
    ("before", "tag"),
    [
        ("<think>hm</think>", "</think>"),
        ("hm</think>\n", "</think>"),
        ("<thinking>\nhm\n</thinking>\n", "</thinking>"),
        ("[THINK]hm[/THINK]", "[/THINK]"),
        ("<|begin_of_thought|>hm<|end_of_thought|>", "<|end_of_thought|>"),
        ("<seed:think>hm</seed:think>", "</seed:think>"),
        ("◁think▷hm◁/think▷", "◁/think▷"),
    ],
)
def test_one_warning_counts_answers_with_reasoning(pytester, folder, before, tag):
    folder(before + "{a}")
    result = run(pytester, "words.yaml", "mine.yaml")
    (text,) = warnings_of(result)
    assert f"think_end_token={tag} " in text
    assert "(4 documents, first document words[0])" in text
    (pairs,) = re.findall(r'--evals-reasoning-tags="(.+?)"', text)
    result = run(pytester, "words.yaml", "mine.yaml", f"--evals-reasoning-tags={pairs}")
    assert not warnings_of(result)
    result.assert_outcomes(passed=4)


def test_reasoning_that_is_scored_on_purpose_is_not_warned_of(pytester, folder):
    folder("<think>hm</think>{a}")
    result = run(pytester, "words.yaml", "--evals-reasoning-tags=off")
    assert not warnings_of(result)


@pytest.mark.parametrize(
    ("pattern", "is_warned"), [("</think>\\s*(.+)", False), ("(a\\d).*?</think>", True)]
)
def test_a_filter_that_removes_reasoning_is_not_warned_of(
    pytester, folder, pattern, is_warned
):
    steps = [
        {"function": "regex", "regex_pattern": pattern},
        {"function": "take_first"},
    ]
    filters = [{"name": "last", "filter": steps}]
    folder("<think>a7?</think> {a}", more=f"filter_list: {json.dumps(filters)}")
    assert bool(warnings_of(run(pytester, "words.yaml"))) == is_warned


@pytest.mark.parametrize(
    ("answer", "opened"),
    [
        ("<think>first\n\nthen</think>{a}", ""),
        ("first\n\nthen</think>{a}", "<think>\n"),
    ],
    ids=["in the answer", "opened by the prompt"],
)
def test_a_stop_string_that_ends_reasoning_is_warned_of(
    pytester, folder, answer, opened
):
    until = json.dumps(["\n\n"])
    folder(answer, until=until, opened=json.dumps(opened)[1:-1])
    (text,) = warnings_of(run(pytester, "words.yaml"))
    assert "stop strings ended answers inside the model's reasoning" in text
    assert "(2 documents, first document words[0])" in text


def test_answers_without_reasoning_are_not_warned_of(pytester, folder):
    folder("{a}, I think> (see <thinkpad> and a </b> tag)", until='["</b>"]')
    assert not warnings_of(run(pytester, "words.yaml", "mine.yaml"))


@pytest.mark.parametrize("way", ["error", "answer"])
def test_the_task_determines_whether_a_refusal_is_an_answer(pytester, folder, way):
    folder("{a}", more=f"metadata: {{refusals: {way}}}", rule="refusal")
    pytester.path.joinpath("mine.yaml").write_text(f"{EVAL}refusals: {way}\n")
    result = run(pytester, "words.yaml", "mine.yaml")
    if way == "answer":
        result.assert_outcomes(passed=4)
    else:
        result.assert_outcomes(errors=4)
        result.stdout.fnmatch_lines(["scripted:answers.jsonl: the model refused: 'a1'"])
    path = max(pytester.path.glob(".evals/runs/*/samples_words*.jsonl"))
    for line in path.read_text().splitlines():
        assert json.loads(line)["finish"] == ["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("refusal", ["a1", ""])
def test_a_stored_refusal_is_not_requested_again(pytester, folder, refusal):
    folder("")
    pytester.makeconftest(MODEL.replace("REFUSAL", repr(refusal)))
    sent = []
    for more in ("", "", "refusals: answer\n"):
        pytester.path.joinpath("mine.yaml").write_text(EVAL + more)
        result = pytester.runpytest_subprocess("mine.yaml")
        sent.append(len(pytester.path.joinpath("requests.txt").read_text().split()))
    if refusal:
        assert sent == [2, 2, 2]
        assert "1 passed, 1 wrong" in result.stdout.str()
    else:
        assert sent == [2, 4, 6]
        result.assert_outcomes(errors=2)


def refuses(prompt):
    from pytest_evals import Response

    return Response(text="no", finish="refused")


def test_evaluate_scores_refusals_as_answers_if_it_is_asked_to():
    rows = [{"prompt": "Q?", "target": "no"}]
    (task,) = evaluate(rows, refuses, refusals="answer").tasks
    assert task.metrics[0].estimate.value == 1.0
    (task,) = evaluate(rows, refuses).tasks
    assert task.n_errored == 1
    with pytest.raises(OptionError, match=r"'error' or 'answer'"):
        evaluate(rows, refuses, refusals="anwser")


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("words", "metadata: {refusals: yes}", "not True"),
        ("mine", "refusals: anser", "'anser'; did you mean 'answer'?"),
        ("mine", "metadata: {refusals: answer}", "has no effect in an eval"),
    ],
)
def test_an_invalid_way_to_take_refusals_is_a_problem(
    pytester, folder, name, text, what
):
    folder("{a}", more=text if name == "words" else "")
    pytester.path.joinpath("mine.yaml").write_text(f"{EVAL}{text}\n")
    result = run(pytester, f"{name}.yaml")
    assert result.ret == 2
    assert what in result.stdout.str()
    assert "refusals: answer" in result.stdout.str()
