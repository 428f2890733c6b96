"""Filters, metrics and aggregations of installed distributions, by lm-eval's entry
points."""

from __future__ import annotations

import json
import os

import pytest

pytestmark = pytest.mark.slow


MODULE = """
from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_aggregation, register_filter, register_metric


@register_filter("last_word")
class LastWord(Filter):
    def __init__(self, strip=""):
        self.strip = strip

    def apply(self, resps, docs):
        return [[text.split()[-1].strip(self.strip) for text in row] for row in resps]


@register_aggregation("worst")
def worst(values):
    return min(values)


@register_metric(metric="distance", higher_is_better=False, aggregation="worst")
def distance(references, predictions, factor=1):
    return {"distance": factor * abs(len(references[0]) - len(predictions[0]))}
"""
PLAIN = """
def spread(values):
    return max(values) - min(values)
"""
POINTS = """
[lm_eval.filters]
last_word = toys_for_tests:LastWord
regex = toys_for_tests:Broken
[lm_eval.metrics]
distance = toys_for_tests:distance
exact_match = toys_for_tests:broken
missing = toys_for_tests:missing
[lm_eval.aggregations]
spread = plain_for_tests:spread
mean = plain_for_tests:broken
unusable = module_that_is_not_there:f
value = plain_for_tests:__name__
"""
TASK = """
task: toys
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """A distribution on ``sys.path``, and a function that writes a task and runs it.
    The model answers with "it is two." and "it is three"."""
    site = pytester.mkdir("site")
    (site / "toys_for_tests.py").write_text(MODULE)
    (site / "plain_for_tests.py").write_text(PLAIN)
    info = site / "toy_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-metrics\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    rows = [{"q": "a", "a": "one two."}, {"q": "b", "a": "three"}]
    pytester.path.joinpath("docs.jsonl").write_text("\n".join(map(json.dumps, rows)))

    answers = {"a": "it is two.", "b": "it is three"}
    pytester.path.joinpath("answers.json").write_text(json.dumps(answers))

    def run(keys: str, *options: str) -> pytest.RunResult:
        if "output_type" not in keys:
            keys = "output_type: generate_until\n" + keys
        pytester.path.joinpath("toys.yaml").write_text(TASK + keys)
        return pytester.runpytest_subprocess(
            "--model=scripted:answers.json", "--evals-json=r.json", *options
        )

    return run


def numbers(pytester: pytest.Pytester) -> dict[str, object]:
    found = json.loads(pytester.path.joinpath("r.json").read_text())
    return found["results"]["toys"]


@pytest.mark.parametrize("installed", [True, False])
def test_a_task_uses_components_of_a_distribution(
    suite, pytester, installed, without_lm_eval, monkeypatch
):
    """'two' for 'one two.' and 'three' for 'three': distances 2 * 5 and 0."""
    if not installed:
        pytester.path.joinpath("conftest.py").write_text(without_lm_eval)
    suite(
        "filter_list: [{name: word, filter: "
        "[{function: last_word, strip: .}, {function: take_first}]}]\n"
        "metric_list:\n"
        "  - {metric: distance, factor: 2}\n"
        "  - {metric: exact_match, aggregation: spread}\n"
    )
    assert numbers(pytester)["distance,word"] == 0
    assert numbers(pytester)["exact_match,word"] == 1
    found = json.loads(pytester.path.joinpath("r.json").read_text())
    assert found["higher_is_better"]["toys"]["distance"] is False


def test_names_that_are_built_in_are_never_a_distributions(suite, pytester):
    """lm-eval's docs/plugins.md: built-in components have priority, and nothing is
    imported."""
    suite(
        "filter_list: [{name: all, filter: "
        '[{function: regex, regex_pattern: "(two|three)"}, {function: take_first}]}]\n'
        "metric_list: [{metric: exact_match, aggregation: mean}]\n"
    )
    assert numbers(pytester)["exact_match,all"] == 0.5


def test_values_of_process_results_get_a_distributions_aggregation(suite, pytester):
    pytester.path.joinpath("own.py").write_text(
        "def score(row, responses): return {'distance': len(responses[0])}"
    )
    suite("process_results: !function own.score\nmetric_list: [{metric: distance}]\n")
    assert numbers(pytester)["distance,none"] == len("it is two.")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "metric_list: [{metric: missing}]",
            "*'missing' (lm_eval.metrics) of toy-metrics, toys_for_tests:missing, "
            "cannot be loaded: AttributeError: *",
        ),
        (
            "metric_list: [{metric: exact_match, aggregation: unusable}]",
            "*'unusable' (lm_eval.aggregations) of toy-metrics, "
            "module_that_is_not_there:f, cannot be loaded: ModuleNotFoundError: *",
        ),
        (
            "metric_list: [{metric: exact_match, aggregation: value}]",
            "*'value' (lm_eval.aggregations) of toy-metrics, "
            "plain_for_tests:__name__, is 'plain_for_tests', not a function*",
        ),
        (
            "filter_list: [{name: x, filter: [{function: last_word, strap: y}]}]",
            "*LastWord*strap*",
        ),
    ],
)
def test_a_broken_entry_point_is_an_error_with_the_distribution(suite, keys, message):
    suite(keys, "--evals-validate").stdout.fnmatch_lines([message])


def test_a_distributions_metric_of_choices_has_no_value_as_in_lm_eval(suite):
    keys = "output_type: multiple_choice\ndoc_to_choice: [x, y]\nmetric_list: "
    result = suite(keys + "[{metric: acc}, {metric: distance}]", "--evals-validate")
    result.stdout.fnmatch_lines(["*'distance' has no value with output_type mult*"])
