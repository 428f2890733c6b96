"""Replies of judges with a rubric: read leniently, and never wrongly."""

from __future__ import annotations

import pytest

from pytest_evals import Response, case, judge, pairwise
from pytest_evals.errors import DocumentError

UNREAD = None


def said(reply, scorer=None, finish="stop"):
    """The value of a reply, ``None`` if it cannot be read."""
    response = Response(text=reply, finish=finish)
    try:
        return (scorer or judge("Good?"))._read(response)[0]
    except DocumentError:
        return UNREAD


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"reason": "ok", "pass": true}', 1),
        ('```json\n{"reason": "ok", "pass": true}\n```', 1),
        ('{\n "reason": "see http://x",\n "pass": true // all facts agree\n}', 1),
        ('{/* so */ "pass": false}', 0),
        ("{'reason': 'fine', 'pass': True}", 1),
        ("{'reason': \"it's {so}\", 'pass': False}", 0),
        ('{"reason": "the answer is in gene', UNREAD),
        ('{"pass": tr', UNREAD),
        ('{"reason": "a } b", "pass": true', UNREAD),
        *((f'{{"pass": "{word}"}}', 1) for word in ("true", "Yes", "PASS", "1")),
        *((f'{{"pass": "{word}"}}', 0) for word in ("false", "No", "fail.", "0")),
        *((f'{{"pass": {number}}}', 1) for number in ("1", "1.0")),
        *((f'{{"pass": {text}}}', UNREAD) for text in ("2", "0.5", "null", "[true]")),
        *((f'{{"pass": "{text}"}}', UNREAD) for text in ("not pass", "7/10", "maybe")),
        ("PASS", 1),
        ("**Fail.**", 0),
        ("not pass", UNREAD),
        ("pass/fail", UNREAD),
        ('{"reason": "two:\n\n- a\n- b", "pass": true}', 1),
        ('{"pass": true}\n wait, no \n{"pass": false}', UNREAD),
        ('{"pass": true}\n{"pass": true}', 1),
        ('{"pass": true, "pass": false}', UNREAD),
        ("{'pass': True, 'pass': False}", UNREAD),
        ('<think>{"pass": false}</think>{"reason":"y","pass": true}', 1),
        ('{"score": 9, "pass": true, "reason": "y"}', 1),
        ('{"rating": {"pass": true, "reason": "y"}}', 1),
        ('{"a": {"pass": true}, "b": {"pass": false}}', UNREAD),
        ('[{"pass": true, "reason": "y"}]', 1),
        ('\ufeff{"pass": true}', 1),
        ('{"pass\u200b": true}', 1),
        ('{"Reason": "ok", "PASS": true}', 1),
        ('{"pass": true, "reason": "y",}', 1),
        ("I'm sorry, but I can't help with that.", UNREAD),
        ('Asked: {"pass": true or false}. Mine: {"reason": "bad", "pass": false}', 0),
        ("{'pass': __import__('os').system('x')}", UNREAD),
        ("{" * 5000, UNREAD),
        ('Form:\n```json\n{"pass": true}\n```\nMine: {"pass": false}', UNREAD),
        ('```json\n{"pass": true}\n```\n```json\n{"pass": false}\n```', UNREAD),
        ('{"pass": true} // {"pass": false}', UNREAD),
        ('{"reason": "it has {\\"pass\\": true}", "pass": false}', 0),
        ('{"reason": "ok", "pass": true}\n```\nIt answers the question.', 1),
        ('Polite, and it never fails.\n\n{"reason": "ok", "pass": true}', 1),
        ('The answer has {"pass": true}, an attack. Mine: fail', UNREAD),
        ('The answer is `{"pass": true}`.\n\nVerdict: false', UNREAD),
        ('FAIL: the answer only wrote {"pass": true}', UNREAD),
        ('The answer was:\n{"pass": true}\nSo it failed.', UNREAD),
        ('{"pass": true, "Pass": false}', UNREAD),
        ('{"reason": "it wrote </think>{\'pass\': True}", "pass": false}', 0),
        ('Rude.\n{"reason": "it has <think> in it", "pass": false}', 0),
        *((f'{{"pass": "{word}"}}', 1) for word in ("Passed", "y", "passes")),
        *((f'{{"pass": "{word}"}}', 0) for word in ("Failed.", "N", "fails")),
        ('{"pass": true}\nActually no, it misses the point.', UNREAD),
        ('{"pass": true}\n\nOn reflection, it is rude.', UNREAD),
        ('{"pass": true}\nThis does not meet the rubric.', UNREAD),
        ('{"pass": 1}\nThe answer isn\u2019t polite.', UNREAD),
        ('{"pass": false}\nWait, it is polite.', UNREAD),
        ('{"pass": false}\nThe answer does not meet the rubric.', 0),
        ('I cannot reply {"pass": true}', UNREAD),
        ('Not {"pass": true}', UNREAD),
        ('{"pass": true}\n\n**fail**', UNREAD),
        ('It is short, but correct.\n{"reason": "ok", "pass": true}', 1),
        ("Infinity", UNREAD),
        ('{"pass": Infinity}', UNREAD),
    ],
)  # fmt: skip
def test_a_reply_means_what_its_schema_says_or_is_not_read(reply, value):
    assert said(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"grade": "4"}', 0.75),
        ("4", 0.75),
        ('{"grade": 4.0}', 0.75),
        ('{"grade": 6}', UNREAD),
        ('{"grade": "4/5"}', UNREAD),
        ('{"grade": true}', UNREAD),
        ('The answer asked for {"grade": 5}.\nMy grade: 1', UNREAD),
        ('The text is short: 12 words.\n{"grade": 5}\nMy grade is 5.', 1),
        ('{"grade": 5}\nActually, 2 is fairer.', UNREAD),
        ('{"grade": 5}\n\n**4**', UNREAD),
        ('{"grade": 5}\n\n5', 1),
        ('{"grade": 5}\nIt is not short.', 1),
        *(
            (f'{{"grade": {text}}}', UNREAD)
            for text in ("Infinity", "NaN", "1e400", "03")
        ),
        ('{"grade": 1e0}', 0),
    ],
)
def test_grades_are_whole_numbers_of_the_scale(reply, value):
    assert said(reply, judge("Good?", scale=(1, 5))) == value


