"""Modules as users of lighteval write them, loaded without lighteval."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.record import Record
from pytest_evals.core.request import Response
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.detect import is_task_module
from pytest_evals.errors import TaskFileError
from pytest_evals.guests.lighteval.config import LightevalTaskConfig
from pytest_evals.guests.lighteval.shims import find_export
from pytest_evals.guests.lighteval.tasks import load_tasks
from pytest_evals.scorers.custom_metrics.response import ModelResponse


@pytest.mark.slow
def test_torch_is_not_loaded_when_a_module_is_collected(module, tmp_path):
    module("TASKS_TABLE = [task()]")
    (path,) = tmp_path.glob("parity*.py")
    code = (
        "import sys; from pathlib import Path;"
        "from pytest_evals.core.task import TaskOptions;"
        "from pytest_evals.guests.lighteval.tasks import load_tasks;"
        f"task, = load_tasks(Path({str(path)!r}), TaskOptions()); task.ask(0);"
        "assert task.rows.total() == 3;"
        "print({'torch', 'transformers', 'lighteval', 'datasets'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_a_module_of_lightevals_own_tree_finds_the_rest_of_it(tmp_path):
    """Files without a shim are loaded one by one, and use the shims too."""
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


@pytest.mark.parametrize("name", ["None", "5", "[]", "{}", "['']", "['a', None]"])
def test_a_metric_whose_name_is_not_a_string_is_an_error(module, name):
    with pytest.raises(
        TaskFileError, match="metric_name must be a string or a list of"
    ):
        module(
            f"odd = SampleLevelMetric(metric_name={name}, higher_is_better=True,\n"
            "    category=SamplingMethod.GENERATIVE, sample_level_fn=len,\n"
            "    corpus_level_fn=sum)\n"
            "TASKS_TABLE = [task(metrics=[odd])]"
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("higher_is_better", "[[]]"),
        ("higher_is_better", "'yes'"),
        ("higher_is_better", "{'odd': []}"),
        ("category", "'generative'"),
        ("category", "print"),
        ("sample_level_fn", "'len'"),
        ("corpus_level_fn", "None"),
        ("corpus_level_fn", "'mean'"),
        ("corpus_level_fn", "{'odd': 5}"),
        ("corpus_level_fn", "{'odd': sum}"),
    ],
)
def test_a_field_of_a_metric_of_another_type_is_one_problem_with_its_line(
    module, field, value, n_lines
):
    fields = {
        "metric_name": "['odd', 'even']",
        "higher_is_better": "{'odd': True, 'even': None}",
        "category": "SamplingMethod.GENERATIVE",
        "sample_level_fn": "len",
        "corpus_level_fn": "{'odd': sum, 'even': sum}",
    }
    given = ", ".join(f"{key}={one}" for key, one in {**fields, field: value}.items())
    with pytest.raises(TaskFileError) as caught:
        module(f"odd = SampleLevelMetric({given})\nTASKS_TABLE = [task(metrics=[odd])]")
    (first, *_) = str(caught.value).splitlines()
    assert f"py:{n_lines + 2}: metrics: {field} of ['odd', 'even'] must be " in first


@pytest.mark.parametrize("value", ["5", "print", "{}", "'em'", "Metrics.exact_match"])
def test_metrics_that_are_not_a_list_are_one_problem_with_its_line(
    module, value, n_lines
):
    with pytest.raises(
        TaskFileError, match=rf"py:{n_lines + 1}: metrics (must be a|is empty)"
    ):
        module(f"TASKS_TABLE = [task(metrics={value})]")


def test_names_of_earlier_releases_still_work(module, n_lines):
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
    line = table.splitlines()[task.source.line - n_lines - 1]
    assert line.startswith("TASKS_TABLE")


NAMES = """
from lighteval.metrics import Metric, ModelResponse, metrics_sample
from lighteval.metrics.dynamic_metrics import ExactMatches, Language
from lighteval.metrics.metrics import LoglikelihoodPreparator, bigbench_normalizer
from lighteval.metrics.metrics_corpus import LogprobCorpusMetricInput, as_list
from lighteval.metrics.metrics_sample import safe_divide, remove_braces
from lighteval.metrics.normalizations import Language as again
from lighteval.metrics.sample_preparator import (
    Doc as Document, GenerativeCorpusMetricInput, PerplexityCorpusMetricInput,
)
from lighteval.tasks.lighteval_task import Metric as same, Metrics as all_of_them
from lighteval.tasks.templates.qa import QAInput, get_mcq_prompt_function
from lighteval.utils.imports import Extra, requires
from lighteval.utils.language import iso_639_3_ind_to_iso_639_3_macro as macro
from lighteval.utils.timeout import timeout
from lighteval.utils.utils import ListLike
import lighteval.metrics.metrics_corpus as corpus

