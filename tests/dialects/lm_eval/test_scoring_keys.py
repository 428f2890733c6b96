"""``metric_list``, ``filter_list`` and ``unsafe_code`` of lm-eval's task files."""

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_evals.core.request import Response
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.errors import TaskFileError
from pytest_evals.run.batches import ask
from pytest_evals.run.flow import score
from pytest_evals.scorers import corpus
from pytest_evals.scorers.summary import summarise

VALID = Path(__file__).parents[2] / "task_files" / "valid"
TEXT = f"include: {VALID / '_base'}\ntask: toy\noutput_type: generate_until\n"
CHOICE = TEXT.replace("generate_until", "multiple_choice") + "doc_to_choice: [a, b]\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a task file with this text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))

    def load(text, **options):
        (tmp_path / "toy.yaml").write_text(text)
        (only,) = load_tasks(Path("toy.yaml"), TaskOptions(**options))
        return only

    return load


def message_of(load, text, **options):
    with pytest.raises(TaskFileError) as error:
        load(text, **options)
    return str(error.value)


def metrics(*entries):
    lines = ["metric_list:", *(f"  - {entry}" for entry in entries)]
    return "\n".join(lines) + "\n"


def result_of(task, answer):
    """The metrics of the task if the model replies ``answer(document)``."""
    records = []
    for index in task.rows.indices():
        record = ask(task, index)
        responses = tuple(Response(text=answer(record.doc)) for _ in record.requests)
        answered = type(record)(
            task=record.task,
            index=record.index,
            doc=record.doc,
            requests=record.requests,
            responses=responses,
        )
        records.append(score(answered, task))
    return {m.key: m for m in summarise(task, records, len(records)).metrics}


def test_metrics_of_a_corpus_add_up_over_the_documents(load):
    task = load(TEXT + metrics("metric: bleu", "metric: chrf++", "metric: ter"))
    assert task.warnings() == ()
    found = result_of(task, lambda doc: doc.choices[0] + " or so")
    assert list(found) == ["bleu,none", "chrf++,none", "ter,none"]
    assert [found[key].higher_is_better for key in found] == [True, True, False]
    assert found["ter,none"].estimate.value > 100  # two words too many in each text
    assert {m.estimate.method for m in found.values()} == {"bootstrap"}
    right = result_of(task, lambda doc: doc.choices[0])
    assert right["chrf++,none"].estimate.value == pytest.approx(100)
    assert right["ter,none"].estimate.value == 0


def test_an_aggregation_may_give_several_numbers_by_name(load, tmp_path):
    code = "def both(values): return {'share': sum(values) / 3, 'n': len(values)}\n"
    (tmp_path / "own.py").write_text(code)
    task = load(
        TEXT
        + metrics("{metric: exact_match, aggregation: !function own.both}")
        + "gates: [share >= 0.1]\n"
    )
    found = result_of(task, lambda doc: doc.choices[0])
    assert list(found) == ["share,none", "n,none"]
    n = found["n,none"].estimate.value
    assert found["share,none"].estimate.value == n / 3
    assert found["n,none"].estimate.stderr is None


def test_names_of_an_aggregation_that_are_taken_get_its_metrics_in_front(
    load, tmp_path
):
    (tmp_path / "own.py").write_text("def two(values): return {'bleu': 1, 'n': 2}\n")
    entry = "{metric: exact_match, aggregation: !function own.two}"
    found = result_of(
        load(TEXT + metrics(entry, "metric: bleu")), lambda doc: doc.choices[0]
    )
    assert list(found) == ["exact_match_bleu,none", "exact_match_n,none", "bleu,none"]


def test_an_aggregation_that_gives_no_number_is_reported(load, tmp_path):
    (tmp_path / "own.py").write_text("def odd(values): return {'n': 'many'}\n")
    task = load(TEXT + metrics("{metric: exact_match, aggregation: !function own.odd}"))
    (only,) = result_of(task, lambda doc: "x").values()
    assert only.estimate is None
    assert "a number, or a mapping of numbers, not 'many'" in only.error


