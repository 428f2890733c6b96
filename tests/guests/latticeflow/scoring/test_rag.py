"""Evaluation of retrieved answers, claim by claim."""

import json

import pytest

from pytest_evals.errors import DocumentError

RAG = """
- type: rag_checker
  judge_model_key: m
"""


def rag_reply(prompt):
    """A judge that treats each word as a claim and searches for it in the text."""
    text = prompt[-1].content
    about = text.split("Text:\n")[1].split("\n\nReply")[0]
    if "apart" in text:
        return json.dumps({"claims": about.split()})
    claims = json.loads(text.split("Claims:\n")[1].split("\n\nText")[0])
    return json.dumps({"entailed": [claim in about.split() for claim in claims]})


def test_retrieved_answers_are_checked_claim_by_claim(scored):
    """By hand, by the definitions of RAGChecker (arXiv 2408.08067): target a b c,
    answer a b x y z, passages "a x" (relevant) and "y q" (not)."""
    trace = [
        {"role": "user", "content": "q"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "a b x y z",
                    "annotations": [
                        {"type": "text_citation", "content": "a x"},
                        {"type": "text_citation", "content": "y q"},
                    ],
                }
            ],
        },
    ]
    score = scored(RAG, {"query": "q", "target": "a b c"}, reply=rag_reply, trace=trace)
    assert score.values == pytest.approx(
        {
            "recall": 2 / 3,
            "precision": 2 / 5,
            "f1_score": 0.5,
            "claim_recall": 1 / 3,
            "context_precision": 1 / 2,
            "context_utilization": 1.0,
            "noise_sensitivity_in_relevant": 1 / 5,
            "noise_sensitivity_in_irrelevant": 1 / 5,
            "hallucination": 1 / 5,
            "self_knowledge": 1 / 5,
            "faithfulness": 3 / 5,
        }
    )


def test_a_score_without_anything_to_count_is_left_out(scored):
    score = scored(RAG, {"query": "q", "target": "a"}, "a b", rag_reply)
    assert score.values == pytest.approx(
        {
            "recall": 1.0,
            "precision": 0.5,
            "f1_score": 2 / 3,
            "claim_recall": 0.0,
            "noise_sensitivity_in_relevant": 0.0,
            "noise_sensitivity_in_irrelevant": 0.0,
            "hallucination": 0.5,
            "self_knowledge": 0.5,
            "faithfulness": 0.0,
        }
    )


def test_required_claims_have_separate_scores(scored):
    yaml = f"""{RAG}  scores_to_compute: [recall]
  mode: required_and_optional
  target_claims_column: claims
  target_labels_column: labels
"""
    sample = {
        "query": "q",
        "target": "t",
        "claims": [{"subject": "a", "predicate": "", "object": ""}, "b", "c"],
        "labels": ["OPTIONAL", "REQUIRED", "REQUIRED"],
    }
    score = scored(yaml, sample, "b", rag_reply)
    assert score.values == {"recall": pytest.approx(1 / 3), "required_recall": 0.5}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("no", "has no list of claims"),
        (
            '{"claims": ["a"], "entailed": [true, true]}',
            "must have 1 values of true or false",
        ),
    ],
)
def test_a_judge_reply_without_claims_is_an_error(scored, reply, message):
    with pytest.raises(DocumentError, match=message):
        scored(RAG, {"query": "q", "target": "a"}, "a", reply)
