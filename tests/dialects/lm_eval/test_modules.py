"""Modules of tasks that import lm-eval, without lm-eval installed.

lm-eval is installed in the test environment, so each test runs in a fork of a Python
process in which an import finder hides ``lm_eval``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BEGINNING = """
import json, os, sys
import datasets
from pathlib import Path
from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.task import TaskOptions
from pytest_evals.errors import EvalsError
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef
from pytest_evals.errors import Place
from pytest_evals.dialects.lm_eval.functions import resolve
from pytest_evals.dialects.lm_eval.task import load_tasks

def function(name):
    return resolve(FunctionRef(Place(Path("t.yaml").absolute(), 1), name))

def task():
    return load_tasks(Path("t.yaml").absolute(), TaskOptions())[0]
"""
FORKS = """
for line in sys.stdin:
    folder, code = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), stream)
        exec(code)
        sys.stdout.flush()
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
TASK = """task: t
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: q
doc_to_target: a
"""


@pytest.fixture(scope="module")
def forks(without_lm_eval) -> Iterator[subprocess.Popen[str]]:
    """A process that runs each line of its input, a folder and code, in a fork."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{without_lm_eval}{BEGINNING}{FORKS}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.fixture
def without(tmp_path, forks) -> Callable[[str], object]:
    """Run code next to the files of ``tmp_path``; return its output as JSON."""
    (tmp_path / "rows.jsonl").write_text('{"q": "x", "a": "y"}\n')

    def run(code: str) -> object:
        print(json.dumps([str(tmp_path), code]), file=forks.stdin, flush=True)
        status = forks.stdout.readline().strip()
        assert status == "0", (tmp_path / "stderr").read_text()
        return json.loads((tmp_path / "stdout").read_text().splitlines()[-1])

    return run


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


@pytest.mark.slow
def test_every_name_of_the_reference_is_there_and_lm_eval_itself_is_not(
    tmp_path, without
):
    names = (
        "from lm_eval.utils import general_detokenize, handle_non_serializable, "
        "make_table, weighted_f1_score\n"
        "from lm_eval.filters.extraction import Filter, RegexFilter\n"
        "from lm_eval.api.filter import Filter as Same\n"
        "from lm_eval.api.instance import Instance\n"
        "from lm_eval.api.metrics import mean, metric_max_over_ground_truths\n"
        "from lm_eval.api.registry import register_filter\n"
        "from lm_eval.api.task import ConfigurableTask\n"
        "import lm_eval.utils as whole\n"
        "class Mine(ConfigurableTask):\n    VERSION = 1\n"
        "def f():\n    return Same is Filter and whole.make_table is make_table\n"
    )
    write(tmp_path, utils=names)
    found = without(
        "print(json.dumps([function('utils.f')(), function('utils.Mine').VERSION,"
        "[n for n in sys.modules if n.startswith('lm_eval')]]))"
    )
    assert found == [True, 1, []]


def test_an_import_inside_a_function_works_as_well(tmp_path, without):
    late = "def f(x):\n    from lm_eval.utils import general_detokenize as d\n"
    write(tmp_path, utils=f"{late}    return d(x)\n")
    text = 'is n\'t it ( so ) " said " he , she .'
    found = without(f"print(json.dumps(function('utils.f')({text!r})))")
    # by hand, from the reference: no space before n't ) ' . , after ( and around "
    assert found == 'isn\'t it (so)"said"he, she.'


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from lm_eval.utils import simple_parse_args_string", "simple_parse_args"),
        ("from lm_eval.models.huggingface import HFLM", "lm_eval.models"),
        ("import lm_eval.evaluator", "lm_eval.evaluator"),
        ("from lm_eval.tasks.nowhere import x", "lm_eval.tasks.nowhere"),
    ],
)
def test_anything_else_is_one_error_that_names_it_and_its_line(
    line, name, tmp_path, without
):
    write(tmp_path, utils=f"import re\n{line}\n")
    text = without(
        "try:\n    function('utils.f')\n"
        "except EvalsError as error:\n    print(json.dumps(str(error)))"
    )
    assert name in text
    assert "(utils.py:2)" in text
    assert text.endswith("fix: pip install lm-eval==0.4.13")


def test_modules_of_other_tasks_are_found_in_the_tree_that_holds_the_file(
    tmp_path, without
):
    tree = tmp_path / "mine"
    for folder in ("mmlu", "score/deep"):
        (tree / folder).mkdir(parents=True)
    write(tree / "mmlu", words="HERE = 'mmlu'\n")
    write(tree / "score", base="from lm_eval.tasks.mmlu.words import HERE\n")
    write(
        tree / "score" / "deep",
        utils="from lm_eval.tasks.score import base\n"
        "import lm_eval.tasks.mmlu.words as words\n"
        "def f():\n    return [base.HERE, words.HERE]\n",
    )
    found = without("print(json.dumps(function('mine.score.deep.utils.f')()))")
    assert found == ["mmlu", "mmlu"]


def test_a_filter_that_a_module_registers_can_be_named_in_filter_list(
    tmp_path, without
):
    write(
        tmp_path,
        utils="from lm_eval.api.registry import register_filter\n"
        "from lm_eval.filters.extraction import RegexFilter\n"
        "@register_filter('last_digit')\n"
        "class Last(RegexFilter):\n"
        "    def __init__(self):\n        super().__init__(r'\\d', -1)\n"
        "def process_docs(rows):\n    return rows\n",
    )
    filters = "{function: last_digit}, {function: take_first}"
    (tmp_path / "t.yaml").write_text(
        f"{TASK}process_docs: !function utils.process_docs\n"
        f"filter_list: [{{name: last, filter: [{filters}]}}]\n"
    )
    found = without(
        "t = task(); sent = t.ask(0)\n"
        "record = Record(task='t', index=0, doc=sent.doc, requests=sent.requests, "
        "responses=(Response(text='1 and 2'),))\n"
        "print(json.dumps(t.score(record)[0].filtered))"
    )
    assert found == ["2"]


CLASS = """
from lm_eval.api.task import ConfigurableTask