assert (same, again, Document, all_of_them) == (Metric, Language, Doc, Metrics)
assert metrics_sample.ExactMatches is ExactMatches
assert corpus.GenerativeCorpusMetricInput(["a"], ["b"]).preds == ["b"]
assert (macro["arz"], macro["fra"]) == (Language.ARABIC, Language.FRENCH)
assert QAInput(question="?", choices=["a"]) == {"question": "?", "choices": ["a"]}
assert timeout(5)(len)("abc") == 3

@requires(Extra.MULTILINGUAL)
def nothing(given: ListLike[str]):
    return given

TASKS_TABLE = [task()]
"""


def test_names_are_found_wherever_lighteval_has_them(module):
    """Each of these imports works in lighteval 0.13.0."""
    assert len(module(NAMES)) == 1


ORDER = """
from lighteval.metrics.metrics_corpus import CorpusLevelF1Score, matthews_corrcoef
from lighteval.metrics.metrics_sample import ExactMatches
from lighteval.metrics.sample_preparator import LoglikelihoodPreparator
from lighteval.metrics.utils.metric_utils import MetricCategory, MetricUseCase

old = SampleLevelMetric(
    "old", True, MetricCategory.GENERATIVE, MetricUseCase.ACCURACY,
    ExactMatches().compute, max,
)
labels = LoglikelihoodPreparator().prepare
f1, mcc = (SampleLevelMetric(
    metric_name=name, higher_is_better=True, category=MetricCategory.MULTICHOICE,
    use_case=MetricUseCase.ACCURACY, sample_level_fn=labels, corpus_level_fn=how,
) for name, how in {
    "f1": CorpusLevelF1Score("macro").compute, "mcc": matthews_corrcoef
}.items())
TASKS_TABLE = [task(metrics=[old, f1, mcc])]
"""


def test_metrics_of_earlier_releases_are_made_and_add_up(module):
    """The fourth field is ``use_case``, and the functions are bound methods."""
    (task,) = module(ORDER)
    old, f1, mcc = task.metrics
    assert old.aggregate([0, 1, 0]).value == 1
    pairs = [([1], 1), ([1], 0), ([0], 0), ([0], 0)]
    # F1 of label 0 is 4/5 and of label 1 is 2/3; one wrong of four in the correlation
    assert f1.aggregate(pairs).value == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert mcc.aggregate(pairs).value == pytest.approx(1 / 3**0.5)
    assert f1.aggregate(pairs).method == mcc.aggregate(pairs).method == "bootstrap"


@pytest.mark.slow
def test_a_timeout_of_lighteval_stops_a_function(module):
    slow = "@timeout(1)\ndef slow():\n    while True:\n        pass\n"
    table = f"from lighteval.utils.timeout import timeout\n{slow}slow()"
    with pytest.raises(TaskFileError, match="TimeoutError: the time limit"):
        module(table)


OWN_RECORD = """
from dataclasses import dataclass
from lighteval.metrics.sample_preparator import CorpusMetricInput

@dataclass
class Kept(CorpusMetricInput):
    source: str
    gold: str
    pred: str

class Preparing:
    def prepare(self, doc, model_response, **more):
        return Kept(doc.query, doc.get_golds()[0], model_response.final_text[0])

class Share:
    def compute_corpus(self, items):
        return sum(bool(i.source) and i.pred == i.gold for i in items) / len(items)

generative = SamplingMethod.GENERATIVE
share = SampleLevelMetric("share", True, generative, Preparing(), Share())
TASKS_TABLE = [task(metrics=[share])]
"""


def test_a_module_aggregates_records_of_its_own_class(module):
    """With any number of fields; between processes they are JSON."""
    (task,) = module(OWN_RECORD)
    (share,) = task.metrics
    kept = []
    for item in (0, 1):
        sent = task.ask(item)
        answers = (Response(text=" odd"),)
        record = Record(
            task="t",
            index=item,
            doc=sent.doc,
            requests=sent.requests,
            responses=answers,
        )
        (score,) = task.score(record)
        kept.append(json.loads(json.dumps(score.value)))
    assert share.aggregate(kept).value == 0.5


KEEPING = """
from lighteval.metrics.metrics_corpus import CorpusLevelComputation
from lighteval.metrics.sample_preparator import GenerativeCorpusMetricInput, Preparator

class Keeping(Preparator):
    def prepare(self, doc, model_response, **more):
        return GenerativeCorpusMetricInput(doc.get_golds(), model_response.final_text)

