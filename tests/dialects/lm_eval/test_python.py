"""Task classes of lm-eval: errors, and independence of the order of documents.
``tests/parity`` shows that they give lm-eval's numbers."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from pytest_evals.core.dialogue import Exchange
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.task import Task, TaskOptions
from pytest_evals.data import hub
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.errors import DocumentError, TaskFileError
from pytest_evals.scorers.summary import summarise

MODULE = """
import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

class Mine(ConfigurableTask):
    def __init__(self, config=None):
        super().__init__(config={"metadata": {"version": 1}, **KEYS})
    def download(self, *args, **kwargs):
        rows = [{"id": f"d{i}", "q": f"Q{i}"} for i in range(9)]
        self.dataset = {"test": datasets.Dataset.from_list(rows)}
    def has_test_docs(self):
        return True
    def test_docs(self):
        return self.dataset["test"]
    def doc_to_text(self, doc, doc_to_text=None):
        return doc["q"]
    def doc_to_target(self, doc, doc_to_target=None):
        return " T" + doc["q"]
    def construct_requests(self, doc, ctx, **kwargs):
        return [ask(doc, ctx, kwargs["metadata"])]
    def process_results(self, doc, results):
        return {"seen": len(results[0])}
    def aggregation(self):
        return {"seen": sum}
    def higher_is_better(self):
        return {"seen": True}

KEYS = {}
def ask(doc, ctx, metadata):
    return Instance("generate_until", doc, (ctx, {"until": ["x"]}), 0, metadata)
