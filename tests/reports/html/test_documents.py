"""A document of a stored run, as the page contains it."""

import json
import math

import pytest

from pytest_evals.reports.html.baseline_documents import (
    no_baseline,
    paired_run,
    stored_comparison,
)
from pytest_evals.reports.html.documents import (
    CUT_OFF,
    IMPROVED,
    LINE_IS_END,
    REGRESSED,
    TRUNCATED,
    documents_of,
)
from pytest_evals.reports.html.index import distinguishable
from pytest_evals.reports.html.prompt import FewshotExamples, parts_of


@pytest.fixture
def listed(write, tmp_path):
    """The documents of a task with these rows."""

    def found(*rows, before=None, shots=None):
        run = write.run(tmp_path / "run", {"quiz": list(rows)})
        shots = shots or FewshotExamples(0, "\n\n")
        return list(documents_of(run, "quiz", shots, before or no_baseline))

    return found


def test_the_state_of_a_document_follows_from_its_result(listed, write):
    rows = [
        write.generated(0, "p", "x", correct=True),
        write.generated(1, "p", "x", correct=False),
        write.generated(2, "p", "x", correct=None),
        write.generated(3, "p", "x", correct=None, status="errored", error="down"),
        write.generated(4, "p", "x", correct=None, status="unscored"),
        write.generated(5, "p", "x", correct=False, excluded="too short"),
    ]
    found = listed(*rows)
    assert "".join(one.state for one in found) == "rwseux"
    assert (found[3].whole["error"], found[5].whole["excluded"]) == (
        "down",
        "too short",
    )


def test_a_truncated_prompt_and_a_truncated_answer_are_distinguished(listed, write):
    cut = {"prompt": 5, "answer": 2, "truncated": 3}
    rows = [
        write.generated(0, "p", "x", tokens=cut),
        write.generated(1, "p", "x", finish=["stop", "length"]),
        write.generated(2, "p", "x"),
    ]
    assert [one.flags for one in listed(*rows)] == [TRUNCATED, CUT_OFF, 0]


def test_rows_of_several_filters_are_one_document(listed, write):
    first = write.generated(0, "p", "x", filter="strict", exact_match=0.0)
    second = write.generated(0, "p", "x", filter="flexible", exact_match=1.0)
    (one,) = listed(first, second)
    assert one.values == {"exact_match,strict": 0.0, "exact_match,flexible": 1.0}
    assert [s["filter"] for s in one.whole["scores"]] == ["strict", "flexible"]


def test_the_target_of_choices_is_shown_as_text(listed, write):
    (one,) = listed(write.chosen(0, "Capital?", {" Rome": -1.0, " Oslo": -2.0}, 1))
    assert (one.answer, one.target, one.state) == ("Rome", "Oslo", "w")
    assert one.whole["gold"] == [1]
    assert one.whole["target"] == "1"
    assert one.whole["prompts"] == [[{"title": "", "text": "Capital?"}]]


def test_a_generated_number_is_not_a_position_in_a_list(listed, write):
    (one,) = listed(write.generated(0, "1+1=", "2", target="0"))
    assert one.target == "0"


@pytest.mark.parametrize(
    ("choices", "fields", "gold"),
    [
        ({" Rome": -1.0, " Oslo": -2.0}, {"target": "Oslo"}, [1]),
        ({" Rome": -1.0, " Oslo": -2.0}, {"target": " Oslo\n"}, [1]),
        ({" A": -1.0, " B": -2.0, " C": -3.0}, {"target": "C"}, [2]),
        # the text "1" is the second choice, and the document is correct
        ({" 0": -2.0, " 2": -3.0, " 1": -1.0}, {"target": "1", "correct": True}, [2]),
        # the position 1 is the choice "2", and the document is wrong
        ({" 1": -1.0, " 2": -2.0}, {"target": "1", "correct": False}, [1]),
        # our own runs contain the positions of all correct choices
        ({" a": -1.0, " b": -2.0, " c": -3.0}, {"target": "x", "gold": [0, 2]}, [0, 2]),
        ({" a": -1.0, " b": -2.0}, {"target": "7"}, []),
        ({" a": -1.0, " b": -2.0}, {"target": "b", "gold": [-100]}, []),
    ],
)
def test_the_correct_choice_is_marked_for_any_kind_of_target(
    listed, write, choices, fields, gold
):
    (one,) = listed(write.chosen(0, "p", choices, 0) | fields)
    assert one.whole["gold"] == gold


