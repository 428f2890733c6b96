"""Judges that compare two answers, in both orders."""

import json
from pathlib import Path
from typing import Any

import pytest

import pytest_evals as ev
from pytest_evals import RunResult, evaluate
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.reports.overview.remarks import remarks

EVAL = """\
prompt: "{{q}}"
rows: [%s]
score:
  pairwise: {rubric: Which one is better?, versus: "{{old}}", name: wins}
gates: [wins >= 0.5]
"""


def run(folder: Path, verdicts: list[tuple[Any, Any]]) -> RunResult:
    """A run whose judge returns these verdicts: with the new answer first, and
    second."""
    rows = ", ".join(f"{{q: q{i}., old: old {i}.}}" for i in range(len(verdicts)))
    (folder / "bot.yaml").write_text(EVAL % rows, "utf-8")
    answers = [{"prompt": f"q{i}.", "text": f"new {i}."} for i in range(len(verdicts))]
    replies = []
    for i, pair in enumerate(verdicts):
        orders = (f"new {i}.", f"old {i}."), (f"old {i}.", f"new {i}.")
        for (first, second), better in zip(orders, pair, strict=True):
            tags = r"</answer_1-\w+>\s*<answer_2-\w+>"
            regex = rf"<answer_1-\w+>\s{first}\s{tags}\s{second}\s"
            reply = json.dumps({"reason": "so", "better": better})
            replies.append({"regex": regex, "text": reply})
    for name, rules in (("model", answers), ("judge", replies)):
        text = "\n".join(map(json.dumps, rules))
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    return evaluate(
        folder / "bot.yaml",
        f"scripted:{folder / 'model.jsonl'}",
        judge=f"scripted:{folder / 'judge.jsonl'}",
    )


def test_an_answer_wins_only_in_both_orders(tmp_path: Path) -> None:
    verdicts = [("1", "2"), ("2", "1"), ("1", "1"), ("tie", "tie"), (1, "TIE")]
    result = run(tmp_path, verdicts)
    frame = result.to_pandas("documents")
    assert frame["wins,none"].tolist() == [1, 0, 0.5, 0.5, 0.5]
    assert frame["explanation"][2].startswith("the verdict depends on the order")


def test_a_judge_that_prefers_the_first_answer_is_reported(tmp_path: Path) -> None:
    result = run(tmp_path, [("1", "1")] * 8 + [("1", "2")] * 2)
    (found,) = results_json(result)["judge_errors"]["bot"]
    assert (found["n_pairs"], found["n_consistent"]) == (10, 2)
    # 16 + 2 of 20 verdicts are for the first answer; the sign test is 2 * 0.5 ** 8.
    assert found["first_preferred"] == pytest.approx(0.9)
    assert found["p_value"] == pytest.approx(2 * 0.5**8)
    text = "\n".join(line for line, _ in remarks(result))
    assert "2 of 10 pairs have the same winner in both orders" in text
    assert "position bias (p = 0.008)" in text


def test_a_judge_without_a_preference_has_no_position_bias(tmp_path: Path) -> None:
    result = run(tmp_path, [("1", "2")] * 5 + [("2", "1")] * 5)
    text = "\n".join(line for line, _ in remarks(result))
    assert "10 of 10 pairs have the same winner" in text
    assert "position bias" not in text


@pytest.mark.parametrize("verdict", [3, True, None, "both"])
def test_a_reply_outside_of_the_schema_leaves_the_case_unscored(
    tmp_path: Path, verdict: Any
) -> None:
    result = run(tmp_path, [("1", "2"), ("1", verdict)])
    assert [one.status.value for one in result.tasks[0].records] == [
        "scored",
        "unscored",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"versus": ""}, "versus is '', not text"),
        ({"versus": "{{old}}", "threshold": 2}, "threshold is 2, not above 0"),
        ({"versus": "{{old}}", "sampled": "random"}, "sampled is set without labels"),
    ],
)
def test_arguments_are_checked(arguments: Any, why: str) -> None:
    with pytest.raises(ev.EvalsError, match=f"pairwise: {why}"):
        ev.pairwise("Which one is better?", **arguments)


def test_each_judge_asks_the_model_that_it_names(tmp_path: Path) -> None:
    for name, verdict in (("kind", True), ("harsh", False)):
        reply = {"text": json.dumps({"reason": "", "pass": verdict})}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(reply), "utf-8")
    judges = [
        ev.judge("Good?", model=f"scripted:{tmp_path / name}.jsonl", name=name)
        for name in ("kind", "harsh")
    ]
    result = evaluate([{"prompt": "Hello"}], "scripted:echo", score=judges)
    values = {one.name: one.estimate for one in result.tasks[0].metrics}
    assert {name: one and one.value for name, one in values.items()} == {
        "kind": 1,
        "harsh": 0,
    }


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("1", 1.0),
        ("'tie'", 0.5),
        ('{"better": 2.0}', 0.0),
        ('{"better": "Tie."}', 0.5),
        ('{"better": "1 or 2"}', None),
        ('{"better": true}', None),
        ('{"better": "1"} {"better": "2"}', None),
        ("Answer 1", None),
        ('<think>{"better": "1"}', None),
    ],
)
def test_replies_are_read_leniently_and_never_guessed(reply, value):
    """The same reply in both orders: the verdict depends on the order, unless it is a
    tie."""
    score = [ev.pairwise("Which is better?", versus="{{old}}")]
    rows = [{"prompt": "q", "old": "old"}]
    found = evaluate(rows, lambda prompt: "new", score=score, judge=One(reply))
    (one,) = found.tasks[0].records[0].scores
    assert bool(one.unscored) == (value is None)
    if value is not None:
        assert one.orders == (value, 1 - value)


class One:
    """A judge that gives one reply."""

    name = "one"

    def __init__(self, reply: str) -> None:
        self.text = reply

    def answer(self, requests):
        return [(n, ev.Response(text=self.text)) for n in range(len(requests))]
