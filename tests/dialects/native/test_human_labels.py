"""Human labels measure a judge's error and correct its mean."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pytest_evals as ev
from pytest_evals import RunResult, TaskFileError, TaskOptions, evaluate
from pytest_evals.dialects.native.eval_file import load_tasks
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.reports.overview.remarks import remarks

TRUTH = [i % 10 < 8 for i in range(100)]
"""Whether people accept the answer to each case: 80%."""
JUDGED = [truth and i % 50 != 3 for i, truth in enumerate(TRUTH)]
"""The judge's rating: it rejects two good answers."""
SAMPLE = range(0, 100, 2)
EVAL = """\
prompt: "{{q}}"
dataset: rows.jsonl
score:
  judge: {rubric: Is it polite?, name: polite, labels: labels.jsonl%s}
gates: [%s]
"""
RANDOM = ", sampled: random"


def lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def answer(i: int, longer: Sequence[int] = ()) -> str:
    return f"answer {i}" + " and more" * 30 * (i in longer)


def label(i: int, **more: Any) -> dict[str, Any]:
    return {"id": f"c{i}", "label": TRUTH[i], "response": answer(i), **more}


def prepare(
    folder: Path,
    labels: Sequence[Any],
    gate: str = "polite >= 0.7",
    settings: str = RANDOM,
    judged: Sequence[Any] = JUDGED,
    longer: Sequence[int] = (),
) -> None:
    lines(
        folder / "rows.jsonl", [{"id": f"c{i}", "q": f"case {i}."} for i in range(100)]
    )
    lines(
        folder / "model.jsonl",
        [{"prompt": f"case {i}.", "text": answer(i, longer)} for i in range(100)],
    )
    replies = [
        {
            "regex": rf">\nanswer {i}( and more)*\n<",
            "text": json.dumps({"reason": "", **grade}),
        }
        for i, one in enumerate(judged)
        for grade in [one if isinstance(one, dict) else {"pass": one}]
    ]
    lines(folder / "judge.jsonl", replies)
    lines(folder / "labels.jsonl", labels)
    (folder / "bot.yaml").write_text(EVAL % (settings, gate), "utf-8")


def run(folder: Path, *args: Any, **settings: Any) -> RunResult:
    prepare(folder, *args, **settings)
    return evaluate(
        folder / "bot.yaml",
        f"scripted:{folder / 'model.jsonl'}",
        judge=f"scripted:{folder / 'judge.jsonl'}",
    )


def problems(folder: Path, labels: Sequence[Any], settings: str = RANDOM) -> list[str]:
    prepare(folder, labels, settings=settings)
    with pytest.raises(TaskFileError) as error:
        evaluate(folder / "bot.yaml", f"scripted:{folder / 'model.jsonl'}")
    return [
        f"{one.where.path.name}:{one.where.line}: {one.message}"
        for one in error.value.problems
    ]


def test_a_gate_is_about_the_mean_that_labels_correct(tmp_path: Path) -> None:
    result = run(tmp_path, [label(i) for i in SAMPLE])
    (verdict,) = result.verdicts
    assert verdict.outcome == "passed"
    # Of the 50 labelled cases, 40 are good; the judge refuses none of them there
    # (cases 3 and 53 are not labelled), so labels correct its mean of 0.78 by nothing.
    assert verdict.value == pytest.approx(0.78, abs=0.005)
    assert verdict.interval is not None
    assert 0.7 < verdict.interval.low < 0.78 < verdict.interval.high < 0.9
    assert verdict.interval.method == "prediction-powered"
    (metric,) = result.tasks[0].metrics
    assert metric.estimate is not None and metric.estimate.value == 0.78


def test_labels_correct_a_lenient_judge(tmp_path: Path) -> None:
    always = [True] * 90 + [False] * 10
    result = run(tmp_path, [label(i) for i in SAMPLE], "polite >= 0.85", judged=always)
    (verdict,) = result.verdicts
    (metric,) = result.tasks[0].metrics
    assert metric.estimate is not None and metric.estimate.value == 0.9
    assert verdict.value == pytest.approx(0.8, abs=0.01)
    assert verdict.outcome == "inconclusive"
    assert "is smaller than the judge's error" in verdict.reason
    assert "human labels" in verdict.reason


