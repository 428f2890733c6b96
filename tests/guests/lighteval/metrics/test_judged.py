"""Prompts of judges, and conversion of their replies to values."""

import math
import re
from random import Random

import pytest

from pytest_evals.core.dialogue import Ask, Exchange, replayed
from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Generate, Response
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.catalogue import CATALOGUE
from pytest_evals.guests.lighteval.metrics.judges import (
    CorpusLevelHLE,
    JudgeLLM,
    JudgeLLMMixEval,
    JudgeLLMMTBench,
    calibration_error,
    hle_verdict,
    tagged_score,
)
from pytest_evals.scorers.custom_metrics.judged import (
    JudgeLM,
    ReplyQueue,
    dict_of_lists_to_list_of_dicts,
)
from pytest_evals.scorers.custom_metrics.metric import (
    SampleLevelMetric,
    SampleLevelMetricGrouping,
    SamplingMethod,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse
from pytest_evals.scorers.custom_metrics.task_metric import (
    JudgedMetric,
    TaskMetric,
    judge_dialogue,
    judge_dialogues,
    judge_models,
)

DOC = Doc("Who wrote Emma?", ["Jane Austen"], 0)
ANSWER = ModelResponse(text=["Austen did."])


def number(reply):
    """The number in double brackets."""
    found = re.fullmatch(r"\[\[(\d\.\d)\]\]", reply)
    return float(found[1]) if found else None


def template(question, options, answer, gold, **more):
    return [{"role": "user", "content": f"{question}|{answer}|{gold}"}]


def of(judge, *names):
    kind = SamplingMethod.GENERATIVE
    mean = max
    if len(names) == 1:
        return TaskMetric(SampleLevelMetric(names[0], True, kind, judge, mean))
    grouping = SampleLevelMetricGrouping(
        list(names), dict.fromkeys(names, True), kind, judge, dict.fromkeys(names, mean)
    )
    return TaskMetric(grouping)


def scored(metric, doc, response, *replies):
    """The metric's values after the judge's replies; and all of its requests."""
    exchanges, left, responses = [], list(replies), None
    dialogue = judge_dialogue(JudgedMetric(metric, doc, response))
    while True:
        try:
            asks = dialogue.send(responses)
        except StopIteration as end:
            assert not left, "replies were left over"
            again = replayed(
                judge_dialogue(JudgedMetric(metric, doc, response)), exchanges
            )
            assert again == end.value
            return metric.measure(doc, end.value), [one.request for one in exchanges]
        responses = [Response(text=left.pop(0)) for _ in asks]
        exchanges += [
            Exchange(*one, response)
            for one, response in zip(asks, responses, strict=True)
        ]


def simpleqa():
    return TaskMetric(CATALOGUE["simpleqa_judge"]())


def test_a_judge_gets_one_request_per_answer_with_question_and_gold():
    measured, (request,) = scored(simpleqa(), DOC, ANSWER, "A")
    assert isinstance(request, Generate) and request.temperature == 0
    (message,) = request.prompt
    assert message.role == "user"
    for text in ("Who wrote Emma?", "Jane Austen", "Austen did."):
        assert text in message.content
    assert [(m.metric, m.value, m.explanation) for m in measured] == [
        ("simpleqa_judge", 1.0, "A")
    ]


@pytest.mark.parametrize(
    ("reply", "score"), [("A", 1), (" a\n", 1), ("A.", 1), ("B", 0), ("C", 0)]
)
def test_letter_of_a_reply_is_its_score(reply, score):
    ((measured,), _) = scored(simpleqa(), DOC, ANSWER, reply)
    assert measured.value == score


def test_a_reply_without_score_is_not_a_score_of_zero():
    ((measured,), _) = scored(simpleqa(), DOC, ANSWER, "rate limit exceeded")
    assert measured.value is None
    assert measured.unscored == (
        "the judge's reply has no score: 'rate limit exceeded'"
    )


def test_a_judge_that_fails_is_an_error_of_the_document():
    dialogue = judge_dialogue(JudgedMetric(simpleqa(), DOC, ANSWER))
    next(dialogue)
    with pytest.raises(DocumentError, match="HTTP 500"):
        dialogue.send([Response(error="HTTP 500")])


def test_unjudged_document_has_no_value():
    with pytest.raises(DocumentError, match="can only be called during a run"):
        CATALOGUE["simpleqa_judge"]().compute_sample(DOC, ANSWER)


def test_mixeval_asks_with_the_question_of_the_row():
    judge = JudgeLLMMixEval("flow", template, number, short_judge_name="gpt")
    doc = Doc("Q: who?", ["x"], 0, specific={"question": "who?"})
    metric = of(judge, "judge_score_gpt")
    ((measured,), (request,)) = scored(metric, doc, ANSWER, "[[0.5]]")
    assert request.prompt[0].content == "who?|Austen did.|x"
    assert (measured.metric, measured.value) == ("judge_score_gpt", 0.5)
    with pytest.raises(DocumentError, match=r'specific\["question"\] must be'):
        scored(metric, DOC, ANSWER)


def test_judge_requests_of_several_metrics_are_sent_in_one_round():
    one = of(JudgeLLM("openai:big", template, number), "one")
    two = of(JudgeLLM("gpt-4o", template, number), "two")
    assert judge_models([one, two]) == {"openai:big": "openai:big", "judge": ""}
    parts = [JudgedMetric(metric, DOC, ANSWER) for metric in (one, two)]
    dialogue = judge_dialogues(parts)
    assert [ask.model for ask in next(dialogue)] == ["openai:big", "judge"]
    with pytest.raises(StopIteration) as end:
        dialogue.send([Response(text="[[0.1]]"), Response(text="[[0.2]]")])
    heard = [response.judge_replies for response in end.value.value]
    assert heard == [{"one": ("[[0.1]]",)}, {"two": ("[[0.2]]",)}]


def test_a_judge_whose_prompt_is_drawn_at_random_is_matched_by_order():
    """lighteval sends all judge requests at once, so a template may shuffle its
    parts."""
    random = Random(1)

    def shuffled(question, options, answer, gold, **more):
        return [{"role": "user", "content": f"{random.random()}"}]

    part = JudgedMetric(of(JudgeLLM("j", shuffled, number), "one"), DOC, ANSWER)
    (ask,) = next(judge_dialogue(part))
    exchange = Exchange(*ask, Response(text="[[0.5]]"))
    heard = replayed(judge_dialogue(part), [exchange], by_order=True)
    assert heard.judge_replies == {"one": ("[[0.5]]",)}


def test_a_metric_of_the_users_own_may_ask_again_after_a_reply():
    """A class as task modules of lighteval write it, with documents in batches."""

    class Twice(JudgeLLM):
        def compute(self, responses, docs, **kwargs):
            found = []
            for response, doc in zip(responses, docs, strict=True):
                score, prompt, reply = self.judge.evaluate_answer(
                    question=doc.query, answer=response.final_text[0]
                )
                if score == 0.5:
                    score, _, _ = self.judge.evaluate_answer("sure?", reply)
                found.append({"twice": score, "prompt": prompt, "reply": reply})
            return found

    metric = of(Twice("j", template, number), "twice", "other")
    (measured, requests) = scored(metric, DOC, ANSWER, "[[0.5]]", "[[0.9]]")
    assert [(one.metric, one.value) for one in measured] == [("twice", 0.9)]
    assert requests[1].prompt[0].content == "sure?|[[0.5]]|None"
    (measured, requests) = scored(metric, DOC, ModelResponse(text=["x"]), "[[0.1]]")
    assert measured[0].value == 0.1 and len(requests) == 1


def test_mt_bench_grades_each_turn_with_the_earlier_turns():
    specific = {"multi_turn_queries": ["Q one", "Q two"], "reference": ["R one"]}
    doc = Doc("Q one", [], 0, specific=specific)
    names = ("judge_score_turn_1", "judge_score_turn_2")
    metric = of(JudgeLLMMTBench(), *names)
    answers = ModelResponse(text=["A one", "A two"])
    replies = ("<score> 7 </score>", "fine <score>3</score>")
    measured, (first, second) = scored(metric, doc, answers, *replies)
    assert [(one.metric, one.value) for one in measured] == [
        (names[0], 7),
        (names[1], 3),
    ]
    assert "R one" in first.prompt[0].content
    assert "User: Q one\nAssistant: A one" in second.prompt[0].content
    with pytest.raises(DocumentError, match="one answer for each of 2 turns, got 1"):
        scored(metric, doc, ModelResponse(text=["A one"]))


def test_extra_arguments_of_a_batch_are_handed_out_one_each():
    def with_hint(question, options, answer, gold, hint):
        return [{"role": "user", "content": f"{question} {hint}"}]

    judge = JudgeLM("j", with_hint, tagged_score)
    with (
        pytest.raises(BaseException, match="judge called outside of a run") as caught,
        judge.answering_from(ReplyQueue(())),
    ):
        judge.evaluate_answer_batch(["a", "b"], ["", ""], hint=["1", "2"])
    prompts = [q.request.prompt[0].content for q in caught.value.questions]
    assert prompts == ["a 1", "b 2"]


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("correct: yes\nconfidence: 80%", (1, 80)),
        ('{"correct": "no", "confidence": 3}', (0, 3)),
        ("**correct**: No", (0, 100)),
        ("it is right", None),
    ],
)
def test_verdicts_of_the_last_exam(reply, verdict):
    assert hle_verdict(reply) == verdict


