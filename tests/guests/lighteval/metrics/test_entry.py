"""lighteval's metrics and custom ones in lm-eval's task files."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_evals.core.request import Loglikelihood, Response
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.errors import TaskFileError
from pytest_evals.guests.lighteval.metrics.catalogue import (
    CATALOGUE,
    PUBLISHED,
    lighteval_metric,
)
from pytest_evals.run.batches import ask
from pytest_evals.run.flow import score
from pytest_evals.sandbox.session import end_sandbox, set_sandbox
from pytest_evals.scorers.custom_metrics.metric import CorpusLevelMetric, SamplingMethod
from pytest_evals.scorers.summary import summarise

VALID = Path(__file__).parents[3] / "task_files" / "valid"
TEXT = f"include: {VALID / '_base'}\ntask: toy\noutput_type: generate_until\n"
CHOICE = TEXT.replace("generate_until", "multiple_choice") + "doc_to_choice: [a, bb]\n"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a task file of this text, with these metrics."""
    monkeypatch.chdir(tmp_path)

    def load(text, *entries, **options):
        lines = ["metric_list:", *(f"  - {entry}" for entry in entries)]
        (tmp_path / "toy.yaml").write_text(text + "\n".join(lines) + "\n")
        (only,) = load_tasks(Path("toy.yaml"), TaskOptions(**options))
        return only

    return load


def error_message(load, text, *entries, **options):
    with pytest.raises(TaskFileError) as error:
        load(text, *entries, **options)
    return str(error.value)


def answered(task, answers):
    """The results of a task whose every document gets these responses."""
    records = []
    for index in task.rows.indices():
        asked = ask(task, index)
        given = {name: getattr(asked, name) for name in ("task", "index", "doc")}
        records.append(
            score(
                type(asked)(**given, requests=asked.requests, responses=answers), task
            )
        )
    assert not any(record.error for record in records), records[0].error
    return {m.key: m for m in summarise(task, records, len(records)).metrics}


@pytest.mark.slow
def test_grouped_metric_gives_all_its_numbers_in_the_order_of_the_file(load):
    task = load(TEXT, "metric: exact_match", "metric: lighteval:rouge_t5")
    found = answered(task, (Response(text="b"),))
    rouges = ["rouge1,none", "rouge2,none", "rougeL,none", "rougeLsum,none"]
    assert [m.key for m in task.metrics] == ["exact_match,none", *rouges]
    assert list(found) == ["exact_match,none", *rouges]
    assert found["rouge1,none"].higher_is_better is True


def test_metric_of_several_answers_sees_all_of_them_without_filters(load):
    """Three correct of four, by the paper's formula: 1 - C(1,1)/C(4,1)."""
    repeats = TEXT + "repeats: 4\ngeneration_kwargs: {do_sample: true}\n"
    entry = "{metric: lighteval:pass_at_k, k: 1, n: 4}"
    right = load(TEXT, "metric: exact_match").ask(0).doc.choices[0]
    answers = tuple(Response(text=text) for text in (right, "no", right, right))
    found = answered(load(repeats, entry), answers)
    assert 0 < found["pass@k:k=1&n=4,none"].estimate.value <= 0.75
    filtered = repeats + (
        "filter_list: [{name: two, filter: [{function: take_first_k, k: 2}]}]\n"
    )
    found = answered(load(filtered, "{metric: lighteval:pass_at_k, k: 1}"), answers)
    assert list(found) == ["pass@k:k=1,two"]


def test_pmi_asks_for_the_choices_alone_and_subtracts_them(load):
    entry = "{metric: lighteval:loglikelihood_acc, logprob_normalization: pmi}"
    task = load(CHOICE, entry)
    requests = task.ask(0).requests
    assert requests[2:] == (Loglikelihood("", " a"), Loglikelihood("", " bb"))
    # the more likely choice is the one that is unlikely alone
    logprobs = (-2.0, -1.0, -5.0, -1.0)
    answers = tuple(Response(logprob=lp, greedy=False) for lp in logprobs)
    golds = [task.ask(i).doc.gold_index for i in task.rows.indices()]
    (metric,) = answered(task, answers).values()
    assert metric.name == "acc:logprob_normalization=pmi"
    assert metric.total == golds.count(0)


