"""Documents with several equally likely choices, and choices that occur twice."""

from __future__ import annotations

import json

import pytest

TASK = """
task: letters
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_target: gold
doc_to_choice: c
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
metadata: {{version: 1, gates: [{gate} >= 0.1]}}
"""
MODEL = """
import math
import pytest
from pytest_evals import Response

class Given:
    name = "given"

    def answer(self, requests):
        for position, request in enumerate(requests):
            word, n = request.continuation.strip(), int(request.context.split()[0])
            yield position, Response(logprob={logprob}, greedy=False)

@pytest.fixture(scope="session")
def eval_model():
    return Given()
"""


def run(pytester, logprob, rows, *options, gate="acc"):
    pytester.makeconftest(MODEL.format(logprob=logprob))
    lines = [json.dumps(row) + "\n" for row in rows]
    pytester.path.joinpath("rows.jsonl").write_text("".join(lines))
    pytester.path.joinpath("letters.yaml").write_text(TASK.format(gate=gate))
    result = pytester.runpytest("letters.yaml", *options)
    path = max(pytester.path.glob(".evals/runs/*/results.json"))
    found = json.loads(path.read_text())
    return result, found, [one for one in found["warnings"] if "letters: " in one]


def rows(n, choices=("a", "bbb")):
    return [{"q": f"{i} of", "c": [*choices], "gold": i % 2} for i in range(n)]


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n2",), marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("gate", ["acc", "acc_norm"])
@pytest.mark.parametrize("logprob", ["-1.0", "-math.inf", "0.0"])
def test_gates_are_invalid_if_all_documents_tie(pytester, logprob, gate, workers):
    """acc_norm divides equal log-probabilities by lengths, still no answer."""
    result, found, warnings = run(pytester, logprob, rows(8), *workers, gate=gate)
    assert result.ret == 1
    assert found["gates"][0]["outcome"] == "invalid"
    assert found["results"]["letters"]["acc,none"] == 0.5  # as lm-eval
    assert any("in 8 of 8 documents several choices" in one for one in warnings)


def test_a_normalized_metric_may_tie_on_its_own(pytester):
    """A constant for each character; acc selects the shorter choice."""
    per_character = "-1.0 * len(word)"
    result, found, _ = run(pytester, per_character, rows(8), gate="acc_norm")
    assert (result.ret, found["gates"][0]["outcome"]) == (1, "invalid")
    result, found, _ = run(pytester, per_character, rows(8), gate="acc")
    assert (result.ret, found["gates"][0]["outcome"]) == (0, "passed")


@pytest.mark.parametrize(("n", "is_shown"), [(100, True), (101, False)])
def test_ties_are_reported_from_one_percent_on(pytester, n, is_shown):
    logprob = "-1.0 - len(word) if n else -1.0"
    result, found, warnings = run(pytester, logprob, rows(n))
    assert (result.ret, found["gates"][0]["outcome"]) == (0, "passed")
    assert any("in 1 of 100 documents" in one for one in warnings) is is_shown


def test_a_correct_choice_that_occurs_twice_is_reported(pytester):
    """Both texts are equally likely, so that the first counts, as in lm-eval."""
    twice = [{"q": "0 of", "c": ["a", "bb", "a"], "gold": 2}]
    other = [{"q": "1 of", "c": ["b", "aaa", "aaa"], "gold": 0}]
    _, found, warnings = run(pytester, "-1.0 - len(word)", twice + other)
    assert found["results"]["letters"]["acc,none"] == 0.5
    (warning,) = warnings
    assert "the correct choice occurs twice" in warning
    assert warning.endswith("(document 0)")


def test_ties_of_other_dialects_count(pytester):
    pytester.makeconftest(MODEL.format(logprob="-2.0"))
    pytester.path.joinpath("own.yaml").write_text(
        "prompt: '{{q}}'\nchoices: [x, yy]\ntarget: '{{t}}'\n"
        "rows: [{q: 0 of, t: x}, {q: 1 of, t: yy}]\ngates: [acc >= 0.1]\n"
    )
    result = pytester.runpytest("own.yaml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*in all 2 documents several choices*"])


def test_a_target_that_is_a_choice_and_a_position_is_reported(pytester):
    """lm-eval takes the position."""
    digits = [{"q": "0 of", "c": ["1", "00"], "gold": 1}]
    plain = [{"q": "1 of", "c": ["b", "aaa"], "gold": 1}]
    _, _, warnings = run(pytester, "-1.0 - len(word)", digits + plain)
    (warning,) = [one for one in warnings if "position" in one]
    assert warning.endswith("the position counts, as in lm-eval (document 0)")
