"""The requests that documents can take at most are those of the worst replies."""

from __future__ import annotations

from collections import Counter

import pytest

import pytest_evals as ev
from pytest_evals import TaskOptions
from pytest_evals.core.record import Record
from pytest_evals.run.request_bound import later_requests


def counts(*cases, **settings):
    """Follow-up requests of all cases by the name of the model."""

    @ev.eval(**settings)
    def bot():
        yield from cases

    task = bot.task(TaskOptions(has_model=True, has_judge=True))
    found = Counter()
    for index in range(len(cases)):
        doc, requests = task.ask(index)
        record = Record(task=task.name, index=index, doc=doc, requests=requests)
        found.update(one.model for one in later_requests(record, task))
    return dict(found)


ONE = ev.case("Hi", target="Ho", contexts=["a"])


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        # Each reply of a judge is asked for once more.
        ({"score": [ev.judge("Good?")]}, {"judge": 2}),
        ({"score": [ev.judge("Good?")], "repeats": 3}, {"judge": 6}),
        ({"score": [ev.judge("Good?", repeats=3)]}, {"judge": 6}),
        (
            {"score": [ev.judge("Good?", models=["openai:a", "openai:b"])]},
            {"judge": 2, "judge_2": 2},
        ),
        ({"score": [ev.pairwise("Better?", versus="{{target}}")]}, {"judge": 4}),
        ({"score": [ev.faithfulness(contexts="contexts")]}, {"judge": 4}),
        ({"score": [ev.answer_relevance(structured=False)]}, {"judge": 4}),
        ({"score": [ev.context_relevance(contexts="contexts")]}, {"judge": 2}),
        ({"score": [ev.semantic(model="openai:a")]}, {"judge": 2}),
        # An answer may have the part that is scored.
        ({"score": [ev.judge("Good?")], "extract": {"after": "A:"}}, {"judge": 2}),
    ],
)
def test_judges_are_counted_with_their_second_requests(settings, most):
    assert counts(ONE, **settings) == most


def test_conversations_are_counted_after_their_first_turn():
    talk = ev.case(turns=["one", "two", "three"])
    judge = ev.judge("Good? {{transcript}}")
    assert counts(talk, score=[judge]) == {"": 2, "judge": 2}
    checked = ev.case(turns=["one", "two", "three"], checks=[{"contains": "x"}])
    assert counts(checked, checked, score=["checks"], repeats=2) == {"": 8}


def test_simulated_users_use_all_turns_and_write_each_message_twice():
    talk = ev.case(user="Get a refund.")
    user = {"model": "openai:user", "max_turns": 5}
    found = counts(talk, score=["goal_reached"], user=user)
    # The first of ten requests is known before anything is answered.
    assert found == {"user": 9, "": 5, "judge": 2}