"""


def load(folder: Path, more: str = "", **options: object) -> Task:
    (folder / "task.py").write_text(MODULE + more)
    (folder / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    (task,) = load_tasks(folder / "t.yaml", TaskOptions(**options))
    return task


def answered(task: Task, index: int, text: str) -> Record:
    doc, requests = task.ask(index)
    return Record(
        task="t",
        index=index,
        doc=doc,
        requests=requests,
        responses=tuple(Response(text=text) for _ in requests),
    )


def test_documents_have_their_ids_requests_and_scores(tmp_path):
    task = load(tmp_path, limit=2)
    assert list(task.rows.ids()) == ["d0", "d1"]
    assert task.rows.total() == 9
    assert task.ask(1).requests == (Generate("Q1", stop=("x",)),)
    (score,) = task.score(answered(task, 1, "four"))
    assert (score.metric, score.value, score.answer) == ("seen", 4, "four")
    assert task.metrics[0].aggregate([4, 3]).value == 7


def test_few_shot_examples_do_not_depend_on_the_order_of_documents(tmp_path):
    forward = load(tmp_path, num_fewshot=3)
    backward = load(tmp_path, num_fewshot=3)
    last = [backward.ask(i).requests for i in reversed(range(9))]
    first = [forward.ask(i).requests for i in range(9)]
    assert first == last[::-1]
    assert first[0][0].prompt.count("\n\n") == 3


def test_a_document_is_made_alone_unless_the_class_draws_shots_in_its_own_way(
    tmp_path,
):
    count = "\ndef ask(doc, ctx, metadata):\n    MADE.append(doc['q'])\n"
    count += "    return Instance('generate_until', doc, (ctx, {}), 0, metadata)\n"
    count += "MADE = []\n"
    own = "def own(self, doc, **more):\n    return ConfigurableTask.fewshot_context("
    own += "self, doc, **more)\nMine.fewshot_context = own\n"

    def made(name: str, more: str, **options: object) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        task = load(folder, more, **options)
        task.ask(2)
        return sys.modules[type(task.rows._task).__module__].MADE

    assert made("none", count) == ["Q2"]
    assert made("sampled", count, num_fewshot=2) == ["Q2"]
    assert made("own", count + own) == ["Q0", "Q1", "Q2"]


def test_changes_of_a_row_by_a_class_do_not_affect_other_documents(tmp_path):
    """lm-eval passes the same row objects of a list to all callers."""
    more = "\nclass Rows(list):\n    features = {'q': None, 'id': None}\n"
    more += "def download(self, *args, **kwargs):\n"
    more += "    self.dataset = {'test': Rows({'q': [f'Q{i}'], 'id': str(i)}"
    more += " for i in range(9))}\n"
    more += "def text(self, doc, doc_to_text=None):\n"
    more += "    doc['q'].append('again')\n    return ' '.join(doc['q'])\n"
    more += "Mine.download, Mine.doc_to_text = download, text\n"
    more += "Mine.doc_to_target = lambda self, doc, doc_to_target=None: ' T'\n"
    task = load(tmp_path, more, num_fewshot=3)
    for index in (5, 0, 5):
        prompt = task.ask(index).requests[0].prompt
        for text in prompt.split("\n\n"):
            # the first document was read when the object was created
            assert text.count("again") == (2 if "Q0" in text else 1)


def test_documents_of_a_class_are_excluded_from_their_own_examples_on_request(tmp_path):
    """The pool is the requested split, which lm-eval does not notice: the class names
    no split."""
    keys = "\nKEYS = {'validation_split': None, 'test_split': 'test'}\n"

    def own(**options: object) -> list[bool]:
        task = load(tmp_path, keys, num_fewshot=5, **options)
        prompts = [task.ask(i).requests[0].prompt.split("\n\n") for i in range(9)]
        return [
            prompt[-1] in [s.split(" ")[0] for s in prompt[:-1]] for prompt in prompts
        ]

    assert any(own())
    assert not any(own(exclude_own_shots=True))


def test_filters_of_a_class_that_look_beyond_a_document_are_found(tmp_path):
    more = "\ndef first_of_all(self):\n    for one in self._instances:\n"
    more += "        one.filtered_resps['none'] = self._instances[0].resps[0]\n"
    (tmp_path / "own").mkdir()
    plain, own = (
        load(tmp_path, ""),
        load(tmp_path / "own", f"{more}Mine.apply_filters = first_of_all\n"),
    )
    for task in (plain, own):
        for index, text in enumerate(["a", "b", "c"]):
            assert task.score(answered(task, index, text))[0].value == 1
    assert plain.warnings() == ()
    assert "depend on other documents" in own.warnings()[0]


def test_values_that_a_class_adds_to_a_row_reach_its_scores(tmp_path):
    more = "\nclass Rows(list):\n    features = {'q': None}\n"
    more += "Mine.download = lambda self, *a, **k: setattr(self, 'dataset', "
    more += "{'test': Rows({'q': f'Q{i}'} for i in range(3))})\n"
    more += "def ask(doc, ctx, metadata):\n    doc['note'] = 7\n"
    more += "    return Instance('generate_until', doc, (ctx, {}), 0, metadata)\n"
    more += "Mine.process_results = lambda self, doc, results: {'seen': doc['note']}\n"
    task = load(tmp_path, more)
    assert task.score(answered(task, 1, "x"))[0].value == 7


@pytest.mark.parametrize("name", ["build_all_requests", "doc_iterator"])
def test_a_method_that_is_never_called_is_an_error_of_the_file(name, tmp_path):
    with pytest.raises(TaskFileError, match=rf"class: Mine.{name} is never called"):
        load(tmp_path, f"\nMine.{name} = lambda self, **more: None\n")


def test_values_of_functions_that_return_several_have_their_aggregations(tmp_path):
    """As lm-eval 0.4.13 provides them (``api/task.py``, ``process_results``)."""
    more = "\ndef several(references, predictions):\n"
    more += "    return {'a': 1, 'b': len(predictions[0])}\n"
    more += "def further(references, predictions):\n"
    more += "    return {'c': len(predictions[0])}\n"
    more += "def most(values):\n    return max(values)\n"
    more += "def least(values):\n    return min(values)\n"
    more += "KEYS = {'metric_list': ["
    more += "{'metric': several, 'aggregation': most, 'higher_is_better': False}, "
    more += "{'metric': further, 'aggregation': least, 'higher_is_better': True}]}\n"
    more += "for name in ('process_results', 'aggregation', 'higher_is_better'):\n"
    more += "    delattr(Mine, name)\n"
    task = load(tmp_path, more)
    requests = [answered(task, i, "x" * n) for i, n in enumerate((1, 5, 2))]
    scored = [replace(record, scores=task.score(record)) for record in requests]
    found = {one.name: one for one in summarise(task, scored, 3).metrics}
    assert {name: one.estimate.value for name, one in found.items()} == {
        "a": 1,
        "b": 5,
        "c": 1,
    }
    assert [found[name].higher_is_better for name in "abc"] == [False, False, True]


def test_a_document_that_the_class_fails_on_is_an_error_of_that_document(tmp_path):
    broken = "\ndef ask(doc, ctx, metadata):\n    if doc['q'] == 'Q1':\n"
    broken += "        raise KeyError('text')\n"
    broken += "    return Instance('generate_until', doc, (ctx, {}), 0, metadata)\n"
    task = load(tmp_path, broken)
    with pytest.raises(DocumentError, match=r"construct_requests: KeyError: 'text' \("):
        task.ask(1)
    assert task.ask(2).requests == (Generate("Q2"),)


@pytest.mark.parametrize(
    ("requests", "fault"),
    [
        ("Instance('guess', doc, (ctx,), 0, metadata)", "of type 'guess'"),
        (
            "Instance('loglikelihood', doc, (ctx, 'a', {}, 1), 0, metadata)",
            "4 arguments",
        ),
        ("Instance('loglikelihood', doc, (ctx, 5), 0, metadata)", "not 5"),
        ("Instance('generate_until', doc, (ctx, 5), 0, metadata)", "mapping"),
    ],
)
def test_requests_that_models_do_not_support_are_errors_of_their_document(
    requests, fault, tmp_path
):
    task = load(tmp_path, f"\ndef ask(doc, ctx, metadata):\n    return {requests}\n")
    with pytest.raises(DocumentError, match=fault):
        task.ask(0)


def test_equal_sampled_requests_are_sent_separately(tmp_path):
    arguments = "(ctx, {'do_sample': True, 'temperature': 0.7})"
    twice = f"[Instance('generate_until', doc, {arguments}, i, m) for i in (0, 1)]"
    more = f"\nMine.construct_requests = lambda self, doc, ctx, metadata, **_: {twice}"
    task = load(tmp_path, more.replace(" m)", " metadata)"))
    first, second = task.ask(0).requests
    assert (first.repeat, second.repeat) == (0, 1)


def test_a_chat_reaches_the_model_as_messages(tmp_path):
    task = load(tmp_path, chat=True, system_instruction="Be brief.")
    (request,) = task.ask(0).requests
    assert [tuple(each) for each in request.prompt] == [
        ("system", "Be brief."),
        ("user", "Q0"),
    ]


def test_a_chat_that_the_class_changes_is_an_error_of_its_document(tmp_path):
    more = "\ndef ask(doc, ctx, metadata):\n"
    more += "    return Instance('loglikelihood', doc, (ctx + '!', 'a'), 0, metadata)\n"
    assert load(tmp_path, more).ask(0).requests[0].context == "Q0!"
    with pytest.raises(DocumentError, match="a chat is rendered by the model"):
        load(tmp_path, more, chat=True).ask(0)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("class Mine:\n    pass\n", "class: Mine is not an lm-eval task"),
        ("KEYS = {'output_type': 'guess'}\n", "class: Mine: ValueError"),
        ("Mine.aggregation = lambda self: {'a': 1}\n", "returned 1 for 'a'"),
        ("KEYS = {'unsafe_code': True}\n", "executes model output"),
        (
            "Mine = type('Mine', (ConfigurableTask,), {})\n",
            "class: Mine: neither the file nor the class sets a dataset",
        ),
        ("1 / 0\n", "importing 'task' failed: ZeroDivisionError"),
    ],
)
def test_a_class_that_cannot_be_run_is_one_error_of_its_file(more, fault, tmp_path):
    with pytest.raises(TaskFileError) as error:
        load(tmp_path, f"\n{more}")
    assert fault in str(error.value)
    assert str(error.value).count("t.yaml:2: ") == 1


@pytest.mark.guests
def test_metrics_of_lighteval_are_measured_next_to_those_of_the_class(tmp_path):
    (tmp_path / "task.py").write_text(MODULE)
    (tmp_path / "t.yaml").write_text(
        "task: t\nclass: !function task.Mine\nmetric_list:\n"
        "  - metric: lighteval:exact_match\n    strip_strings: true\n"
        "  - metric: lighteval:simpleqa_judge\n"
    )
    (task,) = load_tasks(tmp_path / "t.yaml", TaskOptions())
    names = [metric.name for metric in task.metrics]
    assert names == ["seen", "em:strip_strings=True", "simpleqa_judge"]
    record = answered(task, 3, "TQ3")
    dialogue = task.follow_up(record)
    (ask,) = next(dialogue)
    assert ask.model in task.models and "TQ3" in ask.request.prompt[-1].content
    with pytest.raises(StopIteration):
        dialogue.send([Response(text="B")])
    record = replace(record, exchanges=(Exchange(*ask, Response(text="B")),))
    values = {score.metric: score.value for score in task.score(record)}
    assert values == {"seen": 3, "em:strip_strings=True": 1, "simpleqa_judge": 0}


@pytest.mark.guests
def test_a_metric_that_a_class_cannot_measure_is_reported_with_its_line(tmp_path):
    (tmp_path / "task.py").write_text(MODULE)
    (tmp_path / "t.yaml").write_text(
        "task: t\nclass: !function task.Mine\nmetric_list:\n"
        "  - metric: lighteval:exact_mtach\n"
        "  - metric: lighteval:loglikelihood_acc\n"
    )
    with pytest.raises(TaskFileError) as caught:
        load_tasks(tmp_path / "t.yaml", TaskOptions())
    lines = str(caught.value).splitlines()
    assert "t.yaml:4: " in lines[0] and "did you mean 'exact_match'?" in lines[0]
    assert "t.yaml:5: " in lines[1] and "output_type generate_until" in lines[1]


def test_a_class_with_images_warns_before_any_of_them_is_read(tmp_path):
    """So text-only models are rejected before one is loaded."""
    shown = 'KEYS = {"doc_to_image": ["photo"]}\n'
    assert load(tmp_path, shown).shows_images


NAMED = """
class Mine(ConfigurableTask):
    DATASET_PATH = "acme/questions"
    CONFIG = None
    def __init__(self, config=None):
        super().__init__(config={"output_type": "loglikelihood", "test_split": "test"})
"""
FUNCTION = """
def rows():
    return datasets.load_dataset("acme/questions")
class Mine(Mine):
    def download(self, *args, **kwargs):
        self.dataset = rows()
"""


@pytest.mark.parametrize("more", [NAMED, FUNCTION])
def test_classes_that_download_ask_a_silent_hub_once(more, tmp_path, monkeypatch):
    """As on a network that drops packets: the library would try for minutes."""
    monkeypatch.setattr(hub, "PROBE_S", 0.05)
    monkeypatch.setattr(hub, "_servers", {})
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    unreachable = r"t\.yaml:2: class: Mine: .*unreachable a short time ago"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        with pytest.raises(TaskFileError, match=unreachable) as caught:
            load(tmp_path, more)
        assert caught.value.problems[0].unreachable
        silent.accept()[0].close()
        silent.settimeout(0.1)
        with pytest.raises(TaskFileError, match=unreachable):
            load(tmp_path, more)
        with pytest.raises(TimeoutError):
            silent.accept()