def test_reports_have_agreement_kappa_confusion_and_both_means(tmp_path: Path) -> None:
    result = run(tmp_path, [label(i) for i in range(50)], "polite >= 0.5")
    (error,) = results_json(result)["judge_errors"]["bot"]
    assert (error["n_labels"], error["n_agree"]) == (50, 49)
    assert error["confusion"] == {
        "pass": {"pass": 39, "fail": 1},
        "fail": {"pass": 0, "fail": 10},
    }
    # p_o = .98, p_e = .8 * .78 + .2 * .22
    assert error["kappa"] == pytest.approx((0.98 - 0.668) / (1 - 0.668))
    assert (error["human_mean"], error["judge_mean"]) == (0.8, 0.78)
    corrected = error["corrected"]
    assert corrected["low"] < corrected["value"] < corrected["high"]
    text = "\n".join(line for line, _ in remarks(result))
    assert "judge's mean 0.780, corrected by 50 human labels 0.800" in text
    assert "agreement 0.980 (49 of 50), kappa 0.94" in text
    assert "human pass: judge pass 39, fail 1" in text
    assert "length bias" not in text


def test_a_bias_for_long_answers_is_reported(tmp_path: Path) -> None:
    """Half of the bad answers are long, and the judge accepts only these."""
    longer = range(8, 100, 10)
    judged = [truth or i in longer for i, truth in enumerate(TRUTH)]
    labels = [label(i, response=answer(i, longer)) for i in range(100)]
    result = run(tmp_path, labels, judged=judged, longer=longer)
    shown = "\n".join(line for line, _ in remarks(result))
    assert "length bias: of answers with the same human label" in shown


@pytest.mark.parametrize(
    ("labels", "settings", "reason"),
    [
        (SAMPLE, "", "sampled is not set"),
        (SAMPLE, ", sampled: the hard ones", "sampled is 'the hard ones'"),
        (range(29), RANDOM, "29 human labels; a gate needs at least 30"),
    ],
)
def test_too_few_or_not_random_labels_give_agreement_and_an_invalid_gate(
    tmp_path: Path, labels: Sequence[int], settings: str, reason: str
) -> None:
    result = run(tmp_path, [label(i) for i in labels], settings=settings)
    (verdict,) = result.verdicts
    assert verdict.outcome == "invalid"
    assert verdict.reason.startswith(reason)
    (error,) = results_json(result)["judge_errors"]["bot"]
    assert error["agreement"] > 0.9
    assert error["corrected"] is None
    assert any("will be invalid" in one for one in result.warnings)


def test_labels_of_other_answers_are_not_used(tmp_path: Path) -> None:
    labels = [label(i) for i in SAMPLE]
    labels[0]["response"] = "an answer of last week"
    (verdict,) = run(tmp_path, labels).verdicts
    assert verdict.outcome == "invalid"
    assert "1 of 50 human labels are of other answers" in verdict.reason


def test_labels_without_answers_are_used_with_a_remark(tmp_path: Path) -> None:
    result = run(tmp_path, [{"id": f"c{i}", "label": int(TRUTH[i])} for i in SAMPLE])
    assert result.verdicts[0].outcome == "passed"
    text = "\n".join(line for line, _ in remarks(result))
    assert "some labels have no response" in text


def test_a_labelled_case_that_the_judge_cannot_rate_makes_the_gate_invalid(
    tmp_path: Path,
) -> None:
    judged: list[Any] = [*JUDGED]
    judged[4] = {"verdict": "fine"}
    (verdict,) = run(tmp_path, [label(i) for i in SAMPLE], judged=judged).verdicts
    assert verdict.outcome == "invalid"
    assert "1 of 50 labelled documents have no rating" in verdict.reason


def test_an_unlabelled_case_without_a_rating_makes_the_gate_invalid(
    tmp_path: Path,
) -> None:
    judged: list[Any] = [*JUDGED]
    judged[5] = {"verdict": "fine"}
    (verdict,) = run(tmp_path, [label(i) for i in SAMPLE], judged=judged).verdicts
    assert verdict.outcome == "invalid"
    assert "1 of 100 documents has no score (1 unscored)" in verdict.reason


def test_grades_are_labelled_on_the_scale_of_the_judge(tmp_path: Path) -> None:
    judged = [{"grade": 5 if one else 2} for one in JUDGED]
    labels = [label(i, label=4 if TRUTH[i] else 2) for i in SAMPLE]
    settings = f"{RANDOM}, scale: [1, 5]"
    result = run(tmp_path, labels, "polite >= 0.5", settings, judged)
    (error,) = results_json(result)["judge_errors"]["bot"]
    assert error["confusion"]["4"] == {"2": 0, "4": 0, "5": 40}
    assert error["human_mean"] == pytest.approx((0.8 * 3 + 0.2 * 1) / 4)
    assert error["judge_mean"] == pytest.approx((0.78 * 4 + 0.22 * 1) / 4)
    (verdict,) = result.verdicts
    assert verdict.value == pytest.approx(0.65, abs=0.02)


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("{metric: polite, baseline: main, max_drop: 0.1}", "baseline cannot be used"),
        ("{metric: polite, min: 0.7, over: benchmark}", "over: benchmark cannot"),
    ],
)
def test_gates_that_labels_do_not_support_are_refused_before_the_run(
    tmp_path: Path, gate: str, why: str
) -> None:
    prepare(tmp_path, [label(i) for i in SAMPLE], gate)
    with pytest.raises(TaskFileError, match=why):
        evaluate(tmp_path / "bot.yaml", f"scripted:{tmp_path / 'model.jsonl'}")


