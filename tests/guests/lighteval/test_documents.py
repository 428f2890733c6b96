"""Documents of a module's tasks: few-shot examples, requests, images."""

from __future__ import annotations

import json

import pytest

from pytest_evals.core.request import (
    IMAGES,
    ImageLoglikelihood,
    Message,
)
from pytest_evals.errors import DocumentError, TaskFileError
from pytest_evals.prompts.images import without_images


def test_few_shot_examples_come_from_the_training_split_and_are_marked(module):
    (task,) = module("TASKS_TABLE = [task(few_shots_select='random')]", "parity|2")
    doc, (request,) = task.ask(0)
    assert [shot.query for shot in doc.fewshot_samples] == ["100?", "101?"]
    assert request.prompt == "Odd or even?\n\n100? even\n\n101? odd\n\n11?"
    (task,) = module(
        "TASKS_TABLE = [task(few_shots_select='random')]",
        num_fewshot=1,
        chat=True,
        system_instruction="Be brief.",
    )
    assert task.ask(0).requests[0].prompt == (
        Message("system", "Be brief."),
        Message("user", "Odd or even?100?"),
        Message("assistant", " even"),
        Message("user", "11?"),
    )


def test_a_document_is_never_its_own_shot(module):
    table = "TASKS_TABLE = [task(hf_avail_splits=['test'], few_shots_select='random')]"
    (task,) = module(table, "parity|2")
    for i in range(task.rows.total()):
        doc = task.ask(i).doc
        shots = [shot.query for shot in doc.fewshot_samples]
        assert len(shots) == 2 and doc.query not in shots


def test_pmi_asks_choices_alone_and_needs_their_prompt(module, problems):
    metric = "metrics=[LogLikelihoodAccMetric(LogProbPMINorm())]"
    message = problems(module, f"TASKS_TABLE = [task({metric})]")
    assert "unconditioned_query" in message and "row 1 of split 'test'" in message
    table = f"""
def with_query(line, name):
    doc = prompt(line, name)
    if doc is not None:
        doc.unconditioned_query = "Answer:"
    return doc

TASKS_TABLE = [task(prompt_function=with_query, {metric})]
"""
    (task,) = module(table)
    requests = task.ask(0).requests
    assert [one.context for one in requests] == ["Odd or even?\n\n11?"] * 2 + [
        "Answer:"
    ] * 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "regex", "value": "yes|no"}, {"type": "regex", "value": "yes|no"}),
        ({"type": "json", "value": '{"a": 1}'}, {"type": "json", "value": {"a": 1}}),
    ],
)
def test_a_grammar_travels_with_each_question(module, given, expected):
    (task,) = module(
        "from lighteval.tasks.lighteval_task import TextGenerationInputGrammarType\n"
        f"grammar = TextGenerationInputGrammarType(**{given!r})\n"
        "TASKS_TABLE = [task(generation_grammar=grammar, metrics=['exact_match'])]"
    )
    (request,) = task.ask(0).requests
    assert json.loads(dict(request.options)["grammar"]) == expected


def test_rows_are_filtered_and_equal_documents_count_once(module):
    (task,) = module("TASKS_TABLE = [task(hf_filter=lambda row: row['n'] < 12)]")
    assert sorted(task.rows.ids()) == ["0", "1"]
    same = "prompt_function=lambda r, n: Doc('same', ['x'], 0)"
    (task,) = module(f"TASKS_TABLE = [task({same}, must_remove_duplicate_docs=True)]")
    assert task.rows.ids() == ["0"]
    (task,) = module(
        f"TASKS_TABLE = [task({same}, evaluation_splits=['train', 'test'])]"
    )
    assert len(set(task.rows.ids())) == 8 and "test-3" in task.rows.ids()


def test_a_fault_of_one_row_is_that_of_its_document(module):
    table = """
def prompt2(line, name):
    return Doc(str(line["n"]), ["x"], 0, specific={"rest": 1 / (line["n"] - 13)})

TASKS_TABLE = [task(prompt_function=prompt2)]
"""
    (task,) = module(table)
    queries = {}
    for i, id_ in enumerate(task.rows.ids()):
        try:
            queries[id_] = task.ask(i).doc.query
        except DocumentError as error:
            queries[id_] = str(error)
    fault = queries.pop("3")
    assert "ZeroDivisionError" in fault and "parity0.py:" in fault
    assert queries == {"0": "10", "1": "11", "2": "12"}


WHOLE = """
def whole(line, name):
    return Doc(str(line["n"]), choices=None, gold_index=None)

TASKS_TABLE = [task(prompt_function=whole, metrics=[Metrics.{metric}])]
"""


def test_a_text_that_is_scored_as_a_whole_needs_no_choices(module, problems):
    """``choices=None, gold_index=None``, as in lighteval 0.13.0's ``wikitext.py``."""
    (task,) = module(WHOLE.format(metric="word_perplexity"))
    doc, requests = task.ask(0)
    assert [type(one).__name__ for one in requests] == ["Rolling"]
    assert (doc.choices, doc.gold_index, doc.get_golds()) == ([], [], [])
    what = problems(module, WHOLE.format(metric="loglikelihood_acc"))
    assert "the document has no choices to score by log-probability" in what
    (task,) = module(WHOLE.format(metric="word_perplexity"), "parity|2")
    with pytest.raises(TaskFileError, match="a few-shot example has no choices"):
        task.rows.ids()


