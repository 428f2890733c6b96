"""Golden vectors: prompts, continuations and few-shot examples measured with lm-eval
0.4.13 on toy data of 8 documents per split (texts ``Q0?…Q7?``, ``T0?…``, ``V0?…``)."""

from pathlib import Path

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.core.task import TaskOptions
from pytest_evals.data.source_paths import Source
from pytest_evals.dialects.lm_eval.prompts.documents import Documents
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe, Shots, Splits
from pytest_evals.errors import DocumentError, Place, TaskFileError
from pytest_evals.prompts.fields import Field
from pytest_evals.prompts.generation import Sampling

HERE = Place(Path("toy.yaml"), 1)
CHOICES = ["a", "b", "cc"]


def rows(letter, answer):
    return [
        {
            "q": f"{letter}{i}?",
            "choices": CHOICES,
            "label": i % 3,
            "ans": f"{answer}{i}",
        }
        for i in range(8)
    ]


TOY = {
    "test": rows("Q", "A"),
    "train": rows("T", "TA"),
    "validation": rows("V", "VA"),
}


def field(key, spec):
    return Field(key=key, spec=spec, place=HERE)


DEFAULTS = {
    "data": TOY,
    "output_type": "multiple_choice",
    "text": "Question: {{q}}\nAnswer:",
    "target": "label",
    "choices": "choices",
    "prefix": None,
    "description": None,
    "delimiter": " ",
    "n": 0,
    "sampler": "default",
    "splits": {"test": "test", "fewshot": "train"},
    "repeats": 1,
    "metrics": ("acc",),
}


def toy(**changes):
    """The documents of a toy task; keywords that are not settings of it are options."""
    its = DEFAULTS | {k: v for k, v in changes.items() if k in DEFAULTS}
    options = {k: v for k, v in changes.items() if k not in DEFAULTS}
    fields = Fields(
        text=field("doc_to_text", its["text"]),
        target=field("doc_to_target", its["target"]),
        choices=its["choices"] and field("doc_to_choice", its["choices"]),
        prefix=its["prefix"] and field("gen_prefix", its["prefix"]),
        target_delimiter=its["delimiter"],
    )
    source = Source(
        path="",
        arguments={},
        maker=lambda: its["data"],
        place=HERE,
        data_place=HERE,
        base=Path(),
    )
    recipe = Recipe(
        name="toy",
        output_type=its["output_type"],
        place=HERE,
        source=source,
        splits=Splits(**its["splits"]),
        fields=fields,
        description=its["description"] and field("description", its["description"]),
        shots=Shots(n=its["n"], sampler=its["sampler"], fields=fields, place=HERE),
        sampling=Sampling(stop=("\n\n",)),
        repeats=its["repeats"],
        metrics=its["metrics"],
        options=TaskOptions(**options),
    )
    return Documents(recipe)


def shots_of(documents, index):
    """The questions in a prompt, the evaluated one last."""
    context = documents.ask(index).requests[0].context
    return [
        line.removeprefix("Question: ").rstrip("?")
        for line in context.split("\n")
        if line.startswith("Question: ")
    ]


STREAMS = [
    (
        {"test": "test", "fewshot": "train"},
        "default",
        "T7 T0 T6 Q0, T1 T6 T4 Q1, T0 T5 T6 Q2, T1 T0 T2 Q3, T3 T0 T6 Q4, T0 T2 T5 Q5",
    ),
    (
        {"test": "test", "fewshot": "test"},
        "default",
        "Q7 Q6 Q5 Q0, Q0 Q5 Q6 Q1, Q1 Q6 Q7 Q2, Q0 Q7 Q6 Q3, Q7 Q3 Q1 Q4, Q1 Q7 Q0 Q5",
    ),
    (
        {"test": "test"},
        "default",
        "Q7 Q0 Q6 Q0, Q1 Q6 Q4 Q1, Q0 Q5 Q6 Q2, Q1 Q0 Q2 Q3, Q3 Q0 Q6 Q4, Q0 Q2 Q5 Q5",
    ),
    ({"validation": "validation"}, "default", "V7 V6 V5 V0, V0 V5 V6 V1"),
    (
        {"validation": "validation", "fewshot": "validation"},
        "default",
        "V7 V0 V6 V0",
    ),
    (
        {"test": "test", "fewshot": "test"},
        "first_n",
        "Q1 Q2 Q3 Q0, Q0 Q2 Q3 Q1, Q0 Q1 Q3 Q2, Q0 Q1 Q2 Q3",
    ),
]