class Mine(ConfigurableTask):
    def __init__(self, config=None):
        super().__init__(config={"test_split": "test", "doc_to_text": "q",
            "doc_to_target": "{{a}}", "output_type": "loglikelihood"})
    def download(self, *args, **kwargs):
        import datasets
        self.dataset = {"test": datasets.Dataset.from_list([{"q": "Q", "a": " A"}])}
"""


def test_a_task_class_needs_no_lm_eval(tmp_path, without):
    """``tests/parity`` shows that such classes give lm-eval's numbers."""
    write(tmp_path, task=CLASS)
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    found = without(
        "t = task(); sent = t.ask(0)\n"
        "record = Record(task='t', index=0, doc=sent.doc, requests=sent.requests, "
        "responses=(Response(logprob=-2.0, greedy=True),))\n"
        "scores = {one.metric: one.value for one in t.score(record)}\n"
        "print(json.dumps([sent.requests[0].continuation, scores]))"
    )
    assert found == [" A", {"perplexity": -2.0, "acc": 1.0}]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("def build_qa_turn(self, **turn):\n        return []", "Mine.build_qa_turn"),
        ("def test_docs(self):\n        return self.instances", "instances of a task"),
        (
            "def test_docs(self):\n        return self._metric_fn_list",
            "_metric_fn_list",
        ),
    ],
)
def test_a_name_that_needs_an_installed_lm_eval_is_one_error_with_the_name(
    more, fault, tmp_path, without
):
    write(tmp_path, task=f"{CLASS}\n    {more}\n")
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    text = without(
        "try:\n    task()\n"
        "except EvalsError as error:\n    print(json.dumps(str(error)))"
    )
    assert text.startswith("t.yaml:2: class: Mine")
    assert fault in text
    assert (
        "needs lm-eval, which is not installed; run: pip install lm-eval==0.4.13"
        in text
    )
    assert "\n" not in text


NEWER = """
    def doc_to_text(self, doc):
        self.config.num_fewshot = None
        self.set_num_fewshot(3)
        self.set_repeats(2)
        rows = [self.process_doc(row) for row in self.get_docs("test_split")]
        shots, self.config.num_fewshot = self.config.num_fewshot, 0
        return json.dumps([
            self.task, shots, self.config.repeats, rows,
            self.get_docs("training_split"), self.is_multimodal, self.MULTIMODAL,
        ])
"""


