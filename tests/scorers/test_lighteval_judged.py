"""What a judge is asked, and how its replies are read."""

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Generate
from pytest_evals.errors import DocumentError
from pytest_evals.scorers.lighteval.judged import (
    JudgeLLMMixEval,
    JudgeLLMSimpleQA,
    bracketed_number,
    dict_of_lists_to_list_of_dicts,
)
from pytest_evals.scorers.lighteval.response import ModelResponse

DOC = Doc("Who wrote Emma?", ["Jane Austen"], 0)
ANSWER = ModelResponse(text=["Austen did."])


def test_judge_is_asked_once_for_each_answer_with_question_and_gold():
    (request,) = JudgeLLMSimpleQA().requests(DOC, ANSWER)
    assert isinstance(request, Generate)
    assert request.temperature == 0
    (message,) = request.prompt
    assert message.role == "user"
    for text in ("Who wrote Emma?", "Jane Austen", "Austen did."):
        assert text in message.content


@pytest.mark.parametrize(
    ("reply", "score"), [("A", 1), (" a\n", 1), ("A.", 1), ("B", 0), ("C", 0)]
)
def test_letter_of_a_reply_is_its_score(reply, score):
    assert JudgeLLMSimpleQA().read([reply]) == {"simpleqa_judge": score}


def test_reply_without_score_is_no_score_of_zero():
    with pytest.raises(DocumentError, match="the judge's reply has no score: 'rate"):
        JudgeLLMSimpleQA().read(["rate limit exceeded"])


def test_unjudged_document_has_no_value():
    with pytest.raises(DocumentError, match="simpleqa_judge needs a judge"):
        JudgeLLMSimpleQA().compute(DOC, ANSWER)


def test_mixeval_asks_with_the_question_of_the_row():
    def template(question, options, answer, gold):
        return [{"role": "user", "content": f"{question}|{answer}|{gold}"}]

    judge = JudgeLLMMixEval("flow", template, bracketed_number, short_judge_name="gpt")
    doc = Doc("Q: who?", ["x"], 0, specific={"question": "who?"})
    (request,) = judge.requests(doc, ANSWER)
    assert request.prompt[0].content == "who?|Austen did.|x"
    assert judge.read(["[[0.5]]"]) == {"judge_score_gpt": 0.5}
    with pytest.raises(DocumentError, match="the question is wanted"):
        judge.requests(DOC, ANSWER)


def test_mapping_of_lists_becomes_a_list_of_mappings():
    """The example of lighteval's documentation."""
    found = dict_of_lists_to_list_of_dicts({"k": [1, 2, 3], "k2": ["a", "b", "c"]})
    assert found == [{"k": 1, "k2": "a"}, {"k": 2, "k2": "b"}, {"k": 3, "k2": "c"}]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        dict_of_lists_to_list_of_dicts({"a": [1, 2], "b": [1]})