class Share(CorpusLevelComputation):
    def compute_corpus(self, items):
        return sum(item.preds[0] in item.golds for item in items) / len(items)

share = SampleLevelMetric("share", True, SamplingMethod.GENERATIVE, Keeping(), Share())
TASKS_TABLE = [task(metrics=[share])]
"""


def test_values_of_a_preparator_keep_their_names_until_aggregation(module):
    """This holds after a transfer from a worker too, as a list of lists."""
    (task,) = module(KEEPING)
    (share,) = task.metrics
    kept = [[["odd"], ["odd"]], [["even"], ["odd"]], [["odd"], ["odd"]]]
    assert share.aggregate(kept).value == pytest.approx(2 / 3)


FIELD_NAMES = """
name prompt_function hf_repo hf_subset metrics solver scorer sample_fields
sample_to_fewshot filter hf_revision hf_filter hf_avail_splits evaluation_splits
few_shots_split few_shots_select generation_size generation_grammar stop_sequence
num_samples original_num_docs effective_num_docs must_remove_duplicate_docs num_fewshots
version
"""
"""The fields of LightevalTaskConfig in lighteval 0.13.0, in their order."""
FIELDS = FIELD_NAMES.split()
ROOT = Path(__file__).parents[3]


def test_the_fields_of_a_task_have_the_order_of_the_release():
    assert [field.name for field in fields(LightevalTaskConfig)][
        : len(FIELDS)
    ] == FIELDS


def test_our_own_modules_give_only_fields_that_the_release_has():
    page = (ROOT / "docs" / "coming_from_lighteval.md").read_text("utf-8")
    codes = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    codes += [p.read_text("utf-8") for p in ROOT.glob("example_suites/lighteval/*.py")]
    calls = [
        node
        for code in codes
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "LightevalTaskConfig"
    ]
    given = {one.arg for call in calls for one in call.keywords if one.arg}
    assert len(calls) == 2 and given <= set(FIELDS)


def test_modules_next_to_a_module_are_found(module, tmp_path):
    (tmp_path / "my_prompts.py").write_text(
        "from lighteval.tasks.requests import Doc\n"
        "def from_file(line, name):\n"
        "    return Doc(f'next to {line[\"n\"]}', ['x'], 0)\n"
    )
    table = "import my_prompts\nfrom .my_prompts import from_file as other\n"
    table += "assert other is my_prompts.from_file\n"
    table += "TASKS_TABLE = [task(prompt_function=my_prompts.from_file)]"
    (task,) = module(table)
    assert task.ask(0).doc.query.startswith("next to 1")


def test_a_library_that_is_not_there_is_named(module, problems):
    message = problems(module, "import pycuontry.countries\nTASKS_TABLE = []")
    assert "No module named 'pycuontry'" in message
    assert (
        "fix: install the package that provides 'pycuontry', or put pycuontry.py"
        in message
    )


def test_languages_have_the_second_names_that_lighteval_gives_them(module):
    """lighteval's enumeration (0.13.0) has 222 names of 218 languages."""
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
def test_a_task_module_is_detected_from_its_text(text, is_one):
    assert is_task_module(text.encode()) is is_one


FORMER = """
from lighteval.metrics.dynamic_metrics import (
    loglikelihood_acc_metric, multilingual_extractive_match_metric,
    multilingual_quasi_f1_score_metric, probability_metric,
)
from lighteval.metrics.utils.metric_utils import MetricCategory, MetricUseCase
from lighteval.tasks.extended.ifeval.main import ifeval_metrics
from lighteval.utils.language import Language

ignored = SampleLevelMetric(
    metric_name="none", higher_is_better=True, category=MetricCategory.IGNORED,
    use_case=MetricUseCase.NONE, sample_level_fn=len, corpus_level_fn=len,
)
TASKS_TABLE = [task(metrics=[
    multilingual_extractive_match_metric(Language.CHINESE),
    multilingual_quasi_f1_score_metric(Language.FRENCH), ignored, ifeval_metrics,
])]
"""