@pytest.mark.parametrize(("splits", "sampler", "expected"), STREAMS)
def test_few_shot_examples_are_those_of_lm_eval(splits, sampler, expected):
    documents = toy(splits=splits, sampler=sampler, n=3)

    drawn = [" ".join(shots_of(documents, i)) for i in range(len(expected.split(", ")))]

    assert drawn == expected.split(", ")


def test_few_shot_examples_do_not_depend_on_the_order_of_requests():
    forwards, backwards = toy(n=3), toy(n=3)
    expected = [forwards.ask(i) for i in range(8)]

    records = {i: backwards.ask(i) for i in (7, 3, 0, 3, 5, 1, 2, 6, 4)}

    assert [records[i] for i in range(8)] == expected


def chatted(request):
    """A chat as the toy template of the golden vectors renders it."""
    text = "".join(f"<{role}>{content}" for role, content in request.context)
    begun = request.context[-1].role == "assistant"
    return text + ("" if begun else "<assistant>")


QUESTION = "Question: T7?\nAnswer:"
FINAL = "Question: Q0?\nAnswer:"
RENDERED = [
    (
        {"description": "DESC {{q}}"},
        f"DESC Q0?{QUESTION} b\n\n{FINAL}",
        " a",
    ),
    (
        {"description": "DESC {{q}}", "system_instruction": "SYS"},
        f"SYS\n\nDESC Q0?{QUESTION} b\n\n{FINAL}",
        " a",
    ),
    (
        {"system_instruction": "SYS", "prefix": "The answer is"},
        f"SYS{QUESTION} The answer is b\n\n{FINAL} The answer is",
        " a",
    ),
    (
        {"description": "DESC {{q}}", "system_instruction": "SYS", "chat": True},
        f"<system>SYS\n\nDESC Q0?<user>{QUESTION}<assistant>b<user>{FINAL}<assistant>",
        "a",
    ),
    (
        {
            "description": "DESC {{q}}",
            "system_instruction": "SYS",
            "chat": True,
            "fewshot_as_multiturn": False,
        },
        f"<system>SYS\n\nDESC Q0?<user>{QUESTION} b\n\n{FINAL}<assistant>",
        "a",
    ),
    (
        {"system_instruction": "SYS", "chat": True, "prefix": "The answer is"},
        f"<system>SYS<user>{QUESTION}<assistant>The answer is b<user>{FINAL}"
        "<assistant>The answer is",
        " a",
    ),
    (
        {"system_instruction": "SYS", "chat": True, "prefix": "The answer is ", "n": 0},
        f"<system>SYS<user>{FINAL}<assistant>The answer is ",
        "a",
    ),
    ({"delimiter": ""}, f"{QUESTION}b\n\n{FINAL}", "a"),
    ({"text": "Q: {{q}} "}, "Q: T7?  b\n\nQ: Q0? ", " a"),
    (
        {
            "text": "label",
            "choices": "{{[q + ' x', q + ' y', q + ' z']}}",
            "target": " is {{ans}}",
        },
        "T7? y  is TA7\n\nQ0? x",
        "  is A0",
    ),
    (
        {
            "text": "label",
            "choices": "{{[q + ' x', q + ' y', q + ' z']}}",
            "target": "is {{ans}}",
            "chat": True,
        },
        "<user>T7? y<assistant>is TA7<user>Q0? x<assistant>",
        "is A0",
    ),
]


@pytest.mark.parametrize(("settings", "context", "continuation"), RENDERED)
def test_prompts_are_those_of_lm_eval(settings, context, continuation):
    request = toy(**{"n": 1} | settings).ask(0).requests[0]

    shown = request.context if isinstance(request.context, str) else chatted(request)
    assert (shown, request.continuation) == (context, continuation)