@pytest.mark.parametrize(
    ("given", "direction", "is_odd"),
    [
        ("1", True, False),
        ("0.0", False, False),
        ("null", None, False),
        ("'false'", None, True),
        ("[true]", None, True),
    ],
)
def test_a_direction_is_that_of_lm_evals_tables(load, given, direction, is_odd):
    """lm-eval 0.4.13 looks the value up in ``{True: "↑", False: "↓"}``."""
    entry = f"{{metric: exact_match, higher_is_better: {given}}}"
    task = load(TEXT + metrics(entry))
    (metric,) = task.metrics
    assert metric.higher_is_better is direction
    assert any("is ignored" in text for text in task.warnings()) is is_odd


def test_of_two_pipelines_of_one_name_the_later_counts(load):
    filters = (
        "filter_list:\n"
        "  - {name: x, filter: [{function: uppercase}, {function: take_first}]}\n"
        "  - {name: x, filter: [{function: lowercase}, {function: take_first}]}\n"
    )
    task = load(TEXT + filters)
    (warning,) = task.warnings()
    assert warning == (
        "toy.yaml:6: two entries of filter_list are named 'x'; the last one is used, "
        "as in lm-eval"
    )
    record = ask(task, 0)
    (one,) = score(replace(record, responses=(Response(text="Ab"),)), task).scores
    assert one.filtered == ("ab",)


def test_an_empty_list_of_filters_would_score_nothing_and_is_refused(load):
    assert message_of(load, TEXT + "filter_list: []\n") == (
        "toy.yaml:4: filter_list is empty, so nothing is scored\n"
        "  fix: remove filter_list to score the first response to each request"
    )


def test_a_pipeline_without_filters_leaves_all_answers(load):
    filters = "repeats: 2\nfilter_list: [{name: 7, filter: []}]\n"
    task = load(TEXT + filters)
    record = ask(task, 0)
    right = record.doc.choices[0]
    answers = (Response(text=right), Response(text="x"))
    (one,) = score(replace(record, responses=answers), task).scores
    assert (one.filter, one.filtered, one.value) == ("7", ([right, "x"],), 0.5)
    assert "has no filters" in message_of(load, CHOICE + filters)


def test_arguments_of_a_metric_that_takes_none_do_nothing(load):
    """lm-eval calls bleu with them once, and without them if that fails."""
    task = load(TEXT + metrics("{metric: bleu, ignore_case: true}"))
    assert task.warnings() == ()
    task = load(TEXT + metrics("{metric: bleu, agregation: mean}"))
    (warning,) = task.warnings()
    assert warning == (
        "toy.yaml:5: 'agregation' has no effect for 'bleu'; did you mean 'aggregation'?"
    )


def test_a_missing_library_is_one_problem_of_the_file(load, monkeypatch):
    monkeypatch.setattr(corpus, "find_spec", lambda name: None)
    assert message_of(load, TEXT + metrics("metric: exact_match", "metric: ter")) == (
        "toy.yaml:6: aggregation 'ter' needs sacrebleu: "
        "pip install 'pytest-model-evals[metrics]'"
    )


def test_a_metric_of_other_output_types_is_a_warning(load):
    task = load(CHOICE + metrics("metric: acc", "metric: bleu"))
    assert [metric.key for metric in task.metrics] == ["acc,none"]
    assert task.warnings() == (
        "toy.yaml:7: metric 'bleu' has no value with output_type multiple_choice, "
        "as in lm-eval",
    )


def test_an_unknown_metric_is_a_problem(load):
    assert message_of(load, CHOICE + metrics("metric: acc", "metric: my_own")) == (
        "toy.yaml:7: unknown multiple_choice metric 'my_own'; known: "
        "acc, acc_bytes, acc_mutual_info, acc_norm, brier_score, exact_match, f1, "
        "likelihood, mcc"
    )


