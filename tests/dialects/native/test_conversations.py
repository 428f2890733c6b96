"""Conversations with fixed turns of the user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pytest_evals as ev
from pytest_evals import RunResult, TaskFileError, evaluate

EVAL = """\
system: Be brief.
rows:
  - id: order
    turns:
      - {user: My order is A-17., checks: [{contains: A-17}]}
      - user: Where is it?
        checks: [{contains: "2"}, {called: {find: {n: 2}}}]
      - {user: Refund it., checks: [{not_called: refund}, exact], target: "5 messages"}
  - {id: hello, turns: [Hi, {user: Bye, checks: {contains: nothing}}]}
score: checks
gates: [checks >= 0.5]
"""


class Chat:
    """Answers with the number of messages so far; keeps what each batch asks."""

    name = "chat"
    fingerprint = {"chat": 1}  # noqa: RUF012

    def __init__(self) -> None:
        self.batches: list[list[tuple]] = []

    def answer(self, requests):
        self.batches.append([one.prompt for one in requests])
        for position, one in enumerate(requests):
            user = [m.content for m in one.prompt if m.role == "user"]
            n = len(user)
            text = f"Order A-17: {n}" if n < 3 else f"{len(one.prompt) - 1} messages"
            calls = [{"name": "find", "arguments": {"n": n}}]
            yield (
                position,
                ev.Response(
                    text=text,
                    calls=calls,
                    n_tokens=n,
                    cost=0.5,
                    usage={"requests": n, "of": "x"},
                ),
            )


def run(folder: Path, text: str, model) -> RunResult:
    (folder / "chat.yaml").write_text(text, "utf-8")
    return evaluate(folder / "chat.yaml", model, folder=folder / ".evals")


def test_a_model_answers_each_turn_with_the_whole_history(tmp_path):
    model = Chat()
    (task,) = run(tmp_path, EVAL, model).tasks
    order, hello = task.records
    assert [(one.value, one.correct) for one in order.scores] == [(1.0, True)]
    assert hello.scores[0].value == 0.0
    assert hello.scores[0].explanation == "turn 2: contains: does not contain 'nothing'"
    # All open conversations advance together.
    assert [len(batch) for batch in model.batches] == [2, 2, 1]
    assert [(m.role, m.content) for m in model.batches[2][0]] == [
        ("system", "Be brief."),
        ("user", "My order is A-17."),
        ("assistant", "Order A-17: 1"),
        ("user", "Where is it?"),
        ("assistant", "Order A-17: 2"),
        ("user", "Refund it."),
    ]


def test_no_turn_is_asked_twice(tmp_path):
    run(tmp_path, EVAL, Chat())
    again = Chat()
    longer = EVAL.replace("Bye,", "Bye too,")
    run(tmp_path, longer, again)
    assert [m[-1].content for batch in again.batches for m in batch] == ["Bye too"]


def test_a_turn_without_an_answer_is_an_error_that_names_it(tmp_path):
    class Broken(Chat):
        def answer(self, requests):
            for n, response in Chat.answer(self, requests):
                is_second = len(requests[n].prompt) > 3
                yield n, ev.Response(error="down") if is_second else response

    (task,) = run(tmp_path, EVAL, Broken()).tasks
    assert [one.error for one in task.records] == ["turn 2: down", "turn 2: down"]


def test_conversations_in_python_are_scored_as_a_whole_too():
    @ev.eval(score=[ev.max_calls(2), ev.contains("2")], repeats=2)
    def chat():
        yield ev.case(turns=["one", "two"], id="a")

    @chat.score
    def transcript(response, case):
        assert [one["role"] for one in response.messages] == [
            "user", "assistant", "user", "assistant",
        ]  # fmt: skip
        assert (response.n_tokens, response.cost) == (3, 1.0)
        assert response.usage == {"requests": 3}
        return len(case.turns) == 2

    (task,) = evaluate(chat, Chat()).tasks
    assert [one.value for one in task.records[0].scores] == [1.0, 1.0, 1.0]


BEFORE = (
    'user: one\nassistant: Order A-17: 1\nassistant calls find({"n": 1})\nuser: two\n'
)
"""The conversation before its last answer."""


@pytest.mark.parametrize(
    ("rubric", "tag", "parts"),
    [
        ("Polite?", "prompt", ["prompt", "answer", "rubric"]),
        ("Polite? {{transcript}}", "rubric", ["answer", "rubric"]),
    ],
)
def test_judges_see_the_conversation_once(judge, rubric, tag, parts):
    @ev.eval(score=[ev.judge(rubric)])
    def chat():
        yield ev.case(turns=["one", "two"], id="a")

    evaluate(chat, Chat(), judge=judge)
    (message,) = judge.seen
    assert re.findall(r"^<([a-z]+)-", message, re.M) == parts
    assert BEFORE in message.partition(f"<{tag}-")[2].partition(f"</{tag}-")[0]
    assert message.count("user: one") == 1
    answer = message.partition("<answer-")[2].partition("</answer-")[0]
    assert answer.partition(">")[2] == "\nOrder A-17: 2\n"


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ("hello", "turns is a str"),
        ("[{use: a}]", "turn 1: unknown key 'use'; did you mean 'user'"),
        ("[{checks: a}]", "turn 1 has no text of the user"),
        ("[]", "the row has no turns"),
        ("[{user: a, checks: [{contain: a}]}]", "unknown scorer 'contain'"),
    ],
)
def test_faults_of_turns_are_found_before_the_run(tmp_path, turns, message):
    with pytest.raises(TaskFileError, match=message):
        run(tmp_path, f"rows: [{{id: a, turns: {turns}}}]\nscore: checks\n", Chat())


def test_checks_of_turns_need_their_scorer_and_a_prompt_leaves_turns_a_column(tmp_path):
    with pytest.raises(TaskFileError, match="rows have checks, and score does not"):
        run(tmp_path, EVAL.replace("score: checks", "score: {max_calls: 1}")
            .replace("gates: [checks >= 0.5]", ""), Chat())  # fmt: skip
    text = 'prompt: "{{turns[0]}}"\nrows: [{id: a, turns: [one, two], target: x}]\n'
    (task,) = run(tmp_path, text, lambda prompt: prompt).tasks
    assert task.records[0].scores[0].answer == "one"


def test_a_target_may_be_any_value_that_a_custom_scorer_reads():
    @ev.eval()
    def bot():
        yield ev.case("q", id="a", target={"a": {1}})

    @bot.score
    def has_one(case):
        return 1 in case.target["a"]

    (task,) = evaluate(bot, lambda prompt: "x").tasks
    assert task.records[0].scores[0].value == 1.0


def test_an_interrupted_conversation_continues_with_its_next_turn(tmp_path):
    class Interrupted(Chat):
        def answer(self, requests):
            for n, found in enumerate(super().answer(requests)):
                yield found
                if len(self.batches) == 2 and n == 0:
                    raise KeyboardInterrupt

    first, again = Interrupted(), Chat()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, EVAL, first)
    run(tmp_path, EVAL, again)
    assert [len(batch) for batch in first.batches] == [2, 2]
    assert [[m[-1].content for m in batch] for batch in again.batches] == [
        ["Bye"],
        ["Refund it."],
    ]


ROWS = """\
{"id": "a", "order": "A-17", "asked": ["My order is A-17.", {"user": "Bye."}]}
{"id": "b", "order": "B-2", "asked": ["My order is B-2.", "Bye."]}
"""


@pytest.mark.parametrize(
    "turns",
    [
        '"{{asked}}"',
        "asked",
        '["My order is {{order}}.", {user: "Bye.", checks: {contains: "Bye"}}]',
    ],
)
def test_rows_of_a_dataset_have_turns(tmp_path, turns):
    (tmp_path / "rows.jsonl").write_text(ROWS, "utf-8")
    model = Chat()
    score = '{contains: "A-17"}' if "checks" not in turns else "checks"
    text = f"turns: {turns}\ndataset: rows.jsonl\nscore: [{score}]\n"
    run(tmp_path, text, model)
    said = [[m[-1].content for m in batch] for batch in model.batches]
    assert said == [["My order is A-17.", "My order is B-2."], ["Bye.", "Bye."]]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("turns: '{{askd}}'", ":1: turns uses 'askd', which is not a column"),
        ("turns: ['{{order}}', '{{ordr}}']", ":1: turns uses 'ordr'"),
        ("turns: '{{order}}'", ":1: turns is a str"),
        ("turns: [{usr: Hi}]", "turn 1: unknown key 'usr'; did you mean 'user'?"),
        ("turns: asked\nprompt: Hi", ":1: turns and prompt are both set"),
    ],
)
def test_mistakes_in_turns_of_a_dataset_have_their_line(tmp_path, keys, message):
    (tmp_path / "rows.jsonl").write_text(ROWS, "utf-8")
    with pytest.raises(TaskFileError) as error:
        run(tmp_path, f"{keys}\ndataset: rows.jsonl\nscore: checks\n", Chat())
    assert message in str(error.value)
    assert str(error.value).count("chat.yaml:") == 1
