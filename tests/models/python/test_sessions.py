"""Applications with a session for each conversation."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections import Counter

import pytest

import pytest_evals as ev
from pytest_evals import OptionError, Response, evaluate
from pytest_evals.models.registry import check_ready, parse_spec

LOG: list[tuple] = []


class Shop:
    """Remembers the user's messages; the last one of a turn is its argument."""

    version = "1"

    def __enter__(self):
        self.heard = []
        LOG.append(("open", id(self)))
        return self

    def respond(self, messages):
        text = messages[-1]["content"]
        self.heard.append(text)
        LOG.append(("turn", id(self), text))
        if text == "fail":
            raise ValueError("out of stock")
        return f"{len(self.heard)}: {' '.join(self.heard)}"

    def __exit__(self, kind, error, trace):
        LOG.append(("close", id(self), kind and kind.__name__))


class Restored(Shop):
    version = "2"

    def restore(self, messages):
        self.heard = [one["content"] for one in messages if one["role"] == "user"]


class AsyncShop:
    version = "3"

    async def __aenter__(self):
        self.n = 0
        LOG.append(("open", id(self)))
        return self

    async def respond(self, messages):
        await asyncio.sleep(0)
        self.n += 1
        return f"{self.n}"

    async def __aexit__(self, *error):
        LOG.append(("close", id(self), None))


@pytest.fixture(autouse=True)
def _empty():
    LOG.clear()


def talk(*turns, **settings):
    @ev.eval(score=[ev.max_calls(0)], **settings)
    def bot():
        for n, one in enumerate(turns):
            yield ev.case(turns=one, id=f"case{n}")

    return bot


def said(result):
    return [
        [one.response.text for one in record.exchanges if not one.model]
        for record in result.tasks[0].records
    ]


def kinds(name):
    return [one for one in LOG if one[0] == name]


def test_a_session_lasts_for_one_case_and_is_closed_after_it():
    result = evaluate(talk(["a", "b"], ["c", "d", "e"]), Shop)
    assert [one.error for one in result.tasks[0].records] == ["", ""]
    assert len(kinds("open")) == len(kinds("close")) == 2
    heard = {}
    for _, session, text in kinds("turn"):
        heard.setdefault(session, []).append(text)
    assert sorted(heard.values()) == [["a", "b"], ["c", "d", "e"]]


def test_an_error_closes_the_session_with_the_error():
    result = evaluate(talk(["a", "fail", "b"]), Shop)
    (record,) = result.tasks[0].records
    assert "turn 2: " in record.error and "out of stock" in record.error
    assert [one[2] for one in kinds("close")] == ["ValueError"]
    assert [one[2] for one in kinds("turn")] == ["a", "fail"]


@pytest.mark.parametrize("version", ["1", ""])
def test_cases_that_begin_equally_have_sessions_of_their_own(version, tmp_path):
    class Varying(Shop):
        """No two answers are equal, and earlier turns cannot be restored."""

        def respond(self, messages):
            return f"{super().respond(messages)}, {len(LOG)}"

    Varying.version = version
    turns = [["a", "b"], ["a", "c"], ["a", "b"]]
    result = evaluate(talk(*turns), Varying, folder=tmp_path)
    assert [one.error for one in result.tasks[0].records] == ["", "", ""]
    heard = {}
    for _, session, text in kinds("turn"):
        heard.setdefault(session, []).append(text)
    assert sorted(heard.values()) == sorted(turns)
    assert len(kinds("close")) == 3
    answers = [text for one in said(result) for text in one]
    assert len({*answers}) == len(answers) == 6


def test_conversations_of_a_deterministic_model_share_what_is_equal():
    class Counting:
        name = "counting"
        is_deterministic = True

        def answer(self, requests):
            for n, one in enumerate(requests):
                LOG.append(("turn", one.prompt[-1].content))
                yield n, Response(text="ok")

    evaluate(talk(["a", "b"], ["a", "c"], ["a", "b"]), Counting())
    assert Counter(kinds("turn")) == Counter([("turn", one) for one in "abc"])


def test_stored_turns_are_sent_again_to_a_new_session_or_restored(tmp_path):
    evaluate(talk(["a", "b"]), Shop, folder=tmp_path)
    LOG.clear()
    evaluate(talk(["a", "b"]), Shop, folder=tmp_path)
    assert LOG == []  # everything is stored
    result = evaluate(talk(["a", "b", "c"]), Shop, folder=tmp_path)
    assert [one[2] for one in kinds("turn")] == ["a", "b", "c"]
    assert result.tasks[0].records[0].error == ""
    evaluate(talk(["a", "b"]), Restored, folder=tmp_path)
    LOG.clear()
    evaluate(talk(["a", "b", "c"]), Restored, folder=tmp_path)
    assert [one[2] for one in kinds("turn")] == ["c"]
    assert len(kinds("close")) == 1


@pytest.mark.slow
def test_the_latency_of_a_turn_is_without_earlier_ones(tmp_path):
    class Slow(Shop):
        version = "4"

        def respond(self, messages):
            time.sleep(0.2)
            return super().respond(messages)

    evaluate(talk(["a", "b", "c"]), Slow, folder=tmp_path)
    result = evaluate(talk(["a", "b", "c", "d"]), Slow, folder=tmp_path)
    last = result.tasks[0].records[0].exchanges[-1].response
    assert last.text == "4: a b c d"
    assert 0.2 <= last.latency_s < 0.5


def test_async_sessions_and_single_prompts():
    result = evaluate(talk(["a", "b"]), AsyncShop)
    assert [one.error for one in result.tasks[0].records] == [""]
    rows = [{"prompt": "x", "target": "1"}, {"prompt": "y", "target": "1"}]
    result = evaluate(rows, AsyncShop, score="exact")
    assert [one.scores[0].value for one in result.tasks[0].records] == [1, 1]
    assert len(kinds("open")) == len(kinds("close")) == 3


def test_repeats_have_sessions_of_their_own():
    evaluate(talk(["a", "b"], repeats=3), Shop)
    assert len(kinds("open")) == len(kinds("close")) == 3


def test_open_sessions_are_closed_when_the_run_is_interrupted():
    class Judge:
        name = "judge"

        def answer(self, requests):
            raise KeyboardInterrupt

    @ev.eval(score=[ev.judge("Good?")])
    def bot():
        yield ev.case(turns=["a", "b"], id="one")

    with pytest.raises(KeyboardInterrupt):
        evaluate(bot, Shop, judge=Judge())
    assert len(kinds("open")) == len(kinds("close")) == 1


def test_specs_name_classes_of_sessions(tmp_path, monkeypatch):
    text = """
    class Agent:
        def respond(self, prompt):
            return "hi"

    class NoAgent:
        pass

    class Odd:
        def respond(self):
            return "hi"
    """
    (tmp_path / "session_app.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    check_ready(parse_spec("python:session_app:Agent"))
    rows = [{"prompt": "x", "target": "hi"}]
    result = evaluate(rows, "python:session_app:Agent", score="exact")
    assert result.tasks[0].records[0].scores[0].value == 1
    for name, why in (("NoAgent", "without a method respond"), ("Odd", "no parameter")):
        with pytest.raises(OptionError, match=why):
            check_ready(parse_spec(f"python:session_app:{name}"))