def test_metrics_of_earlier_releases_keep_their_names_and_ignored_ones_are_named(
    module,
):
    (task,) = module(FORMER)
    names = [metric.name for metric in task.metrics]
    assert names[:3] == ["extractive_match", "f1_fra", "prompt_level_strict_acc"]
    (warning,) = task.warnings()
    assert "'none' is not computed: MetricCategory.IGNORED" in warning


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("from lighteval.tasks.extended.ifeval.main import ifeval_prompt", "0.12"),
        ("from lighteval.tasks.extended.nowhere import prompt", "0.12"),
        ("from lighteval.tasks.default_prompts import gsm8k", "0.13"),
        ("import lighteval.tasks.default_prompts as p; p.arc", "0.13"),
    ],
)
def test_prompts_of_earlier_releases_say_which_release_has_them(
    module, problems, text, release
):
    message = problems(module, f"{text}\nTASKS_TABLE = []")
    assert f"pip install 'lighteval<{release}'" in message
    assert "did you mean" not in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tasks.registry import taskinfo_selector", "is part of how lighteval runs"),
        ("tasks.requests import GreedyUntilRequest", "is part of how lighteval runs"),
        ("models.abstract_model import ModelInfo", "is part of how lighteval runs"),
        ("tasks.requests import Docs", "did you mean 'Doc'"),
        ("tasks.multilingual.tasks import MMLU_SUBSETS", "install 'lighteval<0.12'"),
        ("metrics.imports.bert_scorer import BERTScorer", "the release that the"),
        ("tasks.tasks.gsm8k import gsm8k_prompt", "pip install lighteval"),
    ],
)
def test_a_name_that_only_lighteval_has_is_refused_with_a_way_out(
    module, problems, text, why
):
    message = problems(module, f"from lighteval.{text}\nTASKS_TABLE = []")
    assert why in message
    assert "did you mean 'lighteval." not in message


PACKAGE = """
from lighteval.tasks.requests import Doc

def prompt(line, task_name=None):
    from .answers import answer
    from lighteval.metrics.metrics import Metrics

    assert Metrics.exact_match.name == "exact_match"
    return Doc(f"of a package: {line['n']}", [answer()], 0)
"""


def test_packages_that_a_module_imports_get_the_same_shims(
    module, tmp_path, monkeypatch
):
    """Also in functions that are called later, and in modules that those import."""
    package = tmp_path / "src" / "evals_of_mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .helpers import prompt")
    (package / "helpers.py").write_text(PACKAGE)
    (package / "answers.py").write_text(
        "from lighteval.utils.utils import as_list\n"
        "def answer():\n    return as_list('x')[0]\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    before = list(sys.meta_path)
    (task,) = module(
        "import evals_of_mine\n"
        "TASKS_TABLE = [task(prompt_function=evals_of_mine.prompt)]"
    )
    assert task.ask(0).doc.query.startswith("of a package: 1")
    assert task.ask(0).doc.choices == ["x"]
    assert sys.meta_path == before
    assert "lighteval" not in sys.modules


ENUM = """
assert Metrics["bleu"] is Metrics.bleu is Metrics.__members__["bleu"]
assert Metrics.bleu.name == "bleu" and Metrics.bleu.value.metric_name == "bleu"
assert {metric.name for metric in Metrics} == set(Metrics.__members__)
assert len(Metrics) == len(list(Metrics)) >= 50
assert Metrics.bleu in Metrics and isinstance(Metrics.bleu, Metrics)
assert Metrics(Metrics.bleu) is Metrics.bleu

def add(metric: Metrics | None) -> None:
    pass

from aenum import extend_enum
extend_enum(Metrics, "mine", Metrics.exact_match({"strip_strings": False}))
assert Metrics.mine.name == "mine" and "mine" in Metrics.__members__
TASKS_TABLE = [task(metrics=[Metrics.mine])]
"""


def test_metrics_are_an_enumeration(module):
    assert len(module(ENUM)) == 1


def test_corpus_metrics_are_computed_from_arrays_of_log_probabilities():
    """Aggregations are called, as in lighteval. Of four labels one is wrong: the
    correlation is (2·1 - 0·1) / √(2·3·1·2)."""
    metrics = find_export("lighteval.metrics.metrics", "Metrics")
    likely = [
        ([-1.0, -2.0], 0),
        ([-2.0, -1.0], 1),
        ([-1.0, -2.0], 0),
        ([-1.0, -2.0], 1),
    ]
    for name, expected in (
        ("mcc", 2 / 12**0.5),
        ("loglikelihood_f1", 2 / 3),
        ("loglikelihood_acc", 3 / 4),
    ):
        metric = metrics[name].value
        rows = [
            metric.compute_sample(
                Doc("", ["a", "b"], gold), ModelResponse(logprobs=np.array(logprobs))
            )
            for logprobs, gold in likely
        ]
        for key, how in metric.get_corpus_aggregations().items():
            assert how([row[key] for row in rows]) == pytest.approx(expected)


def test_judges_transpose_lists():
    judge = find_export("lighteval.metrics.metrics_sample", "JudgeLM")("m", str, str)
    rows = judge.dict_of_lists_to_list_of_dicts({"a": [1, 2], "b": [3, 4]})
    assert rows == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    with pytest.raises(ValueError, match="argument 2"):
        judge.dict_of_lists_to_list_of_dicts({"a": [1, 2], "b": [3]})