def test_a_class_may_use_names_of_later_releases(tmp_path, without):
    """Names and meanings as on the seed's page about the class ``Task``."""
    write(tmp_path, task=f"import json\n{CLASS}{NEWER}")
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    found = without("print(task().ask(0).requests[0].context)")
    assert found == ["t", 3, 2, [{"q": "Q", "a": " A"}], None, False, False]


def test_zero_examples_of_a_class_stay_and_a_task_is_created_from_its_keys(
    tmp_path, without
):
    code = (
        "from lm_eval.api.task import ConfigurableTask, Task\n"
        "KEYS = dict(task='k', dataset_path='json', test_split='test', num_fewshot=0, "
        "dataset_kwargs={'data_files': {'test': 'rows.jsonl'}}, doc_to_text='q', "
        "doc_to_target='a')\n"
        "def made():\n"
        "    one = Task.from_config(KEYS)\n"
        "    one.set_num_fewshot(4)\n"
        "    again = ConfigurableTask.from_config(one.config)\n"
        "    kept = one.get_docs('fewshot_split'), again.config.to_dict()\n"
        "    return one.task, one.config.num_fewshot, kept == (None, one.dump_config())"
    )
    write(tmp_path, utils=code)
    assert without("print(json.dumps(function('utils.made')()))") == ["k", 0, True]


@pytest.mark.parametrize("name", ["aggregate", "id", "process_instances", "scorers"])
def test_a_name_of_later_releases_only_is_one_error_with_the_name(
    name, tmp_path, without
):
    more = f"def test_docs(self):\n        return self.{name}"
    write(tmp_path, task=f"{CLASS}\n    {more}\n")
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    text = without(
        "try:\n    task()\n"
        "except EvalsError as error:\n    print(json.dumps(str(error)))"
    )
    assert text.startswith("t.yaml:2: class: Mine")
    assert f"{name} of a task is newer than lm-eval 0.4.13" in text
    assert "instead, " in text


@pytest.mark.parametrize("name", ["scorers", "set_repeats(2)", "get_docs('test')"])
def test_an_installed_lm_eval_lacks_names_of_later_releases(tmp_path, name):
    from pytest_evals.core.task import TaskOptions
    from pytest_evals.dialects.lm_eval.task import load_tasks
    from pytest_evals.errors import TaskFileError

    more = f"def test_docs(self):\n        return self.{name}"
    write(tmp_path, task=f"{CLASS}\n    {more}\n")
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    with pytest.raises(TaskFileError) as error:
        load_tasks(tmp_path / "t.yaml", TaskOptions())
    assert "fix: this name is newer than the installed lm-eval" in str(error.value)


def test_a_method_that_only_later_releases_call_is_reported(tmp_path):
    from pytest_evals.core.task import TaskOptions
    from pytest_evals.dialects.lm_eval.task import load_tasks

    more = "def process_instances(self):\n        pass"
    write(tmp_path, task=f"{CLASS}\n    {more}\n")
    (tmp_path / "t.yaml").write_text("task: t\nclass: !function task.Mine\n")
    (task,) = load_tasks(tmp_path / "t.yaml", TaskOptions())
    assert any("Mine.process_instances is never called" in w for w in task.warnings())


@pytest.mark.slow
def test_an_installed_lm_eval_is_the_one_that_modules_get(tmp_path):
    from lm_eval.utils import weighted_f1_score

    from pytest_evals.dialects.lm_eval.functions import resolve
    from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef
    from pytest_evals.errors import Place

    write(tmp_path, utils="from lm_eval.utils import weighted_f1_score as f\n")
    found = resolve(FunctionRef(Place(tmp_path / "t.yaml"), "utils.f"))
    assert found is weighted_f1_score


@pytest.mark.slow
def test_a_filter_of_one_name_may_be_registered_by_two_modules(tmp_path):
    from pytest_evals.dialects.lm_eval.modules import (
        load_module,
        registered_filter,
    )

    text = (
        "from lm_eval.api.registry import register_filter\n"
        "@register_filter('twice_over')\n"
        "class Same:\n    def apply(self, resps, docs):\n        return resps\n"
    )
    write(tmp_path, one=text, two=text)
    for name in ("one", "two"):
        module = load_module(tmp_path / f"{name}.py")
        assert registered_filter("twice_over") is module.Same
