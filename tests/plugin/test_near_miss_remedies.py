"""The change that a near miss proposes makes the documents correct, in each dialect."""

import json
import re

import pytest

from tests.messages.cases import BASES

CASE = [("paris", "Paris"), ("ROME", "Rome")]
NUMBER = [("1 + 6 is 7", "7"), ("2.5 + 3 is 5.5", "5.5")]
SPACE = [(" 7", "7"), (" 8", "8")]
NORMALIZED = "Metrics.exact_match(sample_params={"
HELM = "from lighteval.metrics.normalizations import helm_normalizer\n"
TASK = """
    import pytest_evals as ev

    @ev.eval(score=ev.exact())
    def quiz():
        yield ev.case("Question 0?", target="Paris")
        yield ev.case("Question 1?", target="Rome")
"""


@pytest.fixture
def suite(pytester):
    """Return a function that writes a suite whose model gives some answers."""

    def write(base, gate, answers):
        pytester.makeini("[pytest]\n")
        rows = [
            {"id": f"q{i}", "q": f"Question {i}?", "a": target}
            for i, (_, target) in enumerate(answers)
        ]
        for name, text in BASES[base].items():
            path = pytester.path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            if name.endswith(".jsonl"):
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (pytester.path / "gates.yaml").write_text(f"gates: [quiz/{gate} >= 0.9]\n")
        texts = {row["q"]: text for row, (text, _) in zip(rows, answers, strict=True)}
        (pytester.path / "answers.json").write_text(json.dumps(texts))

    return write


def remedy(pytester):
    """Run the suite; return the proposed change, or None."""
    result = pytester.runpytest("--model=scripted:answers.json")
    found = [line for line in result.outlines if "wrong answers" in line]
    result.assert_outcomes(**({"failed": 1} if found else {"passed": 3}))
    return found[0].partition("; ")[2] if found else None


def edit(pytester, name, *pairs):
    path = pytester.path / name
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_an_option_of_a_scorer_in_yaml(pytester, suite):
    suite("native", "exact", CASE)
    assert remedy(pytester) == "set ignore_case: true on exact"
    edit(pytester, "quiz.yaml", ("score: exact", "score: {exact: {ignore_case: true}}"))
    assert remedy(pytester) is None


def test_a_pattern_in_yaml(pytester, suite):
    suite("native", "exact", NUMBER)
    text = remedy(pytester)
    assert text.startswith("set score: {regex: {pattern: ")
    named = text.removeprefix("set ").replace("group: 1", "group: 1, name: exact")
    edit(pytester, "quiz.yaml", ("score: exact", named))
    assert remedy(pytester) is None


def test_an_argument_of_a_scorer_in_python(pytester, suite):
    suite("", "exact", CASE)
    pytester.makepyfile(test_quiz=TASK)
    assert remedy(pytester) == "pass ignore_case=True to exact()"
    edit(pytester, "test_quiz.py", ("ev.exact()", "ev.exact(ignore_case=True)"))
    assert remedy(pytester) is None


@pytest.mark.guests
def test_a_normalizer_of_lighteval(pytester, suite):
    suite("lighteval", "em", CASE)
    text = remedy(pytester)
    assert text.startswith(f"use {NORMALIZED}")
    change = ("Metrics.exact_match", text.removeprefix("use "))
    edit(pytester, "eval_quiz.py", change, ("from pathlib", f"{HELM}from pathlib"))
    (pytester.path / "gates.yaml").unlink()  # the metric's name has its arguments
    result = pytester.runpytest("--model=scripted:answers.json")
    result.assert_outcomes(passed=2)


@pytest.mark.guests
@pytest.mark.parametrize("answers", [SPACE, CASE], ids=["whitespace", "case"])
def test_a_template_of_latticeflow(pytester, suite, answers):
    suite("latticeflow", "accuracy", answers)
    text = remedy(pytester)
    value = re.search(r'value: ".*"', text)[0]
    truth = '"{{ sample.a }}"'
    lower = truth.replace(" }}", " | lower }}") if "| lower in" in text else truth
    edit(pytester, "quiz.yaml", (truth, f"{lower}\n      {value}"))
    assert remedy(pytester) is None
