"""``Doc`` is compatible with lighteval's: the examples of its documentation run
unchanged."""

import dataclasses

import pytest

from pytest_evals import Doc


def test_multiple_choice_question():
    doc = Doc(
        query="What is the capital of France?",
        choices=["London", "Paris", "Berlin", "Madrid"],
        gold_index=1,  # Paris is the correct answer
        instruction="Answer the following geography question:",
    )
    assert doc.get_golds() == ["Paris"]


def test_generative_task():
    doc = Doc(
        query="Write a short story about a robot.",
        choices=[],  # No predefined choices for generative tasks
        gold_index=0,  # Not used for generative tasks
        generation_size=100,
        stop_sequences=["\nEnd"],
    )
    assert doc.stop_sequences == ["\nEnd"]
    with pytest.raises(IndexError):
        doc.get_golds()


def test_few_shot_learning():
    doc = Doc(
        query="Translate 'Hello world' to Spanish.",
        choices=["Hola mundo", "Bonjour monde", "Ciao mondo"],
        gold_index=0,
        fewshot_samples=[
            Doc(
                query="Translate 'Good morning' to Spanish.",
                choices=["Buenos días", "Bonjour", "Buongiorno"],
                gold_index=0,
            ),
            Doc(
                query="Translate 'Thank you' to Spanish.",
                choices=["Gracias", "Merci", "Grazie"],
                gold_index=0,
            ),
        ],
    )
    assert [shot.get_golds() for shot in doc.fewshot_samples] == [
        ["Buenos días"],
        ["Gracias"],
    ]


def test_fields_and_defaults_are_those_of_the_documentation_in_its_order():
    """Fields of this package come after lighteval's."""
    empty = dataclasses.MISSING
    documented = {
        "query": empty,
        "choices": empty,
        "gold_index": empty,
        "instruction": None,
        "images": None,
        "specific": None,
        "unconditioned_query": None,
        "original_query": None,
        "id": "",
        "task_name": "",
        "fewshot_samples": list,
        "sampling_methods": list,
        "fewshot_sorting_class": None,
        "generation_size": None,
        "stop_sequences": None,
        "use_logits": False,
        "num_samples": 1,
        "generation_grammar": None,
    }
    fields = dataclasses.fields(Doc)[: len(documented)]
    found = {
        f.name: f.default if f.default_factory is empty else f.default_factory
        for f in fields
    }
    assert list(found.items()) == list(documented.items())


@pytest.mark.parametrize(
    ("choices", "gold_index", "golds"),
    [
        (["a", "b"], [0, 1], ["a", "b"]),
        (["a", "b"], -1, ["b"]),
        (["a", "b"], (0,), ["a"]),
        ([["a", "A"], "b"], [0, 1], ["a", "A", "b"]),
        (["a"], [], []),
    ],
)
def test_golds_are_the_choices_at_the_gold_indices(choices, gold_index, golds):
    assert Doc("q", choices, gold_index).get_golds() == golds