def test_pmi_asks_after_the_unconditioned_query_of_the_entry(load):
    entry = (
        "{metric: lighteval:loglikelihood_acc, logprob_normalization: pmi, "
        "unconditioned_query: 'Answer:'}"
    )
    asked = load(CHOICE, entry).ask(0)
    assert asked.doc.unconditioned_query == "Answer:"
    assert asked.requests[2:] == (
        Loglikelihood("Answer:", " a"),
        Loglikelihood("Answer:", " bb"),
    )
    error = error_message(load, CHOICE, "metric: acc_mutual_info", entry)
    assert error.startswith("toy.yaml:7: ")
    assert "the same unconditioned_query, not '', 'Answer:'" in error
    error = error_message(
        load, TEXT, "{metric: lighteval:f1_score, unconditioned_query: x}"
    )
    assert "requires a metric with logprob_normalization: pmi" in error


def test_other_metrics_do_not_see_the_choices_without_the_question(load):
    entry = "{metric: lighteval:loglikelihood_acc, logprob_normalization: pmi}"
    task = load(CHOICE, entry, "metric: lighteval:mrr", "metric: lighteval:mcc")
    found = answered(task, _choices(-2.0, -1.0, -0.1, -0.2))
    golds = [task.ask(i).doc.gold_index for i in task.rows.indices()]
    # reciprocal rank; 0 if the correct answer is not among the choices
    mean = sum({1: 1.0, 0: 0.5}.get(gold, 0.0) for gold in golds) / len(golds)
    assert found["mrr,none"].estimate.value == pytest.approx(mean)


def test_reasoning_is_taken_out_if_the_entry_requests_it(load):
    task = load(
        TEXT,
        "{metric: lighteval:prefix_exact_match, remove_reasoning_tags: true}",
        "metric: lighteval:perfect_exact_match",
    )
    right = task.ask(0).doc.choices[0]
    record = ask(task, 0)
    given = {name: getattr(record, name) for name in ("task", "index", "doc")}
    texts = (Response(text=f"<think>no, yes</think>\n{right}, surely"),)
    scored = score(
        type(record)(**given, requests=record.requests, responses=texts), task
    )
    assert {s.metric: s.value for s in scored.scores} == {"pem": 1, "perfect_em": 0}


def test_token_normalisation_divides_by_the_tokens_of_each_choice(load):
    entry = "{metric: lighteval:loglikelihood_acc, logprob_normalization: token}"
    task = load(CHOICE, entry)
    answers = (
        Response(logprob=-3.0, greedy=False, n_tokens=1),
        Response(logprob=-4.0, greedy=False, n_tokens=2),
    )
    golds = [task.ask(i).doc.gold_index for i in task.rows.indices()]
    (metric,) = answered(task, answers).values()
    assert metric.total == golds.count(1)


def test_corpus_metric_has_a_bootstrapped_standard_error(load):
    metric = answered(load(CHOICE, "metric: lighteval:mcc"), _choices(-1.0, -2.0))
    assert metric["mcc,none"].estimate.method in ("bootstrap", "")
    assert metric["mcc,none"].estimate.value == 0


def _choices(*logprobs):
    return tuple(Response(logprob=lp, greedy=False) for lp in logprobs)


@pytest.mark.parametrize(
    ("text", "entry", "message"),
    [
        (
            TEXT,
            "metric: lighteval:rouge_t6",
            "unknown lighteval metric 'rouge_t6'; did you mean 'rouge_t5'?",
        ),
        (
            TEXT,
            "{metric: lighteval:exact_match, strip_string: true}",
            "unknown argument 'strip_string'; did you mean 'strip_strings'?",
        ),
        (
            TEXT,
            "{metric: lighteval:exact_match, normalize_pred: helm}",
            "unknown normalizer 'helm'",
        ),
        (
            TEXT,
            "metric: lighteval:mrr",
            "metric 'mrr' cannot be computed with output_type generate_until\n"
            "  fix: output_type: multiple_choice",
        ),
        (
            TEXT,
            "{metric: lighteval:maj_at_n, n: 8}",
            "metric 'maj@n:n=8' needs 8 responses per prompt, but repeats is 1\n"
            "  fix: repeats: 8",
        ),
        (TEXT, "metric: lighteval:pass_at_k", "metric 'pass@k' needs 'k'"),
        (
            TEXT,
            "{metric: lighteval:pass_at_k, k: 4, n: 2}",
            "k=4 must not be greater than n=2",
        ),
        (
            TEXT,
            "{metric: lighteval:bleu, lang: jp}",
            "unknown lang 'jp'",
        ),
        (
            TEXT,
            "{metric: lighteval:drop, published: 1}",
            "published must be true or false, not 1",
        ),
        (
            TEXT,
            "{metric: lighteval:f1_score, aggregation: mean}",
            "metric 'f1' defines its own aggregation and direction",
        ),
    ],
)
def test_fault_in_an_entry_is_reported_with_its_line(load, text, entry, message):
    error = error_message(load, text, entry)
    assert error.startswith("toy.yaml:5: ")
    assert message in error


