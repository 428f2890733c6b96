"""Full texts of gates that did not pass, written by hand from the rules for messages:
what, where, numbers, examples, commands, and never a traceback."""

from dataclasses import replace

from pytest_evals.core.record import Score
from pytest_evals.reports.details.examples import example_lines
from pytest_evals.reports.details.gate import gate_lines

IDS = ("a", "b", "c", "d")


def text(verdict, result):
    return "\n".join(gate_lines(verdict, result))


def test_a_failed_gate_shows_condition_numbers_examples_and_commands(make):
    records = [
        make.record(0, True),
        make.record(1, False),
        make.record(2, False, prompt="x" * 300 + "\nAnswer:", text="17", gold="18"),
        make.record(3, False, prompt="Q\x1b[2J", text="\x1b]0;owned\x07", gold="5"),
    ]
    metric = make.metric(0.25, 0.25, n_scored=4, total=1)
    facts = {"n": 4, "n_total": 1172, "n_correct": 1, "n_wrong": 3}
    result = make.result(make.task(ids=IDS), metric, records=records, **facts)
    verdict = make.verdict(
        make.gate(),
        "failed",
        metric=metric,
        short=0.5,
        n_short=2,
        reason="0.250 is not >= 0.75 (1 of 4)",
    )
    assert (
        text(verdict, result)
        == f"""\
acc 0.250 is not >= 0.75 (1 of 4)
evals/gsm8k.yaml:31

E   2 more correct answers would have passed.
E   acc: 90% CI [0.013, 0.751] over 4 documents
E   documents: 1 correct, 3 wrong; 4 of 1172 were selected.

  wrong
    gsm8k[c]
      prompt  …{"x" * 192}⏎Answer:
      answer  17
      target  18
    gsm8k[d]
      prompt  Q\\x1b[2J
      answer  \\x1b]0;owned\\x07
      target  5
    gsm8k[b]

  run again, with the same options
    pytest evals/gsm8k.yaml::gsm8k
    pytest 'evals/gsm8k.yaml::gsm8k[c]' -v"""
    )


def test_an_invalid_gate_shows_the_documents_without_a_score(make):
    records = [make.record(i, None, error=f"timed out\nafter {i} s") for i in range(4)]
    metric = make.metric(None, n_errored=4)
    task = make.task(ids=IDS)
    result = make.result(task, metric, records=records, n=4, n_errored=4)
    reason = "no document has a score (4 errored)"
    verdict = make.verdict(make.gate(), "invalid", metric=metric, reason=reason)
    assert (
        text(verdict, result)
        == """\
invalid: no document has a score (4 errored)
evals/gsm8k.yaml:31

!   The gate could not be evaluated; this is not a statement about the model.
!   documents: 4 errored; 4 in all.

  without a score (3 of 4)
    gsm8k[a]
      error   timed out⏎after 0 s
    gsm8k[b]
      error   timed out⏎after 1 s
    gsm8k[c]
      error   timed out⏎after 2 s

  run again, with the same options
    pytest evals/gsm8k.yaml::gsm8k
    pytest 'evals/gsm8k.yaml::gsm8k[a]' -v"""
    )


def test_documents_that_must_pass_are_the_examples(make):
    records = [make.record(i, i == 0, prompt=f"Q{i}", text="no") for i in range(3)]
    gate = make.gate("{must_pass: [a, b]}", must_pass=("a", "b"))
    reason = "1 of 2 documents wrong: b"
    verdict = make.verdict(gate, "failed", reason=reason, documents=("b",), n_short=1)
    assert (
        text(verdict, make.result(make.task(ids=IDS), records=records, n=4))
        == """\
1 of 2 documents wrong: b
evals/gsm8k.yaml:31

E   1 more correct answer would have passed.

  wrong
    gsm8k[b]
      prompt  Q1
      answer  no

  run again, with the same options
    pytest evals/gsm8k.yaml::gsm8k
    pytest 'evals/gsm8k.yaml::gsm8k[b]' -v"""
    )


def test_nothing_of_a_hostile_task_or_document_reaches_the_terminal(make):
    evil = "\x1b[31m\r\nE   passed"
    records = [make.record(0, False, prompt=evil, text=evil, gold=evil)]
    task = make.task(evil, ids=(evil,))
    metric = make.metric(0.0, 0.1, name=evil, n_scored=1)
    verdict = make.verdict(
        make.gate(f"{evil} >= 0.75".replace(evil, "m"), task="t", metric=evil),
        "failed",
        metric=metric,
        reason=evil,
    )
    lines = gate_lines(verdict, make.result(task, metric, records=records, n=1))
    assert all(line.isprintable() for line in lines)


def test_an_example_shows_the_reason_of_a_judge_and_space_around_an_answer(make):
    record = make.record(0, False, prompt="Q", text="x", gold="7")
    score = replace(record.scores[0], answer=" 7", explanation="It is late.\nSo no.")
    record = replace(record, scores=(score,))
    assert example_lines(record, "") == [
        "prompt  Q",
        "answer  ' 7'",
        "target  7",
        "reason  It is late.⏎So no.",
    ]


def test_wrong_documents_are_those_of_the_metric_of_the_gate(make):
    """A case that passes the first scorer may fail the one that the gate is about."""
    second = {0: False, 1: True, 2: False}
    records = [
        replace(record, scores=(*record.scores, score))
        for record in (make.record(i, i != 1, prompt=f"Q{i}") for i in second)
        for score in [
            Score(metric="short", correct=second[record.index], explanation="too long")
        ]
    ]
    metric = make.metric(1 / 3, 0.1, name="short", n_scored=3)
    gate = make.gate("short >= 0.75", metric="short")
    verdict = make.verdict(gate, "failed", metric=metric, reason="0.333 is not >= 0.75")
    task = make.task(ids=IDS, metrics=("acc", "short"))
    acc = make.metric(2 / 3, 0.1, n_scored=3)
    shown = text(verdict, make.result(task, acc, metric, records=records, n=3))
    named = [
        line.strip() for line in shown.splitlines() if line.startswith("    gsm8k")
    ]
    assert named == ["gsm8k[a]", "gsm8k[c]"]
    assert shown.count("reason  too long") == 2


def test_a_metric_without_correctness_shows_its_worst_documents(make):
    """The highest ones if lower is better, or if the gate is an upper threshold."""
    values = {0: 0.5, 1: 1.0, 2: 0.1, 3: 0.3}
    for higher, op, order in (
        (True, ">=", ["c", "d", "a"]),
        (True, "<=", ["b", "a", "d"]),
        (False, "<=", ["b", "a", "d"]),
    ):
        records = [
            replace(make.record(i, True), scores=(Score(metric="rouge", value=value),))
            for i, value in values.items()
        ]
        metric = make.metric(0.5, 0.1, name="rouge", higher_is_better=higher)
        gate = make.gate(f"rouge {op} 0.75", metric="rouge")
        verdict = make.verdict(gate, "failed", metric=metric, reason="it is not")
        lines = gate_lines(
            verdict, make.result(make.task(ids=IDS), metric, records=records, n=4)
        )
        named = [line.strip() for line in lines if line.startswith("    gsm8k")]
        assert named == [f"gsm8k[{one}]" for one in order]
        assert f"  {'lowest' if op == '>=' else 'highest'} rouge" in lines
