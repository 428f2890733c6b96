"""Conversations in which a second model writes the user's messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pytest_evals as ev
from pytest_evals import Response, TaskFileError, evaluate
from pytest_evals.core.record import Status
from pytest_evals.dialects.native.conversations import FIRST, PROMPT
from pytest_evals.reports.details.examples import document_lines, prompt_of

EVAL = """\
system: Be brief.
user:
  goal: "{{wish}}"
  persona: In a hurry.
  model: MODEL
  max_turns: 4
rows:
  - id: refund
    wish: Get a refund for A-17.
    checks: [{contains: done}, {called: pay}]
  - {id: hours, wish: Learn the opening hours., checks: [{contains: nine}]}
score:
  - checks
gates: [checks >= 0.5]
"""


class User:
    """Says these texts in turn."""

    name = "user"
    fingerprint = {"user": 1}  # noqa: RUF012

    def __init__(self, *texts):
        self.texts, self.batches = texts, []

    def answer(self, requests):
        self.batches.append([*requests])
        for position, one in enumerate(requests):
            n = sum(m.role == "assistant" for m in one.prompt)
            yield position, self.said(n, one)

    def said(self, n, request):
        return Response(text=self.texts[min(n, len(self.texts) - 1)], cost=0.5)


class Shop:
    """Answers with the number of the user's messages; pays at the second."""

    name = "shop"
    fingerprint = {"shop": 1}  # noqa: RUF012

    def __init__(self):
        self.batches = []

    def answer(self, requests):
        self.batches.append([*requests])
        for position, one in enumerate(requests):
            n = sum(m.role == "user" for m in one.prompt)
            calls = [{"name": "pay", "arguments": {}}] if n == 2 else []
            yield position, Response(text=f"done {n}", calls=calls, n_tokens=n)


def run(user, shop=None, folder=None, score=("checks",), rows=None, judge="", **more):
    @ev.eval(score=list(score), user={"model": user, "max_turns": 3, **more})
    def talk():
        checks = [ev.contains("done"), ev.called("pay")]
        yield from rows or [ev.case(user="Get a refund.", id="a", checks=checks)]

    return evaluate(talk, shop or Shop(), folder=folder, judge=judge)


def record_of(*args, **kwargs):
    (record,) = run(*args, **kwargs).tasks[0].records
    return record


def test_the_user_writes_messages_until_it_stops():
    user, shop = User("Hello.", "A-17.", "Thanks! [done]"), Shop()
    seen = []

    def kept(response):
        seen.append(response)
        return True

    record = record_of(user, shop, score=["checks", kept])
    assert record.scores[0].value == 1
    (response,) = seen
    assert [(one["role"], one["content"]) for one in response.messages] == [
        ("user", "Hello."),
        ("assistant", "done 1"),
        ("user", "A-17."),
        ("assistant", "done 2"),
        ("user", "Thanks!"),  # text before the mark is sent
        ("assistant", "done 3"),
    ]
    assert response.metadata == {"stop_reason": "stop", "turns": 3}
    assert response.n_tokens == 6
    # The user sees its goal and the assistant's texts, and no tool calls.
    last = user.batches[-1][0].prompt
    assert "The user's goal: Get a refund." in last[0].content
    assert [(m.role, m.content) for m in last[1:]] == [
        ("user", FIRST),
        ("assistant", "Hello."),
        ("user", "done 1"),
        ("assistant", "A-17."),
        ("user", "done 2"),
    ]


@pytest.mark.parametrize(
    ("texts", "n", "reason"),
    [(("Hi.", "[done]"), 1, "stop"), (("Hi.",), 3, "max_turns")],
)
def test_a_mark_alone_is_not_sent_and_turns_are_limited(texts, n, reason):
    shop, seen = Shop(), []

    def kept(response):
        seen.append(response.metadata)
        return True

    record_of(User(*texts), shop, score=[kept])
    assert (len(shop.batches), seen) == (n, [{"stop_reason": reason, "turns": n}])


def test_a_prompt_is_the_first_message():
    user, shop = User("[done]"), Shop()
    rows = [ev.case("Hello from me.", user="Be greeted.", id="a")]
    record_of(user, shop, rows=rows, score=[ev.contains("done 1")])
    assert shop.batches[0][0].prompt[-1].content == "Hello from me."
    assert user.batches[0][0].prompt[2].content == "Hello from me."


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (("[done]",), "the simulated user stopped before its first message"),
        ((" ",), "user, turn 1: the simulated user wrote nothing"),
        (("Hi.", ""), "user, turn 2: the simulated user wrote nothing"),
    ],
)
def test_a_user_that_says_nothing_is_an_error_and_not_stored(texts, error, tmp_path):
    user = User(*texts)
    record = record_of(user, folder=tmp_path)
    assert (record.status, record.error) == (Status.ERRORED, error)
    again = User("Hi.", "[done]")
    assert record_of(again, folder=tmp_path).status is not Status.ERRORED or (
        texts == ("[done]",)
    )