def test_a_misspelt_metric_is_a_problem(load):
    assert message_of(load, CHOICE + metrics("metric: acc_nrom")) == (
        "toy.yaml:6: unknown multiple_choice metric 'acc_nrom'; "
        "did you mean 'acc_norm'?"
    )
    assert message_of(load, TEXT + metrics("metric: exact_mach")).startswith(
        "toy.yaml:5: unknown metric 'exact_mach' for output_type generate_until; "
        "did you mean 'exact_match'? Also, the evaluate library has no script "
        "'exact_mach' on this disk\n"
    )


def test_a_metric_of_evaluate_that_is_not_on_this_disk_is_a_problem(load):
    text = message_of(load, TEXT + metrics("{metric: squad_v2, aggregation: mean}"))
    assert text.startswith(
        "toy.yaml:5: unknown metric 'squad_v2' for output_type generate_until; and "
        "the evaluate library has no script 'squad_v2' on this disk\n  fix: "
    )
    text = message_of(load, TEXT + metrics("{metric: f1, hf_evaluate: true}"))
    assert text.startswith("toy.yaml:5: the evaluate library has no script 'f1'")


def test_hf_evaluate_does_nothing_where_metrics_are_not_called(load):
    entry = "{metric: f1, hf_evaluate: true, average: macro}"
    assert [m.key for m in load(CHOICE + metrics(entry)).metrics] == ["f1,none"]


def test_a_script_next_to_the_task_file_is_a_metric(load, tmp_path):
    (tmp_path / "wer").mkdir()
    (tmp_path / "wer" / "wer.py").write_text("# run when the first document is scored")
    task = load(TEXT + metrics("{metric: ./wer, aggregation: mean}"))
    assert [metric.key for metric in task.metrics] == ["./wer,none"]


def test_an_argument_that_a_filter_ignores_is_a_warning(load):
    filters = (
        "filter_list:\n  - name: x\n    filter:\n"
        "      - {function: remove_whitespace, sides: both}\n"
        "      - function: take_first\n"
    )
    assert load(TEXT + filters).warnings() == (
        "toy.yaml:7: 'sides' has no effect for the filter 'remove_whitespace'",
    )


def test_a_task_that_runs_the_models_code_is_refused_unless_it_is_allowed(load):
    assert message_of(load, TEXT + "unsafe_code: true\n") == (
        "toy.yaml:4: unsafe_code: this task executes model output\n"
        "  fix: pass --evals-allow-unsafe-code to run it on this machine with "
        "your permissions"
    )
    assert load(TEXT + "unsafe_code: true\n", allow_unsafe_code=True).name == "toy"
    assert load(TEXT + "unsafe_code: false\n").name == "toy"


def test_an_entry_that_occurs_twice_counts_once(load):
    """As in lm-eval, which stores metrics by name; of two different entries it keeps
    the later one."""
    entries = ["{metric: exact_match, ignore_case: true}"] * 2
    assert list(result_of(load(TEXT + metrics(*entries)), str)) == ["exact_match,none"]
    other = "{metric: exact_match, ignore_case: false}"
    task = load(TEXT + metrics(entries[0], other))
    assert list(result_of(task, str)) == ["exact_match,none"]
    assert task.warnings() == (
        "toy.yaml:6: two metrics are named 'exact_match'; the last one is used, as in "
        "lm-eval",
    )
    found = result_of(task, lambda doc: doc.choices[0].upper() + "é")
    assert found["exact_match,none"].estimate.value == 0


def test_a_metric_of_evaluate_is_never_called_where_choices_are_scored(load):
    """755 entries of lm-eval's own tasks have this key; an unknown name without it is
    treated as a typo."""
    task = load(CHOICE + metrics("{metric: wer, hf_evaluate: true}", "metric: acc"))
    assert [metric.name for metric in task.metrics] == ["acc"]
    assert "metric 'wer' has no value" in task.warnings()[0]
    assert "metric 'wer'" in message_of(load, CHOICE + metrics("metric: wer"))
