"""Gates about counts, times and prices of a run: ``truncated <= 2%``."""

from __future__ import annotations

import json

import pytest

from pytest_evals import Response, Score, evaluate
from pytest_evals.errors import OptionError, TaskFileError

CONFTEST = """
import pytest
from pytest_evals import Response

ANSWERS = {answers!r}

class Model:
    name = "counted"
    fingerprint = {fingerprint!r}

    def answer(self, requests):
        for position, request in enumerate(requests):
            number = int(request.prompt[:-1].split()[-1])
            reply = dict(text=f"a{{number}}", n_tokens=4, finish="stop")
            yield position, Response(**(reply | ANSWERS.get(number, {{}})))

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""
DOWN = {"text": "", "error": "the server is down"}
REFUSED = {"text": "", "error": "the filter stopped it", "finish": "refused"}


class Model:
    """The same responses as in the conftest.py."""

    name = "counted"

    def __init__(self, **answers: dict[str, object]) -> None:
        self.answers = answers

    def answer(self, requests):
        for position, request in enumerate(requests):
            number = request.prompt[:-1].split()[-1]
            reply = {"text": f"a{number}", "n_tokens": 4, "finish": "stop"}
            more = self.answers.get(f"d{number}", self.answers.get("all", {}))
            yield position, Response(**(reply | more))


def judged(suite, gate, model, name="quiz"):
    path = suite.task(name, gates=[gate])
    (verdict,) = evaluate(path, model).verdicts
    return verdict


SHORT = {"finish": "length"}  # after 4 tokens of 256
LONG = {"finish": "length", "n_tokens": 256}
CUT = {"n_truncated": 7}


@pytest.mark.parametrize(
    ("metric", "answers", "share"),
    [
        ("truncated", {"d1": SHORT, "d2": CUT, "d3": SHORT | CUT, "d4": LONG}, 0.3),
        ("cut_short", {"d1": SHORT, "d2": CUT, "d3": SHORT | CUT, "d4": LONG}, 0.2),
        ("cut_prompts", {"d1": SHORT, "d2": CUT, "d3": SHORT | CUT}, 0.2),
        ("length_limited", {"d1": SHORT, "d4": LONG}, 0.2),
        ("errored", {"d1": DOWN, "d2": DOWN, "d5": REFUSED}, 0.3),
        ("refused", {"d1": REFUSED}, 0.1),
        ("refused", {}, 0),
    ],
)
def test_fractions_count_documents(suite, metric, answers, share):
    verdict = judged(suite, f"{metric} <= 0.999", Model(**answers))
    assert verdict.value == pytest.approx(share)
    assert verdict.outcome == "passed"
    verdict = judged(suite, f"{metric} < {share or 0.0001}", Model(**answers))
    assert verdict.outcome == ("failed" if share else "passed")


def test_errored_and_unscored_count_documents_without_score(suite):
    """Another gate is invalid if they could change its verdict."""
    gates = ["errored <= 20%", "errored < 20%", "unscored <= 0", "exact_match >= 0.9"]
    path = suite.task("quiz", gates=gates)
    verdicts = evaluate(path, Model(d1=DOWN, d2=DOWN)).verdicts
    outcomes = ["passed", "failed", "passed", "invalid"]
    assert [v.outcome for v in verdicts] == outcomes


def test_unscored_documents_are_counted(suite):
    class Unsure:
        def pytest_evals_score(self, record, task):
            unsure = record.doc.id in ("q0", "q4")
            value = None if unsure else 1.0
            why = "the judge gave no rating" if unsure else ""
            return [Score(metric="exact_match", value=value, unscored=why)]

    path = suite.task("quiz", gates=["unscored <= 20%", "unscored < 20%"])
    verdicts = evaluate(path, Model(), plugins=[Unsure()]).verdicts
    assert [v.outcome for v in verdicts] == ["passed", "failed"]


def test_over_population_has_exact_confidence_limits_of_a_fraction(suite):
    """0 of 10: the upper limit is 1 - 0.05^(1/10)."""
    gate = {"metric": "truncated", "max": 0.26, "over": "population"}
    verdict = judged(suite, gate, Model())
    assert verdict.high == pytest.approx(1 - 0.05**0.1)
    assert verdict.outcome == "passed"
    gate["max"] = 0.25
    assert judged(suite, gate, Model()).outcome == "inconclusive"


def test_errored_documents_could_be_truncated_too(suite):
    model = Model(d1=SHORT, d2=DOWN)
    assert judged(suite, "truncated <= 10%", model).outcome == "invalid"
    assert judged(suite, "truncated <= 20%", model).outcome == "passed"


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ("latency_p50 <= 0.5", "passed"),
        ("latency_p50 < 0.5", "failed"),
        ("latency_p95 <= 0.99", "failed"),
        ("latency_p95 <= 1", "passed"),
        ("latency_p99 < 1", "failed"),
        ("tokens_per_answer <= 5.5", "passed"),
        ("tokens_per_answer < 5.5", "failed"),
        ("cost <= 5.5", "passed"),
        ("cost < 5.5", "failed"),
    ],
)
def test_latency_tokens_and_cost_are_those_of_the_responses(suite, gate, outcome):
    """0.1 to 1.0 s, 1 to 10 tokens, 0.1 to 1.0 each."""
    answers = {
        f"d{i}": {"latency_s": (i + 1) / 10, "cost": (i + 1) / 10, "n_tokens": i + 1}
        for i in range(10)
    }
    assert judged(suite, gate, Model(**answers)).outcome == outcome


@pytest.mark.parametrize(
    ("gate", "every", "reason"),
    [
        ("latency_p95 <= 3", {"elapsed_s": 0.1}, "10 of 10 documents have no latency"),
        ("cost <= 3", {}, "have no cost: the model has no prices"),
        (
            "tokens_per_answer <= 9",
            {"n_tokens": 0},
            "does not report its number of tokens",
        ),
        ("truncated <= 2%", {"finish": ""}, "does not report why it ended"),
        ("refused <= 2%", {"finish": ""}, "does not report why it ended"),
        (
            "cut_short <= 2%",
            {"finish": "length", "n_tokens": 0},
            "does not report why it ended",
        ),
    ],
)
def test_a_value_that_a_model_does_not_report_makes_the_gate_invalid(
    suite, gate, every, reason
):
    verdict = judged(suite, gate, Model(all=every))
    assert verdict.outcome == "invalid"
    assert reason in verdict.reason


def test_one_document_without_latency_makes_the_gate_invalid(suite):
    answers = {f"d{i}": {"latency_s": 0.1} for i in range(9)}
    verdict = judged(suite, "latency_p50 <= 3", Model(**answers))
    assert verdict.outcome == "invalid"
    assert verdict.reason.startswith("1 of 10 documents have no latency")


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("truncatd <= 2%", "did you mean 'truncated'"),
        ("truncated <= 2", "always holds"),
        ("errored <= -1", "never holds"),
        (
            {"metric": "latency_p95", "max": 3, "over": "population"},
            "latency_p95 can only be judged over: run",
        ),
        (
            {"metric": "truncated", "baseline": "main", "max_rise": 0.1},
            "baseline cannot be used with truncated",
        ),
        ({"metric": "cost", "max": 3, "confidence": 0.9}, "only be judged over: run"),
    ],
)
def test_invalid_run_metric_gates_are_errors_before_the_run(suite, gate, message):
    path = suite.task("quiz", gates=[gate])
    with pytest.raises(TaskFileError, match=message):
        evaluate(path, Model())
    suite.task("other")
    suite.group("both", task=["other"], gates=[gate])
    path.unlink()
    with pytest.raises(TaskFileError, match=message):
        evaluate(suite.evals / "both.yaml", Model())


def test_tasks_without_generations_have_no_refusal_rate(suite):
    changes = {
        "output_type": "multiple_choice",
        "doc_to_choice": ["a1", "a2"],
        "doc_to_target": 0,
        "metric_list": [{"metric": "acc"}],
    }
    path = suite.task("quiz", **changes, gates=["refused <= 1%"])
    with pytest.raises(TaskFileError, match="unknown metric 'refused'"):
        evaluate(path, "scripted:first")
    path = suite.task("quiz", **changes, gates=["truncated <= 1%"])
    assert evaluate(path, "scripted:first").verdicts[0].outcome == "passed"


def test_a_metric_of_the_task_takes_precedence(suite):
    class Own:
        def pytest_evals_metrics(self, task, records):
            return {"truncated": 0.5, "acceptance_length": 2.25}

    gates = ["truncated >= 0.5", "acceptance_length >= 2.2", "cut_prompts <= 0"]
    path = suite.task("quiz", gates=gates)
    verdicts = evaluate(path, Model(), plugins=[Own()]).verdicts
    assert [v.outcome for v in verdicts] == ["passed"] * 3
    assert verdicts[1].value == 2.25


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_files_groups_options_and_tests_have_the_same_numbers(suite, workers):
    answers = {1: SHORT, 2: DOWN, 3: {"latency_s": 9.0}}
    text = CONFTEST.format(answers=answers, fingerprint=None)
    suite.pytester.makeconftest(text)
    suite.task("quiz", gates=["cut_short <= 10%"])
    suite.task("other")
    gates = ["errored <= 10%", "errored < 10%"]
    suite.group("both", task=["quiz", "other"], gates=gates)
    (suite.evals / "gates.yaml").write_text("gates: [other/errored <= 10%]\n")
    suite.pytester.makepyfile("""
        from pytest_evals import assert_gate

        def test_late(eval_results):
            assert_gate("other/length_limited", eval_results, max=0.2)
    """)
    suite.run(".", "--evals-gate=errored < 10%", *workers, model=None)
    gates = {
        (gate["task"], gate["id"]): (gate["outcome"], gate["value"])
        for gate in suite.results()["gates"]
    }
    assert gates == {
        ("quiz", "cut_short"): ("invalid", pytest.approx(1 / 9)),
        ("quiz", "errored"): ("failed", 0.1),
        ("other", "errored"): ("passed", 0.1),
        ("other", "errored#2"): ("failed", 0.1),
        ("both", "errored"): ("passed", 0.1),
        ("both", "errored#2"): ("failed", 0.1),
    }
    assert "errored" not in json.dumps(suite.results()["results"])


def test_over_part_of_the_documents_the_gate_is_skipped(suite):
    suite.pytester.makeconftest(CONFTEST.format(answers={}, fingerprint=None))
    suite.task("quiz", gates=["errored <= 0", "truncated <= 0"])
    result = suite.run("evals", "-rs", "-k", "q1 or errored or truncated", model=None)
    result.assert_outcomes(passed=1, skipped=2, deselected=9)
    result.stdout.fnmatch_lines(["*1 of 10 documents were run; indicative value*"])


def test_a_metric_name_that_a_function_may_return_is_accepted(suite):
    (suite.evals / "own.py").write_text(
        "def measure(doc, results):\n    return {'exact_match': 1.0, 'latency': 2.0}\n"
    )
    path = suite.task("quiz", gates=["latency >= 2"])
    path.write_text(path.read_text() + "process_results: !function own.measure\n")
    (verdict,) = evaluate(path, Model()).verdicts
    assert verdict.outcome == "passed"


def test_a_failed_gate_shows_the_documents_that_it_counts(suite):
    answers = {4: SHORT, 6: {"text": "nonsense"}}
    text = CONFTEST.format(answers=answers, fingerprint=None)
    suite.pytester.makeconftest(text)
    suite.task("quiz", gates=["truncated <= 2%"])
    result = suite.run("evals", model=None)
    result.stdout.fnmatch_lines(
        ["truncated 0.100 is not <= 0.02 (1 of 10)*", "  truncated", "    quiz[[]q4[]]"]
    )
    result.stdout.no_fnmatch_line("  wrong")
    result.stdout.fnmatch_lines(["*truncated*0.100*<= 0.02*FAILED"])


def test_stored_responses_keep_their_latency_and_cost(suite):
    answers = {i: {"latency_s": 0.5, "cost": 0.1} for i in range(10)}
    fingerprint = {"weights": 1}
    text = CONFTEST.format(answers=answers, fingerprint=fingerprint)
    suite.pytester.makeconftest(text)
    suite.task("quiz", gates=["latency_p95 <= 0.5", "cost <= 1.01"])
    first = suite.run("evals", model=None)
    first.assert_outcomes(passed=12)
    second = suite.run("evals", model=None)
    second.assert_outcomes(passed=12)
    second.stdout.fnmatch_lines(["*10 reused from the store*"])


def test_a_gate_option_without_task_applies_to_all_tasks_with_the_metric(suite):
    path = suite.task("quiz")
    verdicts = evaluate(path, Model(d1=SHORT), gates=["cut_short <= 5%"]).verdicts
    assert [(v.gate.task, v.outcome) for v in verdicts] == [("quiz", "failed")]
    with pytest.raises(OptionError, match="did you mean 'cut_short'"):
        evaluate(path, Model(), gates=["cut_shot <= 5%"])