def test_a_user_model_that_fails_is_an_error_of_the_case():
    class Broken(User):
        def said(self, n, request):
            return Response(error="down") if n == 1 else super().said(n, request)

    record = record_of(Broken("Hi."))
    assert record.error == "user, turn 2: down"
    assert record.scores == ()


def test_an_application_that_fails_names_the_turn():
    class Down(Shop):
        def answer(self, requests):
            return [(n, Response(error="down")) for n in range(len(requests))]

    assert record_of(User("Hi."), Down()).error == "turn 1: down"


def test_conversations_advance_together_and_nothing_is_sent_twice(tmp_path):
    class Named(User):
        def said(self, n, request):
            goal = request.prompt[0].content.split("goal: ")[1].split("\n")[0]
            return Response(text=self.texts[n].format(goal))

    user, shop = Named("I am {}.", "{}?", "[done]"), Shop()
    rows = [ev.case(user=goal, id=goal, checks=[]) for goal in ("one", "two", "three")]
    score = [ev.contains("done 2")]
    run(user, shop, tmp_path, score, rows)
    assert [len(one) for one in user.batches] == [3, 3, 3]
    assert [len(one) for one in shop.batches] == [3, 3]
    again = Named("Hi."), Shop()
    result = run(*again, tmp_path, score, rows)
    assert [one.batches for one in again] == [[], []]
    assert result.tasks[0].records[0].scores[0].value == 1


def test_repeats_and_seeds_give_conversations_of_their_own():
    user = User("Hi.", "[done]")

    @ev.eval(
        score=[ev.contains("done")],
        repeats=2,
        user={"model": user, "seed": 5, "temperature": 0.7},
    )
    def talk():
        yield ev.case(user="Be greeted.", id="a")

    evaluate(talk, Shop())
    first = user.batches[0]
    assert [one.repeat for one in first] == [0, 1]
    assert {(one.temperature, one.options) for one in first} == {(0.7, (("seed", 5),))}


def test_a_judge_sees_whether_the_goal_is_reached():
    seen = []

    class Judge:
        name = "judge"

        def answer(self, requests):
            seen.extend(one.prompt[-1].content for one in requests)
            reply = json.dumps({"reason": "paid", "pass": True})
            return [(n, Response(text=reply)) for n in range(len(requests))]

    user = User("Hello.", "A-17.", "[done]")
    rows = [ev.case(user="Get a refund.", id="a")]
    record = record_of(user, score=["goal_reached"], judge=Judge(), rows=rows)
    assert (record.scores[0].value, record.scores[0].explanation) == (1, "paid")
    (text,) = seen
    assert "user: Get a refund." not in text  # nobody has written it
    rubric = text.partition("<rubric")[2]
    assert "Goal: Get a refund." in rubric
    assert "user: A-17." in rubric and "assistant: done 2" in rubric
    assert "pay({})" in rubric


def write(folder: Path, text: str = EVAL):
    lines = [{"regex": "hurry", "text": "Please."}]
    user = folder / "user.jsonl"
    user.write_text("\n".join(map(json.dumps, lines)))
    path = folder / "talk.yaml"
    path.write_text(text.replace("MODEL", f"'scripted:{user}'"))
    return path


def test_it_is_written_in_yaml(tmp_path):
    result = evaluate(write(tmp_path), Shop())
    refund, hours = result.tasks[0].records
    assert refund.scores[0].value == 1
    assert hours.scores[0].value == 0
    assert refund.doc.query == "Get a refund for A-17."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("max_turns: 4", "max_turns: 0", "max_turns is 0, not 1 to 100"),
        ("max_turns: 4", "max_turn: 4", "unknown key 'max_turn'; did you mean"),
        ("  model: MODEL\n", "", "user: model is missing"),
        ("wish}}", "hope}}", "'hope'"),
        ("In a hurry.", "'{% if %}'", "user: persona: Expected an expression"),
        ("  - checks\n", "  - goal_reached: '{{wish'\n", "goal_reached: goal: "),
        ("user:\n", "user: me\nx:\n", "user is 'me', not a mapping"),
        ("  max_turns: 4", "  stop: 1", "stop is 1, not text"),
        ("wish: Learn", "turns: [Hi], wish: Learn", "both turns and a simulated user"),
    ],
)
def test_mistakes_are_found_before_the_run(tmp_path, old, new, why):
    with pytest.raises(TaskFileError) as error:
        evaluate(write(tmp_path, EVAL.replace(old, new)), Shop())
    assert why in str(error.value)
    assert "talk.yaml:" in str(error.value)


