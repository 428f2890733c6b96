"""The full summary, written by hand."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from pytest_evals.core.gate import Change, Interval, Margin
from pytest_evals.reports.escape import cells
from pytest_evals.reports.terminal.summary import summary_lines


def shown(run, width, path=""):
    return [line.text for line in summary_lines(run, width, path)]


@pytest.fixture
def run(make):
    """Two tasks: one with two filters and a failed gate, and one with errors."""
    gsm8k = make.task("gsm8k", n_shots=5)
    strict = make.metric(
        0.75, 0.031, "exact_match", "strict-match", n_scored=200, total=150
    )
    flexible = make.metric(0.8, 0.028, "exact_match", "flexible-extract", n_scored=200)
    refusals = make.task("refusals", alias="Refusals")
    refused = make.metric(0.99, None, "refused", n_scored=197, n_errored=3)
    floor = make.gate("exact_match >= 0.7501", metric="exact_match")
    other = make.gate("refused >= 0.98", task="refusals", metric="refused")
    must = make.gate("", task="refusals", must_pass=("a", "b"))
    return make.run(
        make.result(
            gsm8k,
            strict,
            flexible,
            n_total=1319,
            n_correct=150,
            n_wrong=50,
            n_prompt_tokens=1_300_000,
            n_tokens=41_000,
            n_truncated=2,
        ),
        make.result(refusals, refused, n_errored=3, n_correct=195, n_wrong=2),
        verdicts=(
            make.verdict(
                floor, "failed", metric=strict, reason="0.7500 is not >= 0.7501"
            ),
            make.verdict(other, "invalid", metric=refused, reason="3 of 200 …"),
            make.verdict(must, "passed", reason="2 documents right"),
        ),
        n_requests=399,
        model_s=10.0,
        elapsed_s=92.4,
    )


def test_a_wide_terminal_shows_everything(run):
    assert shown(run, 120, ".evals/runs/x") == [
        "task             docs  shots  filter            metric       value"
        "           gate         verdict",
        "gsm8k     200 of 1319      5  strict-match      exact_match  0.750"
        "           >= 0.7501    FAILED",
        "          200 of 1319         flexible-extract  exact_match  0.800  ± 0.028",
        "Refusals      197/200      0                    refused      0.990"
        "           >= 0.98      INVALID",
        "                  200                           must pass        -"
        "           2 documents  passed",
        "gsm8k::exact_match FAILED: 0.7500 is not >= 0.7501",
        "refusals::refused INVALID: 3 of 200 …",
        "gsm8k: 2 of 200 documents did not fit into the model; their prompts were cut",
        "documents: 345 correct, 52 wrong, 3 errored",
        "gates: 1 passed, 1 failed, 1 invalid",
        "tokens: 1,300,000 in prompts, 41,000 scored or generated; 399 requests",
        "time: 10.0 s in the model (134,100 tokens/s), 1:32 in all",
        "results: .evals/runs/x",
    ]


def test_eighty_columns_go_without_shots_and_show_filters_behind_metrics(run):
    assert [" ".join(line.split()) for line in shown(run, 80)[:5]] == [
        "task docs metric value gate verdict",
        "gsm8k 200 of 1319 exact_match,strict-match 0.750 >= 0.7501 FAILED",
        "200 of 1319 exact_match,flexible-extract 0.800",
        "Refusals 197/200 refused 0.990 >= 0.98 INVALID",
        "200 must pass - 2 documents passed",
    ]


def test_sixty_columns_keep_gate_and_verdict_and_shorten_names_in_the_middle(run):
    assert shown(run, 60)[:5] == [
        "task      metric                 value  gate         verdict",
        "gsm8k     exact_matc…rict-match  0.750  >= 0.7501    FAILED",
        "          exact_matc…le-extract  0.800",
        "Refusals  refused                0.990  >= 0.98      INVALID",
        "          must pass                  -  2 documents  passed",
    ]


@pytest.mark.parametrize("width", [44, 60, 80, 100])
def test_rows_that_differ_are_never_shown_alike(make, width):
    """Names that differ only at the start, in the middle or at the end."""
    long = "mmlu_generative_five_shot"
    names = [f"{long}_{end}" for end in ("macroeconomics", "microeconomics")]
    names += [f"{start}_{long}_high_school" for start in ("de", "fr", "it")]
    names += [f"{long}_{part}_{long}" for part in ("anatomy", "biology", "botany")]
    tasks = [make.task(name) for name in names]
    metrics = [make.metric(0.5, 0.03, key, n_scored=200) for key in ("acc", "acc_norm")]
    run = make.run(*(make.result(task, *metrics) for task in tasks))
    rows = shown(run, width)[1 : 1 + 2 * len(names)]
    assert len({row.split()[0] for row in rows[::2]}) == len(names)
    assert max(map(cells, rows)) <= width


def test_gates_with_the_same_condition_are_distinguished_by_their_ids(make):
    metric = make.metric(0.346, n_scored=200)
    gates = [replace(make.gate("acc >= 0.3"), id=id_) for id_ in ("now", "again")]
    outcomes = zip(gates, ("passed", "skipped"), strict=True)
    verdicts = [make.verdict(gate, word, metric=metric) for gate, word in outcomes]
    run = make.run(make.result(make.task(), metric), verdicts=verdicts)
    ends = [row.partition(">= ")[2] for row in shown(run, 80)[1:3]]
    assert [end.split() for end in ends] == [
        ["0.3", "(now)", "passed"],
        ["0.3", "(again)", "skipped"],
    ]


@pytest.mark.parametrize(
    ("n_correct", "n", "noise"),
    [
        # Clopper and Pearson (1934): 1 - 0.05 ** (1 / 3); 0.05 ** (1 / 20).
        (0, 3, "90% CI [0.000, 0.632]"),
        (20, 20, "90% CI [0.861, 1.000]"),
        (10, 20, "± 0.115"),
    ],
)
def test_few_correct_or_wrong_answers_have_an_exact_interval(make, n_correct, n, noise):
    stderr = 0.0 if n_correct in (0, n) else 0.1147
    metric = make.metric(n_correct / n, stderr, n_scored=n, total=n_correct)
    run = make.run(make.result(make.task(), metric, n=n))
    assert shown(run, 120)[1].endswith(noise)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(run, width):
    assert max(cells(line) for line in shown(run, width)) <= width


def test_colours_only_repeat_words(run):
    lines = summary_lines(run, 120)
    colours = {
        line.text.split()[-1]: dict(line.markup) for line in lines[1:5] if line.markup
    }
    assert colours == {
        "FAILED": {"red": True},
        "INVALID": {"red": True},
        "passed": {"green": True},
    }


@pytest.fixture
def gates(make):
    """Gates of every kind on one metric, and a metric without a gate."""
    acc, other = make.metric(0.75, 0.025), make.metric(0.6, 0.04, "f1")
    interval = Interval(0.70488, 0.79113, "Clopper-Pearson")
    floor = make.gate("acc >= 0.65")
    sure = replace(floor, confidence=0.99, over="population")
    change = Change(
        baseline="main",
        before=0.7,
        now=0.75,
        difference=0.05,
        op=">=",
        bar=-0.02,
        unit="points",
        n=300,
    )
    drop = replace(floor, bounds=(), margin=Margin("max_drop", Decimal("0.02")))
    drop = replace(drop, baseline="main")
    moved = Interval(0.0123, 0.0877, "paired")
    early = Interval(0.6, 0.9, "")
    verdicts = (
        make.verdict(floor, "passed", metric=acc),
        make.verdict(replace(floor), "passed", metric=acc, interval=interval),
        make.verdict(sure, "passed", metric=acc, interval=interval),
        make.verdict(drop, "passed", metric=acc, interval=moved, change=change),
        make.verdict(floor, "passed", metric=acc, interval=early, early=True),
    )
    result = make.result(make.task(), acc, other, n=300)
    return make.run(result, verdicts=verdicts)


def test_a_gate_is_shown_with_its_own_limits_only(gates):
    """A standard error next to a gate would look like the compared value. The level of
    changes is in the heading."""
    assert "  change, 90% CI  " in shown(gates, 120)[0]
    rows = [re.split(" {2,}", line)[-3:] for line in shown(gates, 120)[1:7]]
    assert rows == [
        ["0.750", ">= 0.65", "passed"],
        ["90% CI [0.705, 0.791]", ">= 0.65", "passed"],
        ["98% CI [0.705, 0.791]", ">= 0.65", "passed"],
        ["+5.00 [+1.23, +8.77] points", "drop <= 0.02 vs main", "passed"],
        ["0.750", ">= 0.65", "passed (early)"],
        ["f1", "0.600", "± 0.040"],
    ]


def test_a_value_is_shown_on_its_side_of_the_bound(make):
    metric = make.metric(0.74996, n_scored=100_000)
    gate = make.gate("acc >= 0.75")
    run = make.run(
        make.result(make.task(), metric, n=100_000),
        verdicts=(make.verdict(gate, "failed", metric=metric, reason="…"),),
    )
    assert shown(run, 80)[1] == "gsm8k  100000      0  acc     0.74996  >= 0.75  FAILED"


def test_a_gate_without_its_metric_still_has_a_row(make):
    gate = make.gate("f1 >= 0.75", metric="f1")
    run = make.run(
        make.result(make.task(), make.metric(0.5, n_scored=200)),
        verdicts=(make.verdict(gate, "invalid", reason="unknown metric 'f1'"),),
    )
    assert shown(run, 80)[1:4] == [
        "gsm8k   200      0  acc     0.500",
        "        200         f1          -  >= 0.75  INVALID",
        "gsm8k::f1 INVALID: unknown metric 'f1'",
    ]


def test_a_passed_gate_within_the_noise_adds_no_line(make):
    metric = make.metric(0.76, 0.03, n_scored=200)
    reason = "0.760 >= 0.75; within noise: it would fail 35 times in 100"
    passed = make.verdict(make.gate(), "passed", metric=metric, reason=reason)
    run = make.run(make.result(make.task(), metric), verdicts=(passed,))
    assert "noise" not in "\n".join(shown(run, 120))


def test_a_partial_run_and_failed_metrics_are_reported(make):
    metric = make.metric(None, error="ValueError: no", n_scored=2)
    run = make.run(
        make.result(make.task(), metric, n=2, n_missing=0), partial="interrupted"
    )
    lines = shown(run, 80)
    assert lines[0] == "partial run: interrupted"
    assert "error: gsm8k: acc,none has no value: ValueError: no" in lines
    assert "documents: 2 scored" in lines


def test_a_run_without_tasks_has_neither_table_nor_tokens(make):
    assert shown(make.run(), 80) == ["documents: none"]


def test_hostile_names_and_reasons_stay_on_their_line(make):
    evil = "\x1b[31mred\r\n== 9 passed ==\u202e"
    metric = make.metric(0.1, name=evil, pipeline=evil, n_scored=1, error=evil)
    gate = make.gate("m >= 1", metric=evil)
    run = make.run(
        make.result(make.task(alias=evil), metric, n=1),
        verdicts=(make.verdict(gate, "failed", metric=metric, reason=evil),),
        partial=evil,
    )
    lines = shown(run, 200, evil)
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 8


def test_the_beginning_of_prompts_is_shown_if_the_model_reports_it(make):
    info = {"bos_rule": "added", "first_tokens": ["<s>", "\x1b[2J", " cat"]}
    lines = shown(make.run(model_info=info), 80)
    assert r"prompts: begin '<s>' '\x1b[2J' ' cat'; BOS token added" in lines
    lines = shown(make.run(model_info={"bos_rule": "not added"}), 80)
    assert "prompts: BOS token not added" in lines


def test_fewer_resamples_than_in_lm_eval_are_reported_if_used(make):
    def notes(method, iterations):
        metric = make.metric(2.0, 0.1, "perplexity", n_scored=9)
        metric = replace(metric, estimate=replace(metric.estimate, method=method))
        run = make.run(make.result(make.task(), metric, n=9))
        run = replace(run, options={"bootstrap_iters": iterations})
        return [line for line in shown(run, 100) if "resamples" in line]

    note = "bootstrapped standard errors are of 500 resamples, in lm-eval of 100,000"
    assert notes("bootstrap", 500) == [note]
    assert notes("bootstrap", 100_000) == notes("analytic", 500) == []