@pytest.mark.parametrize("gold", ["'0'", "['a']", "0.0", "{}", "int"])
def test_a_gold_index_is_a_position_or_a_list_of_them(module, problems, gold):
    table = f"""
def odd(line, name):
    return Doc("?", ["a", "b"], {gold})

TASKS_TABLE = [task(prompt_function=odd)]
"""
    what = f"prompt_function returned a gold_index that is not an index: {eval(gold)!r}"
    assert what in problems(module, table)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instruction", "print"),
        ("instruction", "['Add.']"),
        ("images", "5"),
        ("specific", "[1]"),
        ("unconditioned_query", "5"),
        ("fewshot_samples", "5"),
        ("fewshot_sorting_class", "print"),
        ("generation_size", "'5'"),
        ("stop_sequences", "'\\n'"),
        ("stop_sequences", "[None]"),
    ],
)
@pytest.mark.parametrize("shots", [0, 2])
def test_a_field_of_a_document_of_another_type_is_one_problem(
    module, problems, field, value, shots
):
    table = f"""
def odd(line, name):
    return Doc(str(line["n"]), ["a", "b"], 0, {field}={value})

TASKS_TABLE = [task(prompt_function=odd, num_fewshots={shots})]
"""
    first = problems(module, table).splitlines()[0]
    assert f"prompt_function returned {field}=" in first
    assert "; expected a" in first and "parity0.py:" in first


@pytest.mark.parametrize("value", ["5", "Doc('?', ['a'], 0, instruction=5)"])
def test_an_example_of_a_document_is_a_document_too(module, problems, value):
    table = f"""
def odd(line, name):
    return Doc(str(line["n"]), ["a"], 0, fewshot_samples=[{value}])

TASKS_TABLE = [task(prompt_function=odd)]
"""
    assert "prompt_function returned " in problems(module, table)


def test_the_answer_of_an_example_is_a_string(module, problems):
    table = """
def odd(line, name):
    return Doc(str(line["n"]), [5, 6], 0)

TASKS_TABLE = [task(prompt_function=odd, num_fewshots=2)]
"""
    assert "the answer of a few-shot example is 5; expected a string" in problems(
        module, table
    )


PICTURES = """
class Picture:
    mode, size, info = "RGB", (1, 1), {}

    def tobytes(self):
        return b"\\0\\0\\0"

    def getpalette(self):
        return None

    def save(self, stream, format):
        stream.write(b"\\x89PNG " + format.encode())

def see(line, name):
    return Doc("What is this?", ["A cat"], 0, instruction="Look.", images=[Picture()])
"""


def test_images_travel_behind_the_text_of_a_chat(module, problems):
    """The multimodal example of lighteval's page on Doc, with an object that has the
    attributes of PIL's images."""
    table = f"{PICTURES}TASKS_TABLE = [task(prompt_function=see)]"
    (task,) = module(table, "parity|2", metadata={"identical_prompts": True})
    (request,) = task.ask(0).requests
    assert request.prompt == (
        Message("system", "Look."),
        Message("user", "What is this?"),
    )
    (image,) = dict(request.options)[IMAGES]
    assert str(image) == "data:image/png;base64,iVBORyBQTkc="
    scored = "task(prompt_function=see, metrics=[Metrics.loglikelihood_acc])"
    (task,) = module(
        f"{PICTURES}TASKS_TABLE = [{scored}]",
        "parity|2",
        metadata={"identical_prompts": True},
    )
    (request,) = task.ask(0).requests
    assert isinstance(request, ImageLoglikelihood)
    assert dict(request.options) == {IMAGES: (image,)}


def test_rows_with_images_are_the_same_in_every_process():
    row = {"a": [{"bytes": b"x", "path": None}], "b": {"c": 1}}
    # sha256 of the letter x
    assert without_images(row) == {"a": ["<image 2d711642b726b044>"], "b": {"c": 1}}


DOCS = """
def capital(line, name):
    return Doc(
        query="What is the capital of France?",
        choices=["London", "Paris", "Berlin", "Madrid"],
        gold_index=1,
        instruction="Answer the following geography question:",
    )

def story(line, name):
    return Doc(
        query="Write a short story about a robot.",
        choices=[],
        gold_index=0,
        generation_size=100,
        stop_sequences=["\\nEnd"],
    )

def translation(line, name):
    return Doc(
        query="Translate 'Hello world' to Spanish.",
        choices=["Hola mundo", "Bonjour monde", "Ciao mondo"],
        gold_index=0,
        fewshot_samples=[
            Doc(query="Translate 'Good morning' to Spanish.",
                choices=["Buenos días", "Bonjour", "Buongiorno"], gold_index=0),
            Doc(query="Translate 'Thank you' to Spanish.",
                choices=["Gracias", "Merci", "Grazie"], gold_index=0),
        ],
    )

none = dict(generation_size=None, stop_sequence=None)
length = SampleLevelMetric(
    "length", True, SamplingMethod.GENERATIVE, lambda doc, response: 1.0, max
)
TASKS_TABLE = [
    task("capital", prompt_function=capital, metrics=[Metrics.loglikelihood_acc]),
    task("story", prompt_function=story, metrics=[length], **none),
    task("translation", prompt_function=translation, **none),
]
"""


def test_examples_of_the_page_on_doc_send_the_documented_requests(module):
    tasks = module(DOCS, metadata={"identical_prompts": True})
    capital, story, translation = tasks
    first = capital.ask(0).requests[1]
    assert first.context == (
        "Answer the following geography question:\n\nWhat is the capital of France?"
    )
    assert first.continuation == "Paris"
    (request,) = story.ask(0).requests
    assert (request.stop, request.max_tokens) == (("\nEnd",), 100)
    (request,) = translation.ask(0).requests
    assert request.prompt == (
        "Translate 'Good morning' to Spanish. Buenos días\n\n"
        "Translate 'Thank you' to Spanish. Gracias\n\n"
        "Translate 'Hello world' to Spanish."
    )
