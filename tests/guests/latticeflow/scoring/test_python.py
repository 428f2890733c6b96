"""Scorers in Python."""

from textwrap import indent

import pytest

from pytest_evals.errors import DocumentError
from pytest_evals.sandbox.session import end_sandbox, set_sandbox


def python(code, kind="python"):
    return f"- type: {kind}\n  compute_scores_snippet: |\n{indent(code, '    ')}"


@pytest.mark.parametrize(
    "code",
    [
        "def compute_scores(sample, solver_output):\n"
        "    return {'a': solver_output.output.choices[0].message.content}",
        "async def compute_scores(sample, solver_output):\n"
        "    return {'scores': {'a': solver_output.messages[-1].content}}",
        "def compute_scores(solver_output, sample):\n"
        "    return {'a': solver_output.trace.get_last_assistant_text()}",
        "def compute_scores(sample, model_input, model_output):\n"
        "    return {'a': str(model_output)}",
        "from latticeflow.core.dtypes import SampleScore\n"
        "def compute_scores(sample, solver_output):\n"
        "    return SampleScore(values={'a': 'x'})",
    ],
)
def test_python_may_be_written_in_any_of_these_ways(scored, code):
    score = scored(python(code), {}, "x")
    assert (score.values, score.metadata) == ({"a": "x"}, {})


@pytest.mark.parametrize("answer", ["Paris", "It is Paris.", "Rome"])
def test_python_compares_the_output_as_its_text(scored, answer):
    """The seed calls ``output`` "the last model output" and shows it as text."""
    code = (
        "import json, re\n"
        "def compute_scores(sample, solver_output):\n"
        "    output, target = solver_output.output, sample['target']\n"
        "    scores = {'equal': output == target, 'within': target in output}\n"
        "    scores |= {'length': len(output), 'word': re.findall('P.*s', output)}\n"
        "    metadata = {'output': output, 'json': json.dumps(output)}\n"
        "    metadata['model'] = solver_output.output.choices[0].message.role\n"
        "    return {'scores': scores, 'metadata': metadata}"
    )
    score = scored(python(code), {"target": "Paris"}, answer)
    within = "Paris" in answer
    assert score.values == {
        "equal": answer == "Paris",
        "within": within,
        "length": len(answer),
        "word": ["Paris"] if within else [],
    }
    expected = {"output": answer, "json": f'"{answer}"', "model": "assistant"}
    assert score.metadata == expected


def test_snippets_that_execute_strings_need_consent(read):
    code = python("def compute_scores(sample, solver_output):\n    exec('a = 1')")
    (message,) = read(code)[2]
    assert "executes strings, which may be model output: exec (line 2)" in message
    assert "--evals-allow-unsafe-code" in message
    set_sandbox("process", consents=True)
    assert not read(code)[2]
    end_sandbox()


def test_metadata_is_stored_with_the_score(scored):
    head = "def compute_scores(sample):\n    return "
    code = f"{head}{{'scores': {{'n': 1}}, 'metadata': {{'k': 2}}}}"
    score = scored(python(code), {})
    assert (score.values, score.metadata) == ({"n": 1}, {"k": 2})
    assert scored(python(f"{head}{{'scores': 3}}"), {}).values == {"scores": 3}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "compute_scores must return scores by name, not 3"),
        ("return {1: 2}", "must return strings as names of scores, not 1"),
        ("return sample['x']", r"KeyError: 'x' \(.*t.yaml:5\)"),
    ],
)
def test_errors_of_python_have_its_line(scored, body, message):
    with pytest.raises(DocumentError, match=message):
        scored(python(f"def compute_scores(sample):\n    {body}"), {})


UNIQUE = """
from collections import Counter

def compute_scores(samples):
    seen = Counter(sample.get("email") for sample in samples)
    return [
        {"is_unique": seen[s.get("email")] == 1 if s.get("email") else True}
        for s in samples
    ]
"""


def test_a_scorer_may_see_all_samples(read):
    """By hand: two of four share an address, and one has none."""
    (scorer,), _, problems = read(python(UNIQUE, "python_all_samples"), False)
    assert problems == []
    emails = [{"email": "a"}, {"email": "b"}, {"email": "a"}, {}]
    found = [score["is_unique"] for score in scorer.score_samples(emails)]
    assert found == [False, True, False, True]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[{}]", "must return 2 scores, one per sample, not 1"),
        ("3", "must return a list, not 3"),
    ],
)
def test_all_samples_must_be_scored(read, body, message):
    code = f"def compute_scores(samples):\n    return {body}"
    (scorer,), _, _ = read(python(code, "python_all_samples"), False)
    with pytest.raises(DocumentError, match=message):
        scorer.score_samples([{}, {}])


def test_of_aligned_datasets_the_first_counts(read):
    code = (
        "def compute_scores(samples):\n"
        "    return [{'n': len(samples['b'])} for _ in samples['a']]"
    )
    (scorer,), _, _ = read(python(code, "python_all_samples"), False)
    found = scorer.score_samples({"a": [{}, {}], "b": [{}]})
    assert [score.values for score in found] == [{"n": 1}, {"n": 1}]