def test_several_targets_give_one_prompt_with_the_first_target_of_each_shot():
    documents = toy(
        output_type="generate_until", choices=None, target="{{[ans, q]}}", n=1
    )

    doc, requests = documents.ask(0)

    assert requests == (
        Generate("Question: T7?\nAnswer: TA7\n\nQuestion: Q0?\nAnswer:", ("\n\n",)),
    )
    assert (doc.choices, doc.gold_index) == (["A0", "Q0?"], [0, 1])


def test_multiple_choice_sends_one_request_per_choice_with_the_correct_one():
    doc, requests = toy().ask(1)

    assert requests == tuple(
        Loglikelihood("Question: Q1?\nAnswer:", f" {choice}") for choice in CHOICES
    )
    assert (doc.id, doc.task_name, doc.target) == ("1", "toy", 1)
    assert (doc.choices, doc.gold_index, doc.get_golds()) == (CHOICES, 1, ["b"])
    assert doc.row == TOY["test"][1]


def test_multiple_inputs_have_their_gold_from_the_text():
    documents = toy(text="label", target="is {{ans}}")

    doc, requests = documents.ask(1)

    assert requests == tuple(Loglikelihood(choice, " is A1") for choice in CHOICES)
    assert (doc.gold_index, doc.query) == (1, "is A1")


def test_a_text_as_choices_is_its_characters_and_a_gold_text_is_where_it_begins():
    documents = toy(choices="ans", target="{{ans[1:]}}")

    doc, requests = documents.ask(1)

    assert [request.continuation for request in requests] == [" A", " 1"]
    assert (doc.choices, doc.gold_index) == (["A", "1"], 1)
    assert "each character is a choice" in " ".join(documents.warnings)


def test_a_text_as_choices_cannot_be_the_questions():
    documents = toy(choices="ans", text="label", target="is {{ans}}")

    with pytest.raises(
        TaskFileError, match="returned a string, but doc_to_text an index"
    ):
        documents.ids()


def test_mutual_information_asks_for_the_choices_alone_as_well():
    _, requests = toy(metrics=("acc", "acc_mutual_info")).ask(0)

    assert requests[3:] == tuple(Loglikelihood("", f" {c}") for c in CHOICES)


def test_repeats_of_a_request_are_consecutive():
    _, requests = toy(repeats=2).ask(0)

    assert [r.continuation for r in requests] == [" a", " a", " b", " b", " cc", " cc"]


def test_loglikelihood_takes_the_target_as_continuation_without_delimiter():
    doc, requests = toy(output_type="loglikelihood", choices=None, target="ans").ask(2)

    assert requests == (Loglikelihood("Question: Q2?\nAnswer:", "A2"),)
    assert (doc.choices, doc.gold_index) == (["A2"], 0)


def test_rolling_asks_for_the_target_alone():
    documents = toy(
        output_type="loglikelihood_rolling",
        choices=None,
        target="{{q}} {{ans}}",
        n=1,
        system_instruction="SYS",
    )

    doc, requests = documents.ask(3)

    assert (doc.query, requests) == ("Q3? A3", (Rolling("Q3? A3"),))


def test_a_chat_of_one_turn_keeps_a_started_answer_separate():
    documents = toy(n=1, chat=True, fewshot_as_multiturn=False, prefix="So:")

    assert documents.ask(0).requests[0].context == (
        Message("user", f"{QUESTION} So: b\n\n{FINAL}"),
        Message("assistant", "So:"),
    )


def test_an_example_with_an_empty_answer_is_a_question_alone():
    data = TOY | {"train": [{**row, "ans": ""} for row in TOY["train"]]}
    documents = toy(
        data=data, output_type="generate_until", choices=None, target="ans", n=1
    )

    assert documents.ask(0).requests[0].prompt == f"{QUESTION}{FINAL}"