def test_over_the_population_the_interval_is_wider(tmp_path: Path) -> None:
    gates = "polite >= 0.5, {metric: polite, min: 0.5, over: population}"
    result = run(tmp_path, [label(i) for i in SAMPLE], gates)
    of_run, of_all = (one.interval for one in result.verdicts)
    assert of_run is not None and of_all is not None
    assert of_all.low < of_run.low < of_run.high < of_all.high


def test_wrong_labels_are_reported_with_file_and_line(tmp_path: Path) -> None:
    labels = [
        label(1),
        label(1),
        {"id": "c2"},
        label(3, label="good"),
        label(4, label=0.5),
        {"label": True},
        label(6, response=7),
        "text",
    ]
    assert problems(tmp_path, labels) == [
        "labels.jsonl:2: 'c1' already has a label in line 1",
        "labels.jsonl:3: 'c2' has no label",
        "labels.jsonl:4: 'c3': label is 'good', not true or false",
        "labels.jsonl:5: 'c4': label is 0.5, not true or false",
        "labels.jsonl:6: id is None, not the id of a case",
        "labels.jsonl:7: 'c6': response is not text",
        "labels.jsonl:8: a line must be a JSON object",
    ]


def test_labels_of_unknown_cases_are_reported(tmp_path: Path) -> None:
    labels = [label(1), {"id": "c1000", "label": True}]
    assert problems(tmp_path, labels) == [
        "labels.jsonl:2: unknown case 'c1000'; did you mean 'c10'?"
    ]


def test_grades_outside_of_the_scale_are_reported(tmp_path: Path) -> None:
    found = problems(tmp_path, [label(1, label=6)], f"{RANDOM}, scale: [1, 5]")
    assert found == ["labels.jsonl:1: 'c1': label is 6, not a grade from 1 to 5"]


def test_a_missing_file_and_missing_labels_are_reported(tmp_path: Path) -> None:
    assert problems(tmp_path, []) == ["labels.jsonl:0: the file has no labels"]
    prepare(tmp_path, [])
    (tmp_path / "labels.jsonl").unlink()
    with pytest.raises(TaskFileError, match=r"bot\.yaml:3: .* no file 'labels.jsonl'"):
        load_tasks(tmp_path / "bot.yaml", TaskOptions())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"labels": 3}, "labels is the name of a JSONL file, not 3"),
        ({"labels": "a.jsonl", "sampled": True}, "sampled is True, not text"),
        ({"sampled": "random"}, "sampled is set without labels"),
    ],
)
def test_arguments_of_labels_are_checked(arguments: Any, why: str) -> None:
    with pytest.raises(ev.EvalsError, match=why):
        ev.judge("Is it polite?", **arguments)


def test_labels_cannot_be_combined_with_repeats(tmp_path: Path) -> None:
    prepare(tmp_path, [label(1)])
    with (tmp_path / "bot.yaml").open("a", encoding="utf-8") as file:
        file.write("repeats: 2\ngeneration: {temperature: 1}\n")
    with pytest.raises(
        TaskFileError, match="a label rates one answer, and repeats is 2"
    ):
        load_tasks(tmp_path / "bot.yaml", TaskOptions())


def test_an_interval_is_shown_next_to_the_corrected_mean(tmp_path: Path) -> None:
    always = [True] * 90 + [False] * 10
    result = run(tmp_path, [label(i) for i in SAMPLE], "polite >= 0.7", judged=always)
    low, high = result.verdicts[0].low, result.verdicts[0].high
    assert f"polite,none  0.8, 90% CI [{low:.4g}, {high:.4g}]" in repr(result)