def test_numbers_of_the_last_exam():
    """Compared with the formulas of its paper, implemented again here."""
    random = Random(7)
    items = [(int(random.random() < 0.4), random.randrange(101)) for _ in range(250)]
    share = sum(right for right, _ in items) / 250
    assert CorpusLevelHLE("accuracy").compute_corpus(items) == round(100 * share, 2)
    half = 100 * 1.96 * math.sqrt(share * (1 - share) / 250)
    found = CorpusLevelHLE("confidence_half_width").compute_corpus(items)
    assert found == pytest.approx(half, abs=0.005)
    ordered = sorted((sure / 100, right) for right, sure in items)
    error = 0.0
    for part in (ordered[:100], ordered[100:]):
        sure = sum(one for one, _ in part) / len(part)
        right = sum(one for _, one in part) / len(part)
        error += len(part) / 250 * (sure - right) ** 2
    expected = math.sqrt(error)
    given = [sure / 100 for _, sure in items], [right for right, _ in items]
    assert calibration_error(*given) == pytest.approx(expected)
    assert calibration_error([0.9], [1]) == pytest.approx(0.1)


def test_mapping_of_lists_becomes_a_list_of_mappings():
    """The example of lighteval's documentation."""
    found = dict_of_lists_to_list_of_dicts({"k": [1, 2, 3], "k2": ["a", "b", "c"]})
    assert found == [{"k": 1, "k2": "a"}, {"k": 2, "k2": "b"}, {"k": 3, "k2": "c"}]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        dict_of_lists_to_list_of_dicts({"a": [1, 2], "b": [1]})


def test_follow_ups_are_the_same_each_time():
    part = JudgedMetric(simpleqa(), DOC, ANSWER)
    asks = next(judge_dialogue(part))
    assert asks == next(judge_dialogue(part))
    assert all(isinstance(one, Ask) for one in asks)
