"""Task modules as users of lighteval write them, read without lighteval."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evals.core.request import (
    IMAGES,
    Generate,
    Loglikelihood,
    Message,
    Rolling,
)
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.errors import DocumentError, TaskFileError
from pytest_evals.frontends.lighteval.tasks import load_tasks
from pytest_evals.frontends.sniff import is_task_module
from pytest_evals.plugin.settings.selection import Selection
from pytest_evals.prompts.images import without_images

HEAD = """
from lighteval.metrics.dynamic_metrics import LogLikelihoodAccMetric
from lighteval.metrics.metrics import Metrics, SampleLevelMetric
from lighteval.metrics.normalizations import LogProbPMINorm
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod


def prompt(line, task_name=None):
    if line["n"] == 13:
        return None
    return Doc(
        task_name=task_name,
        query=f"{line['n']}?",
        choices=[" odd", " even"],
        gold_index=int(line["n"] % 2 == 0),
        instruction="Odd or even?",
    )


def task(name="parity", **more):
    given = dict(
        prompt_function=prompt,
        hf_repo="json",
        hf_subset="default",
        hf_data_files={"train": "train.jsonl", "test": "test.jsonl"},
        hf_avail_splits=["train", "test"],
        evaluation_splits=["test"],
        metrics=[Metrics.exact_match],
        generation_size=3,
        stop_sequence=["\\n"],
    )
    return LightevalTaskConfig(name=name, **{**given, **more})

"""
N_LINES = HEAD.count("\n")


@pytest.fixture
def module(tmp_path: Path):
    """Writes a module with two splits beside it, and gives its tasks."""
    rows = {"train": [100, 101, 102, 103], "test": [10, 11, 12, 13]}
    for split, numbers in rows.items():
        lines = "".join(json.dumps({"n": n, "kind": split}) + "\n" for n in numbers)
        (tmp_path / f"{split}.jsonl").write_text(lines)

    def load(table: str, asked: str = "", **options: object) -> list[Task]:
        path = tmp_path / "parity.py"
        number = len([*tmp_path.glob("parity*.py")])
        path = tmp_path / f"parity{number}.py"
        path.write_text(f"{HEAD}{table}\n")
        selection = Selection(asked.split())
        found = load_tasks(
            path,
            TaskOptions(takes=selection.takes, variants=selection.variants, **options),
        )
        return list(found)

    return load


def problems(load, table: str, **options) -> str:
    with pytest.raises(TaskFileError) as caught:
        for one in load(table, **options):
            one.rows.ids()
    return str(caught.value)


def test_a_module_gives_its_tasks_without_the_rows_that_it_skips(module):
    (task,) = module("TASKS_TABLE = [task()]")
    assert (task.name, task.output_type) == ("parity", "generate_until")
    # Random(42) shuffles three documents so; lighteval 0.13.0, LightevalTask.get_docs.
    assert task.rows.ids() == ["1", "0", "2"]
    doc, requests = task.ask(0)
    assert (doc.query, doc.get_golds(), doc.row["kind"]) == ("11?", [" odd"], "test")
    (request,) = requests
    assert request == Generate("Odd or even?\n\n11?", stop=("\n",), max_tokens=3)


def test_torch_is_not_loaded_when_a_module_is_collected(module, tmp_path):
    module("TASKS_TABLE = [task()]")
    (path,) = tmp_path.glob("parity*.py")
    code = (
        "import sys; from pathlib import Path;"
        "from pytest_evals.core.task import TaskOptions;"
        "from pytest_evals.frontends.lighteval.tasks import load_tasks;"
        f"task, = load_tasks(Path({str(path)!r}), TaskOptions()); task.ask(0);"
        "assert task.rows.total() == 3;"
        "print({'torch', 'transformers', 'lighteval', 'datasets'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_metrics_of_all_kinds_ask_in_one_task(module):
    metrics = (
        "Metrics.exact_match, Metrics.loglikelihood_acc, Metrics.word_perplexity, "
        "Metrics.pass_at_k(sample_params={'k': 1, 'n': 2})"
    )
    (task,) = module(f"TASKS_TABLE = [task(metrics=[{metrics}])]")
    kinds = [type(request) for request in task.ask(0).requests]
    assert kinds == [Generate, Generate, Loglikelihood, Loglikelihood, Rolling]
    names = [metric.name for metric in task.metrics]
    assert names == ["em", "acc", "word_perplexity", "pass@k:k=1&n=2"]


def test_shots_come_from_the_training_split_and_say_that_they_are_shots(module):
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


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("", ["one", "fam:a", "fam:b", "fam"]),
        ("fam", ["fam:a", "fam:b", "fam"]),
        ("fam:a", ["fam:a"]),
        ("leaderboard|one|3", ["one"]),
        ("one|0 one|2", ["one|0", "one|2"]),
        ("one|1|0", ["one"]),
        ("lighteval|one|2|0", ["one"]),
    ],
)
def test_tasks_are_asked_for_as_in_lighteval(module, asked, names):
    if asked == "one|1|0":  # suite, name, shots: nothing is called 1
        names = []
    found = module("TASKS_TABLE = [task(n) for n in ('one', 'fam:a', 'fam:b')]", asked)
    assert [one.name for one in found] == names


def test_arguments_of_the_command_line_reach_metrics_of_several_answers(module):
    table = "TASKS_TABLE = [task(metrics=[Metrics.pass_at_k, Metrics.exact_match])]"
    (task,) = module(table, "parity@k=2@n=3")
    assert [metric.name for metric in task.metrics] == ["pass@k", "em"]
    assert len(task.ask(0).requests) == 3
    with pytest.raises(TaskFileError, match="metric 'pass@k' needs 'k'"):
        module(table)


def test_pmi_asks_choices_alone_and_wants_to_know_after_what(module):
    metric = "metrics=[LogLikelihoodAccMetric(LogProbPMINorm())]"
    said = problems(module, f"TASKS_TABLE = [task({metric})]")
    assert "unconditioned_query" in said and "row 1 of split 'test'" in said
    table = f"""