def test_two_metrics_with_one_number_are_distinguished_by_the_error(load):
    task = (TEXT, "metric: lighteval:f1_score", "metric: lighteval:drop")
    assert "two metrics are named 'f1'; names must be unique" in error_message(
        load, *task
    )


def test_missing_library_is_reported_before_any_document(load, monkeypatch):
    monkeypatch.setattr(
        "pytest_evals.scorers.custom_metrics.task_metric.find_spec", lambda name: None
    )
    error = error_message(load, TEXT, "metric: lighteval:expr_gold_metric")
    assert "math-verify: pip install 'pytest-model-evals[metrics]'" in error


def polite(doc, response):
    """1 for an answer that is polite."""
    return float("please" in response.final_text[0])


@dataclass(frozen=True)
class Longer:
    """Whether an answer has more characters than a limit."""

    limit: int = 3

    def compute(self, doc, model_response):
        """0 or 1."""
        return float(len(model_response.final_text[0]) > self.limit)


def test_registered_function_is_a_metric_under_its_name(load):
    task = load(TEXT, "metric: polite", metrics={"polite": polite})
    found = answered(task, (Response(text="yes, please"),))
    assert found["polite,none"].estimate.value == 1


def test_function_may_be_added_up_in_another_way(load):
    entry = "{metric: polite, aggregation: median, higher_is_better: false}"
    task = load(TEXT, entry, metrics={"polite": polite})
    (metric,) = answered(task, (Response(text="please"),)).values()
    assert (metric.estimate.value, metric.higher_is_better) == (1, False)
    error = error_message(
        load,
        TEXT,
        "{metric: polite, aggregation: middle}",
        metrics={"polite": polite},
    )
    assert "unknown aggregation 'middle'" in error


def test_registered_object_takes_its_fields_as_arguments(load):
    task = load(TEXT, "{metric: longer, limit: 12}", metrics={"longer": Longer()})
    found = answered(task, (Response(text="yes, please"),))
    assert found["longer:limit=12,none"].estimate.value == 0


def test_a_registered_object_that_is_not_a_metric_is_rejected(load):
    error = error_message(load, TEXT, "metric: odd", metrics={"odd": len})
    assert "'odd' is registered as a metric, but it is <built-in" in error


def test_function_of_the_task_file_sees_document_and_answers(load, tmp_path):
    (tmp_path / "own.py").write_text(
        "from pytest_evals import CorpusLevelMetric, SamplingMethod\n"
        "def long(doc, response):\n"
        "    return len(response.text[0])\n"
        "def spread(values):\n"
        "    return max(values) - min(values)\n"
        "spread_of_lengths = CorpusLevelMetric(\n"
        "    'spread', False, SamplingMethod.GENERATIVE, long, spread)\n"
    )
    task = load(TEXT, "metric: !function own.spread_of_lengths")
    found = answered(task, (Response(text="abc"),))
    assert found["spread,none"].estimate.value == 0
    assert found["spread,none"].higher_is_better is False


def test_field_of_a_registered_metric_that_has_another_type_is_refused(load):
    odd = CorpusLevelMetric("odd", [[]], SamplingMethod.GENERATIVE, polite, max)
    error = error_message(load, TEXT, "metric: odd", metrics={"odd": odd})
    assert "higher_is_better of 'odd' must be True, False, None or a mapping" in error


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_metric_is_made_and_has_aggregations(name):
    for published in (False, True):
        made = lighteval_metric(name, {"published": published})
        numbers = [metric.name for metric in made.metrics("none")]
        assert numbers == list(made.names)
    assert set(CATALOGUE) == set(PUBLISHED)


def test_answers_are_executed_only_where_the_user_allows_it(load):
    entry = "metric: lighteval:lcb_codegen_metric"
    set_sandbox("process", consents=False)
    error = error_message(load, TEXT, entry)
    assert "'codegen_pass@1:16' executes model output" in error
    assert "fix: pass --evals-allow-unsafe-code to run it" in error
    task = load(TEXT, entry, allow_unsafe_code=True)
    end_sandbox()
    assert [m.name for m in task.metrics] == ["codegen_pass@1:16"]