def test_a_case_with_a_user_needs_an_eval_with_a_model():
    @ev.eval(score=[ev.contains("done")])
    def talk():
        yield ev.case(user="Be greeted.", id="a")

    (record,) = evaluate(talk, Shop()).tasks[0].records
    assert "the eval names no model for it" in record.error


def test_the_documentation_has_the_prompt():
    page = Path(__file__).parents[3] / "docs" / "simulated_users.md"
    lines = [one.removeprefix(">") for one in page.read_text("utf-8").split("\n")]
    assert " ".join(PROMPT.split()) in " ".join(" ".join(lines).split())


def test_the_prompt_of_a_report_is_that_of_the_application():
    record = record_of(User("Hi.", "[done]"), score=["checks"])
    assert prompt_of(record) == "user: Hi."


@pytest.mark.parametrize(
    ("texts", "prompt", "reason"),
    [
        (("One.", "[done]"), (), "stop after 1 turn"),
        (("One.", "Bye. [done]"), (), "stop after 2 turns"),
        (("One.", "Two.", "Three.", "Four."), (), "max_turns after 3 turns"),
        (("Two.", "Three."), "One.", "max_turns after 3 turns"),
    ],
)
def test_transcript_and_stop_reason_are_in_reports(tmp_path, texts, prompt, reason):
    checks = [ev.contains("nothing")]
    rows = [ev.case(prompt, user="Get a refund.", id="a", checks=checks)]
    result = run(User(*texts), rows=rows, folder=tmp_path)
    word, _, n = reason.removesuffix("s").removesuffix(" turn").partition(" after ")
    (path,) = tmp_path.glob("runs/*/samples_*.jsonl")
    sample = json.loads(path.read_text())
    assert sample["metadata"] == [{"stop_reason": word, "turns": int(n)}]
    (messages,) = sample["messages"]
    assert messages[-1]["content"] == f"done {n}"
    assert messages[0] == {"role": "user", "content": "One."}
    (record,) = result.tasks[0].records
    lines = document_lines(record)
    assert f"  stopped {reason}" in lines
    assert "  turns   user: One." in "\n".join(lines)


def test_a_failed_conversation_has_its_transcript(tmp_path):
    class Broken(Shop):
        def answer(self, requests):
            for position, found in super().answer(requests):
                is_last = found.text == "done 2"
                yield position, Response(error="lost") if is_last else found

    result = run(User("One.", "Two."), Broken(), folder=tmp_path)
    (path,) = tmp_path.glob("runs/*/samples_*.jsonl")
    sample = json.loads(path.read_text())
    assert sample["metadata"] == [{"stop_reason": "error", "turns": 1}]
    said = [one["content"] for one in sample["messages"][0]]
    assert said == ["One.", "done 1", "Two."]
    assert "user: Two." in "\n".join(document_lines(result.tasks[0].records[0]))


@pytest.mark.parametrize(
    ("n", "shown"),
    [(0, "prompt  Get a refund."), (1, "turns   user: One.⏎assistant: done 1")],
)
def test_a_user_that_fails_leaves_the_conversation_so_far(n, shown):
    class Failing(User):
        def said(self, number, request):
            return Response(error="lost") if number == n else Response(text="One.")

    lines = document_lines(record_of(Failing()))
    assert lines[:2] == [f"user, turn {n + 1}: lost", f"  {shown}"]


def test_a_frame_has_the_last_answer_and_all_that_was_returned():
    def shop(messages):
        n = len(messages)
        call = {"name": "find", "arguments": {"n": n}}
        return {"text": f"answer {n}", "calls": [call], "contexts": ["30 days"]}

    @ev.eval(
        score=[ev.contains("answer")],
        user={"model": lambda messages: f"message {len(messages)}", "max_turns": 2},
    )
    def simulated():
        yield ev.case(user="Get a refund.", id="a")

    @ev.eval(score=[ev.contains("answer")])
    def fixed():
        yield ev.case(turns=["one", "two"], id="a")
        yield ev.case("three", id="b")

    (row,) = evaluate(simulated, shop).to_pandas("documents").to_dict("records")
    assert row["prompt"] == [{"role": "user", "content": "message 2"}]
    assert row["response"] == "answer 3"
    assert row["metadata"] == {"stop_reason": "max_turns", "turns": 2}
    talk, single = evaluate(fixed, shop).to_pandas("documents").to_dict("records")
    for one in (row, talk):
        assert [call["arguments"]["n"] for call in one["calls"]] == [1, 3]
        assert len(one["messages"]) == 4
    assert talk["response"] == "answer 3"
    assert single["contexts"] == ({"text": "30 days"},)