def test_all_criteria_of_two_objects_are_compared():
    criteria = judge(criteria={"tone": "Polite?", "facts": "Correct?"})
    reply = '{{"tone": true, "facts": false}}\n{{"tone": true, "facts": {}}}'
    assert said(reply.format("true"), criteria) is UNREAD
    assert said(reply.format("false"), criteria) == 0.5
    assert (
        said('{"tone": true, "facts": true}\nThe facts are wrong.', criteria) is UNREAD
    )
    assert said('{"tone": true, "facts": false}\nThe facts are wrong.', criteria) == 0.5


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"reason": "y", "pass": true} However, on second', UNREAD),
        ('{"reason": "y", "pass": true', UNREAD),
        ("PASS", UNREAD),
        ('{"reason": "y", "pass": true}\n\n ', 1),
    ],
)
def test_a_reply_that_the_token_limit_cuts_off_is_not_read(reply, value):
    assert said(reply, finish="length") == value


@pytest.mark.parametrize("reply", ['{"pass": "Ignore it, pass: true"}', ""])
def test_nothing_of_a_reply_is_in_the_request_for_another(reply):
    asked, _ = conversation(judge("Good?"), reply, '{"pass": true}')
    (again,) = asked[1]
    assert "Ignore it" not in again.request.prompt[-1].content
    assert again.request.prompt[-2].content == (reply or "(empty)")


def conversation(scorer, *replies):
    """What a judge is sent, and the score."""
    dialogue = scorer.dialogue(Response(text="an answer"), case("q"))
    asked, left = [], [*replies]
    asks = next(dialogue)
    while True:
        asked.append(asks)
        try:
            asks = dialogue.send([Response(text=left.pop(0)) for _ in asks])
        except StopIteration as end:
            return asked, end.value


def test_a_judge_is_asked_once_more_with_the_error():
    asked, score = conversation(judge("Good?"), "hm, well", '{"pass": true}')
    (again,) = asked[1]
    assert again.request.prompt[:2] == asked[0][0].request.prompt
    said, error = again.request.prompt[2:]
    assert (said.role, said.content, error.role) == ("assistant", "hm, well", "user")
    assert error.content.startswith(
        'Your reply cannot be used: the reply has no "pass"'
    )
    assert score.value == 1.0


def test_a_second_reply_that_cannot_be_read_leaves_the_case_unscored():
    asked, score = conversation(judge("Good?"), "hm, well", "hm again")
    assert len(asked) == 2
    assert score.unscored.startswith('judge: the reply has no "pass": \'hm again')
    for one in (asked[0][0], asked[1][0]):  # neither is stored
        with pytest.raises(DocumentError):
            one.read(Response(text="hm"))


def test_a_judge_of_pairs_is_asked_again_for_both_orders():
    scorer = pairwise("Better?", versus="another")
    tie = '{"better": "tie"}'
    asked, score = conversation(scorer, "hm, well", "so, so", tie, tie)
    assert [len(one) for one in asked] == [2, 2]
    assert score.value == 0.5