def test_confidence_is_the_probability_of_the_best_choice_among_all(listed, write):
    odds = {" a": math.log(0.06), " b": math.log(0.02), " c": math.log(0.02)}
    one, plain = listed(write.chosen(0, "p", odds, 0), write.generated(1, "p", "four"))
    assert one.numbers["confidence"] == pytest.approx(0.6, abs=1e-3)
    assert "confidence" not in plain.numbers
    assert plain.numbers["answer characters"] == 4


def test_latency_and_cost_are_numbers_of_a_document(listed, write):
    known = write.generated(0, "p", "x", latency_s=1.25, cost=0.002)
    one, none = listed(known, write.generated(1, "p", "x"))
    assert (one.numbers["latency (s)"], one.numbers["cost"]) == (1.25, 0.002)
    assert not {"latency (s)", "cost"} & none.numbers.keys()


def test_words_of_a_judge_are_kept(listed, write):
    texts = {"exact_match": "it rambles"}
    (one,) = listed(write.generated(0, "p", "x", explanations=texts))
    assert one.whole["scores"][0]["explanations"] == texts


def test_a_number_that_a_browser_cannot_hold_stays_as_it_is(listed, write):
    (one,) = listed(write.generated(0, "p", "x", doc={"id": 2**63 + 1}))
    assert "9223372036854775809" in one.whole["row"]


def test_lines_have_no_character_that_moves_others(listed, write):
    (one,) = listed(write.generated(0, "a\n\u202eb\x00", "x\u2028y"))
    assert (one.question, one.answer) == ("a⏎\\u202eb\\x00", "x\\u2028y")


def test_documents_are_paired_by_their_content(listed, write, tmp_path):
    before = write.run(
        tmp_path / "before",
        {
            "quiz": [
                write.generated(1, "p", "was wrong", correct=False),
                write.generated(0, "p", "was right", correct=True),
            ]
        },
    )
    rows = [
        write.generated(0, "p", "now", correct=False),
        write.generated(1, "p", "now", correct=True),
        write.generated(2, "p", "new", correct=True),
    ]
    found = listed(*rows, before=paired_run(before, "quiz"))
    assert [one.flags for one in found] == [REGRESSED, IMPROVED, 0]
    assert found[0].whole["before"]["answers"] == [["was right"]]
    assert found[2].whole["before"] is None


def test_equal_documents_are_paired_by_their_order(listed, write, tmp_path):
    def twins(*correct):
        return [
            write.generated(n, "p", f"{n}", correct=c, doc_hash="same")
            for n, c in enumerate(correct)
        ]

    before = write.run(tmp_path / "before", {"quiz": twins(True, False)})
    found = listed(*twins(True, True), before=paired_run(before, "quiz"))
    assert [one.flags for one in found] == [0, IMPROVED]


def test_the_stored_comparison_remains_without_its_baseline(listed, write):
    worse = [{"id": "d0", "before": "yes", "now": "no"}]
    found = listed(
        write.generated(0, "p", "no", correct=False),
        write.generated(1, "p", "no", correct=False),
        before=stored_comparison(worse, []),
    )
    assert [one.flags for one in found] == [REGRESSED, 0]
    assert found[0].whole["before"]["answer"] == "yes"


def test_few_shot_examples_are_distinguished_from_the_question():
    prompt = "Be brief.\n\nQ: 1\nA: 2\n\nQ: 3\nA:"
    two = parts_of(prompt, FewshotExamples(2, "\n\n"))
    assert [part["title"] for part in two] == ["example 1", "example 2", "question"]
    assert "".join(part["text"] for part in two) == prompt