def with_query(line, name):
    doc = prompt(line, name)
    if doc is not None:
        doc.unconditioned_query = "Answer:"
    return doc

TASKS_TABLE = [task(prompt_function=with_query, {metric})]
"""
    (task,) = module(table)
    asked = task.ask(0).requests
    assert [one.context for one in asked] == ["Odd or even?\n\n11?"] * 2 + [
        "Answer:"
    ] * 2


def test_all_problems_of_a_module_are_told_with_their_lines(module):
    said = problems(
        module,
        "TASKS_TABLE = [\n"
        "    task('a', few_shots_select='balancd'),\n"
        "    task('b', evaluation_splits='test'),\n"
        "    task('c', metrics=['quasi_exact_mtach']),\n"
        "    task('d', generation_grammar={'type': 'json'}),\n"
        "]",
    )
    lines = [line for line in said.splitlines() if not line.startswith("  fix")]
    numbers = [int(line.split(":")[1]) - N_LINES for line in lines]
    assert numbers == [2, 3, 4, 5], said
    assert "not 'balancd'; did you mean 'balanced'?" in lines[0]
    assert "evaluation_splits is a list of texts, not 'test'" in lines[1]
    assert "did you mean 'quasi_exact_match'?" in lines[2]
    assert "a type, json or regex, and a value" in lines[3]


def test_of_two_tasks_with_one_name_the_later_counts_as_in_lighteval(module):
    """There a table fills a mapping; here a note says so."""
    table = "TASKS_TABLE = [\n    task('a', 1), task('b'),\n    task('a', version=2)]"
    found = module(table.replace("'a', 1", "'a', version=1"))
    assert [(task.name, task.version) for task in found] == [("a", 2), ("b", 0)]
    (note,) = found[0].warnings()
    assert note.startswith("the last task of this name counts, not that at ")
    assert not found[1].warnings()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "regex", "value": "yes|no"}, {"type": "regex", "value": "yes|no"}),
        ({"type": "json", "value": '{"a": 1}'}, {"type": "json", "value": {"a": 1}}),
    ],
)
def test_a_grammar_travels_with_each_question(module, given, wanted):
    (task,) = module(
        "from lighteval.tasks.lighteval_task import TextGenerationInputGrammarType\n"
        f"grammar = TextGenerationInputGrammarType(**{given!r})\n"
        "TASKS_TABLE = [task(generation_grammar=grammar, metrics=['exact_match'])]"
    )
    (request,) = task.ask(0).requests
    assert json.loads(dict(request.options)["grammar"]) == wanted


def test_a_module_of_lightevals_own_tree_finds_the_rest_of_it(tmp_path):
    """Files without a stand-in are loaded one by one, and see the stand-ins, too."""
    tree = tmp_path / "lighteval"
    for name, text in {
        "tasks/tasks/other/main.py": "from lighteval.metrics.metrics import Metrics\n"
        "from lighteval.utils.imports import requires\n"
        "NAME = Metrics.exact_match.value.names[0]\n",
        "tasks/helping.py": "import torch_that_nobody_has\n",
        "tasks/tasks/mine.py": "from langcodes import standardize_tag\n"
        "from lighteval.tasks.tasks.other.main import NAME\n"
        "from lighteval.metrics.metrics import math_scorer\n"
        "assert (NAME, standardize_tag('fra')) == ('em', 'fr')\n"
        "from lighteval.tasks.lighteval_task import LightevalTaskConfig\n"
        "TASKS_TABLE = [LightevalTaskConfig(name=NAME, prompt_function=print,\n"
        "    hf_repo='json', metrics=['exact_match'])]\n",
        "tasks/tasks/lacks.py": "from lighteval.tasks.helping import x\n",
    }.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (task,) = load_tasks(tree / "tasks/tasks/mine.py", TaskOptions())
    assert task.name == "em"
    with pytest.raises(TaskFileError, match="No module named 'torch_that_nobody_has'"):
        load_tasks(tree / "tasks/tasks/lacks.py", TaskOptions())


def test_metrics_that_execute_answers_want_to_be_allowed(tmp_path):
    """LiveCodeBench's of lighteval, in a task of one's own."""
    tree = tmp_path / "lighteval"
    helper = tree / "tasks/tasks/lcb/codegen_metrics.py"
    helper.parent.mkdir(parents=True)
    helper.write_text("def codegen_metrics():\n    pass\n")
    path = helper.with_name("main.py")
    path.write_text(
        "from lighteval.tasks.tasks.lcb.codegen_metrics import codegen_metrics\n"
        "from lighteval.tasks.lighteval_task import LightevalTaskConfig\n"
        "TASKS_TABLE = [LightevalTaskConfig(name='lcb', prompt_function=print,\n"
        "    hf_repo='json', metrics=['exact_match'])]\n"
    )
    with pytest.raises(TaskFileError, match="execute what the model writes") as caught:
        load_tasks(path, TaskOptions())
    assert "--evals-allow-unsafe-code" in str(caught.value)
    assert load_tasks(path, TaskOptions(allow_unsafe_code=True))


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("TASKS_TABLE = [task(hf_filter=lambda r: r['m'] > 1)]", "KeyError: 'm'"),
        ("TASKS_TABLE = [task(evaluation_splits=['tets'])]", "did you mean 'test'?"),
        ("TASKS_TABLE = [task(prompt_function=lambda r, n: 3)]", "gave 3, not a Doc"),
        ("TASKS_TABLE = [task(hf_filter=lambda r: False)]", "there are no documents"),
        ("TASKS_TABLE = [task(few_shot_split='train')]", "few_shot_split"),
        ("from lighteval.tasks.requests import Dok", "needs lighteval itself"),
        (
            "import lighteval.tasks.default_prompts as prompt\n"
            "assert prompt.LETTER_INDICES[1] == 'B'\n"
            "TASKS_TABLE = [task(prompt_function=prompt.arc)]",
            "lighteval.tasks.default_prompts.arc needs lighteval itself",
        ),
        ("TASKS_TABLE = 3", "TASKS_TABLE is a list of tasks, not 3"),
        ("TASKS_TABLE = [3]", "which is no LightevalTaskConfig"),
    ],
)
def test_what_is_wrong_is_said_with_a_place(module, table, what):
    said = problems(module, table)
    assert what in said and "parity" in said


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
    asked = {}
    for i, id_ in enumerate(task.rows.ids()):
        try:
            asked[id_] = task.ask(i).doc.query
        except DocumentError as error:
            asked[id_] = str(error)
    fault = asked.pop("3")
    assert "ZeroDivisionError" in fault and "parity0.py:" in fault
    assert asked == {"0": "10", "1": "11", "2": "12"}


def test_names_of_earlier_releases_still_work(module):
    table = """
