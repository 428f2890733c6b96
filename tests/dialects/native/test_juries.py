"""Juries: several judges, or one several times, and how their votes are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pytest_evals as ev
from pytest_evals import Response, evaluate
from pytest_evals.reports.files.jsonfile import results_json
from pytest_evals.reports.overview.remarks import remarks


class Member:
    """A judge that lets some answers pass; counts its requests."""

    name = "member"

    def __init__(self, passes, error=""):
        self.passes, self.error, self.requests = passes, error, []
        self.fingerprint = {"passes": sorted(passes)}

    def answer(self, requests):
        for position, one in enumerate(requests):
            self.requests.append(one)
            answer = one.prompt[1].content.split("<answer")[1].split("\n")[1]
            reply = {"reason": f"so {answer}", "pass": answer in self.passes}
            is_down = self.error and answer == "a"
            yield (
                position,
                Response(
                    text="" if is_down else json.dumps(reply),
                    error=self.error if is_down else "",
                ),
            )


def sources(members):
    return [lambda one=one: one for one in members]


def run(passes, answers="abcd", **settings):
    """The scores of answers by judges that let these pass."""
    members = [one if isinstance(one, Member) else Member(one) for one in passes]
    jury = ev.judge("Good?", models=sources(members), **settings)
    rows = [{"prompt": one} for one in answers]
    return evaluate(rows, lambda prompt: prompt, score=[jury])


def scores(result):
    return [one.scores[0] for one in result.tasks[0].records]


@pytest.mark.parametrize(
    ("passes", "settings", "values", "correct"),
    [
        (("ab", "a", "ac"), {}, [1, 0, 0, 0], [1, 0, 0, 0]),
        (("ab", "a"), {}, [1, 0.5, 0, 0], [1, 0, 0, 0]),
        (("ab", "a"), {"ties": 0.5}, [1, 0.5, 0, 0], [1, 0, 0, 0]),
        (("ab", "a"), {"ties": "unscored"}, [1, None, 0, 0], [1, None, 0, 0]),
        (("ab", "a", "ab"), {"vote": "all"}, [1, 0, 0, 0], [1, 0, 0, 0]),
        (("ab", "a", "ab"), {"vote": "mean"}, [1, 2 / 3, 0, 0], [1, 1, 0, 0]),
        (
            ("ab", "a", "ab"),
            {"vote": "mean", "threshold": 0.7},
            [1, 2 / 3, 0, 0],
            [1, 0, 0, 0],
        ),
    ],
)
def test_votes_are_counted(passes, settings, values, correct):
    found = scores(run(passes, **settings))
    assert [one.value for one in found] == pytest.approx(values)
    assert [one.correct for one in found] == correct
    tied = [one for one in found if one.value is None]
    assert all("the vote is tied: 1 of 2 pass" in one.unscored for one in tied)


def test_the_reasons_of_all_members_are_shown():
    (found,) = scores(run(("a", "b"), "a"))
    assert found.explanation == (
        "1 of 2 pass; <lambda> 1: pass: so a; <lambda> 2: fail: so a"
    )


def test_a_member_that_fails_leaves_the_row_unscored_and_is_named():
    found = run(("ab", Member("ab", error="down"), "ab"), "ab")
    first, second = scores(found)
    assert first.unscored == "judge: <lambda> 2: down"
    assert second.value == 1
    assert found.tasks[0].n_unscored == 1


def test_disagreement_is_a_number_of_the_report():
    # Three judges and four answers, 1011, 1011 and 1001: alpha is 0.65625.
    result = run(("acd", "acd", "ad"))
    (found,) = next(iter(results_json(result)["judge_errors"].values()))
    assert found["alpha"] == pytest.approx(0.65625)
    assert found["limits"]["low"] <= found["alpha"] <= found["limits"]["high"]
    (line,) = [one for one, _ in remarks(result) if "alpha" in one]
    assert "all 3 ratings are equal for 3 of 4 answers" in line
    assert "Krippendorff's alpha 0.66, 90% CI [" in line
    assert line.endswith("means 0.750, 0.750, 0.500")
    same = run(("a", "a"), "a")
    assert "undefined, since all ratings are equal" in str(list(remarks(same)))


def test_repeats_of_a_judge_are_requests_of_their_own_in_the_store(tmp_path):
    judge = Member("a")
    settings = {
        "score": [ev.judge("Good?", repeats=3)],
        "judge": judge,
        "folder": tmp_path,
    }
    rows = [{"prompt": one} for one in "ab"]
    evaluate(rows, lambda prompt: prompt, **settings)
    assert sorted(one.repeat for one in judge.requests) == [0, 0, 1, 1, 2, 2]
    again = evaluate(rows, lambda prompt: prompt, **settings)
    assert len(judge.requests) == 6
    explained = scores(again)[0].explanation
    assert explained.startswith("3 of 3 pass; repeat 1: pass: so a; repeat 2: ")
    assert len({one.temperature for one in judge.requests}) == 1


def test_repeats_of_a_deterministic_judge_are_one_vote():
    judge = Member("a")
    judge.is_deterministic = True
    rows = [{"prompt": "a"}]
    result = evaluate(
        rows, lambda prompt: prompt, score=[ev.judge("Good?", repeats=3)], judge=judge
    )
    assert len(judge.requests) == 1
    assert scores(result)[0].explanation.startswith("3 repeats of one reply; 1 of 1")
    assert any("set temperature: 0.7" in line for line, _ in remarks(result))


def test_a_jury_in_yaml_with_labels_and_repeats_of_the_eval(tmp_path: Path):
    (tmp_path / "model.jsonl").write_text('{"text": "hi"}')
    for name, verdict in (("kind", True), ("harsh", False), ("fair", True)):
        reply = {"text": json.dumps({"reason": name, "pass": verdict})}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(reply))
    models = ", ".join(
        f"'scripted:{tmp_path / n}.jsonl'" for n in ("kind", "harsh", "fair")
    )
    label = {"id": "one", "label": True, "response": "hi"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(label))
    text = (
        'prompt: "{{q}}"\nrows: [{id: one, q: hello}]\n'
        "score: [{judge: {rubric: Polite?, labels: labels.jsonl, "
        f"models: [{models}]}}}}]"
    )
    (tmp_path / "bot.yaml").write_text(text)
    result = evaluate(tmp_path / "bot.yaml", f"scripted:{tmp_path / 'model.jsonl'}")
    (score,) = scores(result)
    assert (score.value, score.label) == (1.0, (1.0, 2))
    assert "harsh.jsonl: fail: harsh" in score.explanation


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"models": "openai:a"}, "models is 'openai:a', not a list of two or more"),
        ({"models": ["openai:a"]}, "models is .* not a list of two or more"),
        ({"models": ["openai:a", "openai:a"]}, "models has 'openai:a' twice"),
        ({"models": ["openai:a", 3]}, "models has 3, not the spec"),
        ({"models": ["a", "b"], "model": "c"}, "model and models are both set"),
        ({"models": ["a", "b"], "repeats": 2}, "models and repeats are both set"),
        ({"repeats": 0}, "repeats is 0"),
        ({"vote": "all"}, "vote has no effect on one judge"),
        ({"ties": 0.5}, "ties has no effect on one judge"),
        ({"repeats": 2, "vote": "most"}, "vote is 'most', not majority, mean, all"),
        ({"repeats": 2, "ties": 1}, "ties is 1, not 0.5 or unscored"),
        ({"repeats": 2, "ties": 0.5, "vote": "mean"}, "ties has no effect with vote"),
        ({"repeats": 2, "temperature": -1}, "temperature is -1"),
    ],
)
def test_arguments_of_juries_are_checked(arguments, why):
    with pytest.raises(ev.EvalsError, match=f"judge: {why}"):
        ev.judge("Good?", **arguments)