@pytest.mark.parametrize("kept", [60, 50])
def test_with_a_limit_only_labels_of_the_run_count(tmp_path: Path, kept: int) -> None:
    prepare(tmp_path, [label(i) for i in SAMPLE], "polite >= 0.5")
    result = evaluate(
        tmp_path / "bot.yaml",
        f"scripted:{tmp_path / 'model.jsonl'}",
        judge=f"scripted:{tmp_path / 'judge.jsonl'}",
        options=TaskOptions(limit=kept),
    )
    (verdict,) = result.verdicts
    if kept == 60:
        assert verdict.outcome == "passed"
    else:
        assert "25 human labels (25 of documents that are not in this run)" in (
            verdict.reason
        )


def test_labels_of_an_eval_in_python_are_next_to_its_module(tmp_path: Path) -> None:
    prepare(tmp_path, [label(i) for i in SAMPLE])
    code = """
import pytest_evals as ev

@ev.eval(
    score=ev.judge("Is it polite?", labels="labels.jsonl", sampled="random"),
    gates="judge >= 0.7",
)
def bot():
    for i in range(100):
        yield ev.case(f"case {i}.", id=f"c{i}")
"""
    module = tmp_path / "eval_bot.py"
    module.write_text(code, "utf-8")
    values: dict[str, Any] = {}
    exec(compile(code, str(module), "exec"), values)
    result = evaluate(
        values["bot"],
        f"scripted:{tmp_path / 'model.jsonl'}",
        judge=f"scripted:{tmp_path / 'judge.jsonl'}",
    )
    (verdict,) = result.verdicts
    assert verdict.outcome == "passed"
    assert verdict.interval is not None
    assert verdict.interval.method == "prediction-powered"


@pytest.mark.slow
@pytest.mark.parametrize(("whole", "outcome"), [(True, "passed"), (False, "invalid")])
def test_clusters_are_labelled_as_a_whole(
    tmp_path: Path, whole: bool, outcome: str
) -> None:
    gate = "{metric: polite, min: 0.4, over: population, cluster: topic}"
    prepare(tmp_path, [label(i) for i in SAMPLE], gate)
    topics = [f"{i % 2 if whole else ''}-{i // 10}" for i in range(100)]
    rows = [
        {"id": f"c{i}", "q": f"case {i}.", "topic": one} for i, one in enumerate(topics)
    ]
    lines(tmp_path / "rows.jsonl", rows)
    (verdict,) = evaluate(
        tmp_path / "bot.yaml",
        f"scripted:{tmp_path / 'model.jsonl'}",
        judge=f"scripted:{tmp_path / 'judge.jsonl'}",
    ).verdicts
    assert verdict.outcome == outcome, verdict.reason
    mixed = "has documents with and without a human label" in verdict.reason
    assert mixed == (outcome == "invalid")


@pytest.mark.slow
def test_labels_give_the_same_numbers_with_workers(pytester: pytest.Pytester) -> None:
    """Labelled answers are joined with ratings that other processes made."""
    pytester.makeini("[pytest]\n")
    always = [True] * 90 + [False] * 10
    gates = "polite >= 0.7, {metric: polite, min: 0.85, over: population}"
    prepare(pytester.path, [label(i) for i in SAMPLE], gates, judged=always)
    found = []
    for workers in ("-n0", "-n2"):
        pytester.runpytest_subprocess(
            "bot.yaml",
            "--model=scripted:model.jsonl",
            "--evals-judge=scripted:judge.jsonl",
            workers,
            "--evals-json=results.json",
        )
        results = json.loads((pytester.path / "results.json").read_text("utf-8"))
        found.append([results["results"], results["gates"]])
    assert found[0] == found[1]
    assert "50 human labels" in str(found)


@pytest.mark.parametrize(
    ("encode", "is_valid"),
    [
        (lambda text: b"\xef\xbb\xbf" + text.encode(), True),
        (lambda text: text.replace("\n", "\r\n").encode(), True),
        (lambda text: text.replace("\n", "\n\n  \n").encode(), True),
        (lambda text: text.encode("utf-16"), False),
        (lambda text: b"[" * 100_000, False),
    ],
    ids=["bom", "crlf", "empty lines", "utf-16", "nested"],
)
def test_files_of_labels_in_other_encodings_are_read_or_refused(
    tmp_path: Path, encode: Any, is_valid: bool
) -> None:
    prepare(tmp_path, [label(i) for i in SAMPLE])
    path = tmp_path / "labels.jsonl"
    path.write_bytes(encode(path.read_text("utf-8")))
    if is_valid:
        (task,) = load_tasks(tmp_path / "bot.yaml", TaskOptions())
        labels = task.metrics[0].labels
        assert labels is not None and len(labels.by_id) == 50
        return
    with pytest.raises(TaskFileError, match=r"labels\.jsonl:1: "):
        load_tasks(tmp_path / "bot.yaml", TaskOptions())