def test_limit_and_sample_select_documents_but_change_none():
    everything = toy(n=2)
    sampled = toy(n=2, sample=3.0)
    larger = toy(n=2, sample=5.0)
    limited = toy(n=2, limit=0.3)

    assert limited.ids() == ["0", "1", "2"]  # lm-eval rounds 0.3 of 8 up to 3
    assert len(sampled.ids()) == 3
    assert set(sampled.ids()) < set(larger.ids())
    assert sampled.indices() == sorted(sampled.indices())
    assert sampled.total() == 8
    for i in sampled.indices():
        assert sampled.ask(i) == everything.ask(i)


def test_one_bad_document_is_an_error_of_its_own():
    data = TOY | {"test": [*TOY["test"][:3], {**TOY["test"][3], "q": None}]}
    documents = toy(data=data, text="q")

    assert documents.ask(2).doc.query == "Q2?"
    with pytest.raises(DocumentError) as error:
        documents.ask(3)
    assert str(error.value) == "toy.yaml:1: doc_to_text returned None, not a string"


def test_a_misspelt_column_in_a_template_is_an_error_of_the_task():
    with pytest.raises(TaskFileError) as error:
        toy(text="{{qq}}").ids()

    assert str(error.value) == (
        "toy.yaml:1: doc_to_text uses 'qq', which is not a column; did you mean 'q'?\n"
        "  fix: the columns are q, choices, label, ans"
    )


def test_a_misspelt_column_name_is_used_as_text_with_a_warning():
    documents = toy(text="labell")
    documents.ids()

    assert documents.ask(0).doc.query == "labell"
    misspelt, identical = documents.warnings
    assert misspelt == (
        "toy.yaml:1: doc_to_text: 'labell' is not a column and is used as a literal, "
        "as in lm-eval; "
        "did you mean 'label'?"
    )
    assert identical == (
        "all 8 documents send the same prompt; check the names of "
        "columns if this is intended, "
        "set metadata: {identical_prompts: true}"
    )


def test_too_few_examples_are_an_error_of_the_task():
    with pytest.raises(TaskFileError) as error:
        toy(n=8, splits={"test": "test", "fewshot": "test"}).ids()

    assert str(error.value) == (
        "toy.yaml:1: 8 few-shot examples need a pool of 9 documents (one more than "
        "the examples, because a document is never its own example), but it has 8 in "
        "split 'test'\n"
        "  fix: lower num_fewshot or set fewshot_split to a larger split"
    )


def test_a_pool_that_holds_the_documents_themselves_is_flagged():
    documents = toy(n=1, splits={"test": "test"})
    documents.ids()

    assert documents.warnings == (
        "few-shot examples come from the evaluated documents (split 'test'), so a "
        "document can be its own example, as in lm-eval; set a different "
        "fewshot_split or pass --evals-exclude-own-shots",
    )


def test_a_document_is_excluded_from_its_own_examples_on_request():
    """The random stream is that of lm-eval's own exclusion, over the same pool: row two
    of STREAMS."""
    documents = toy(n=3, splits={"test": "test"}, exclude_own_shots=True)
    drawn = [" ".join(shots_of(documents, i)) for i in range(6)]

    assert drawn == STREAMS[1][2].split(", ")
    (warning,) = documents.warnings
    assert "--evals-exclude-own-shots" in warning
    assert "split 'test'" in warning


def test_excluding_documents_of_another_split_does_not_change_examples():
    plain, kept = (toy(n=3, exclude_own_shots=wish) for wish in (False, True))
    for index in range(8):
        assert plain.ask(index).requests == kept.ask(index).requests
    assert kept.warnings == ()


def test_a_target_outside_the_choices_is_flagged_and_counts_as_wrong():
    data = TOY | {"test": [TOY["test"][0], {**TOY["test"][1], "label": 7}]}
    documents = toy(data=data)

    assert documents.ask(1).doc.gold_index == -100
    assert documents.warnings == (
        "toy.yaml:1: doc_to_target is neither a choice nor the position of one, from "
        "0, so the answer counts as wrong, as in lm-eval; correct the target "
        "(document 1)",
    )


def test_a_function_that_changes_its_row_changes_nothing_else():
    documents = toy(text=lambda row: row.pop("q"), target="label")

    first, again = documents.ask(0), documents.ask(0)

    assert first == again
    assert first.doc.row == TOY["test"][0]