from aenum import extend_enum
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from lighteval.metrics.metrics import MetricCategory
from lighteval.metrics.utils.metric_utils import MetricUseCase, SampleLevelMetric

@solver
def unused(sample: Sample | None = None) -> list[Sample]:
    return [Sample(input="x")]

def length(predictions, formatted_doc, **kwargs):
    return len(predictions[0]) + len(formatted_doc.query)

extend_enum(Metrics, "my_length", SampleLevelMetric(
    metric_name="length", higher_is_better=True, category=MetricCategory.GENERATIVE,
    use_case=MetricUseCase.REASONING, sample_level_fn=length, corpus_level_fn=max,
))

class Old(LightevalTaskConfig):
    def __init__(self, name):
        super().__init__(
            name=name, prompt_function=prompt, suite=["community"], hf_repo="json",
            hf_subset="default", hf_data_files={"test": "test.jsonl"},
            metric=[Metrics.my_length, Metrics.prefix_quasi_exact_match.value],
            evaluation_splits=["test"], trust_dataset=True,
            sample_fields=lambda row: Sample(input=row), solver=[unused()],
        )

TASKS_TABLE = [Old("old")]
"""
    (task,) = module(table)
    assert [metric.name for metric in task.metrics] == ["length", "pqem"]
    lines = (HEAD + table).splitlines()
    assert lines[task.source.line - 1].startswith("TASKS_TABLE")


def test_modules_beside_a_module_are_found(module, tmp_path):
    (tmp_path / "my_prompts.py").write_text(
        "from lighteval.tasks.requests import Doc\n"
        "def from_file(line, name):\n    return Doc('beside', ['x'], 0)\n"
    )
    table = "import my_prompts\nfrom .my_prompts import from_file as other\n"
    table += "assert other is my_prompts.from_file\n"
    table += "TASKS_TABLE = [task(prompt_function=my_prompts.from_file)]"
    (task,) = module(table)
    assert task.ask(0).doc.query == "beside"


def test_a_library_that_is_not_there_is_named(module):
    said = problems(module, "import pycuontry.countries\nTASKS_TABLE = []")
    assert "No module named 'pycuontry'" in said
    assert "fix: install what brings 'pycuontry', or put pycuontry.py" in said


def test_languages_have_the_second_names_that_lighteval_gives_them(module):
    """Its enumeration (0.13.0) has 222 names of 218 languages."""
    table = (
        "from lighteval.utils.language import Language\n"
        "assert Language.PUNJABI is Language.EASTERN_PANJABI\n"
        "assert Language.KYRGYZ.value == 'kir' and Language.WARAY.value == 'war'\n"
        "assert Language.SORANI is Language.CENTRAL_KURDISH\n"
        "TASKS_TABLE = [task()]"
    )
    assert len(module(table)) == 1


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("TASKS_TABLE = [x]", True),
        ("TASKS_TABLE: list[LightevalTaskConfig] = []\n", True),
        ("import x\nfrom tables import A, TASKS_TABLE\n", True),
        ("# TASKS_TABLE = 3", False),
        ("def f():\n    TASKS_TABLE = []\n", False),
        ("assert TASKS_TABLE == []", False),
        ("", False),
    ],
)
def test_a_task_module_is_told_from_its_text(text, is_one):
    assert is_task_module(text.encode()) is is_one


def test_the_configuration_is_the_same_in_every_process(module, tmp_path):
    (task,) = module("TASKS_TABLE = [task(metrics=[Metrics.rouge_t5])]")
    text = json.dumps(task.config, sort_keys=True)
    assert " at 0x" not in text and task.config["generation_size"] == 3


PICTURES = """
class Picture:
    mode, size = "RGB", (1, 1)

    def save(self, stream, format):
        stream.write(b"\\x89PNG " + format.encode())

def see(line, name):
    return Doc("What is this?", ["A cat"], 0, instruction="Look.", images=[Picture()])
"""


def test_images_travel_behind_the_text_of_a_chat(module):
    """The multimodal example of lighteval's page on Doc, with a picture that has what
    PIL's have."""
    (task,) = module(f"{PICTURES}TASKS_TABLE = [task(prompt_function=see)]", "parity|2")
    (request,) = task.ask(0).requests
    assert request.prompt == (
        Message("system", "Look."),
        Message("user", "What is this?"),
    )
    (url,) = dict(request.options)[IMAGES]
    assert url == "data:image/png;base64,iVBORyBQTkc="
    said = problems(
        module,
        f"{PICTURES}TASKS_TABLE = [task(prompt_function=see, "
        "metrics=[Metrics.loglikelihood_acc])]",
    )
    assert "only generated answers can be asked about images" in said


def test_rows_with_images_are_the_same_in_every_process():
    class Picture:
        mode = "RGB"

        def save(self, stream, **_):
            stream.write(b"x")

    row = {"a": [Picture()], "b": {"c": 1}}
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


def test_examples_of_the_page_on_doc_are_asked_as_they_say(module):
    capital, story, translation = module(DOCS)
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