@pytest.mark.parametrize("description", ["Be brief.\n\n", "{{tone}}\n\n"])
@pytest.mark.parametrize("n", [0, 1])
def test_a_description_is_not_an_example(description, n):
    """Not even if only its template is known."""
    prompt = "Be brief.\n\n" + "Q: 1\nA: 2\n\n" * n + "Q: 3\nA:"
    parts = parts_of(prompt, FewshotExamples(n, "\n\n", description))
    assert [part["title"] for part in parts] == [
        "description",
        *["example 1"][:n],
        "question",
    ]
    assert "".join(part["text"] for part in parts) == prompt
    assert parts[0]["text"] == "Be brief.\n\n"


def test_a_line_has_the_question_or_its_end(listed, write):
    shots = "Q: 1\nA: 2\n\n"
    question = "Why? " + "Because " * 80
    rows = [
        write.generated(0, f"{shots}{question}", "x"),
        write.generated(1, f"{shots}two\n\n{question}", "x"),
    ]
    known, unknown = listed(*rows, shots=FewshotExamples(1, "\n\n"))
    assert known.question.startswith("Why? Because") and not known.flags
    assert unknown.question.startswith("…") and unknown.flags == LINE_IS_END


def test_words_that_all_lines_begin_with_tell_nothing():
    lines = ["What is the capital of France?", "What is the capital of Italy?"]
    assert distinguishable(lines) == ["… France?", "… Italy?"]
    assert distinguishable(["Who is A?", "Who is B?"]) == ["Who is A?", "Who is B?"]
    assert distinguishable(lines[:1]) == lines[:1]
    assert distinguishable([]) == []


def test_a_question_with_a_delimiter_in_it_is_not_cut():
    """It is unknown which of the blank lines ends the few-shot example."""
    prompt = "Q: 1\nA: 2\n\nQ: a poem\n\nof two verses\nA:"
    assert parts_of(prompt, FewshotExamples(1, "\n\n")) == [
        {"title": "", "text": prompt}
    ]


def test_a_rendered_chat_is_never_split():
    """Its messages may contain as many blank lines as there are examples."""
    prompt = "<|user|>Q: 1\n\nA<|end|><|user|>Q: 2\nA:"
    parts = parts_of(prompt, FewshotExamples(1, "\n\n", is_chat=True))
    assert parts == [{"title": "", "text": prompt}]


def test_a_chat_in_json_is_shown_as_messages():
    """lm-eval's API models write a list with one string."""
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]
    shots = FewshotExamples(0, "\n\n")
    for prompt in (json.dumps(chat), [json.dumps(chat)]):
        titles = [part["title"] for part in parts_of(prompt, shots)]
        assert titles == ["system", "user"]
    assert len(parts_of('[{"a": 1}]', shots)) == 1


def test_all_content_of_a_message_is_shown():
    image = {"type": "image_url", "image_url": {"url": "data:…"}}
    content = [{"type": "text", "text": "Look:"}, image]
    calls = [{"function": {"name": "search"}}]
    chat = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": calls},
    ]
    user, assistant = parts_of(chat, FewshotExamples(0, "\n\n"))
    assert user["text"] == "Look:\n[image_url]"
    assert "search" in assistant["text"]


def test_the_question_of_a_chat_is_the_last_message_of_the_user(listed, write):
    chat = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "The answer is"},
    ]
    chat_arguments = {"gen_args_0": {"arg_0": chat, "arg_1": {}}}
    (one,) = listed(write.generated(0, "", "x", arguments=chat_arguments))
    assert one.question == "Who?"


def test_ends_of_prompts_are_shown_without_their_common_end():
    end = "<|im_end|>\n<|im_start|>assistant\n"
    lines = [f"…{text}{end}" for text in ("Why is A?", "Who is B!")]
    assert distinguishable(lines, [LINE_IS_END] * 2) == ["…Why is A? …", "…Who is B! …"]


def test_messages_of_a_chat_are_parts():
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    assert parts_of(chat, FewshotExamples(0, "\n\n")) == [
        {"title": "user", "text": "Hi"},
        {"title": "assistant", "text": "Yo"},
    ]
