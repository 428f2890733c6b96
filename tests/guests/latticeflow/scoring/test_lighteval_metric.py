"""lighteval's metrics as scorers of LatticeFlow's tasks."""

import pytest

from pytest_evals.core.metric import Estimate
from pytest_evals.sandbox.session import current_sandbox, end_sandbox, set_sandbox

ROUGE = '- {type: lighteval, metric: rouge1, ground_truth: "{{ sample.target }}"}'


@pytest.mark.slow
def test_a_metric_of_lightevals_scores_the_answer(scored):
    """ROUGE-1 with two of three words is 4/5, by its definition."""
    score = scored(ROUGE, {"target": "the cat"}, "the cat sat")
    assert score.values == {"rouge1": pytest.approx(0.8)}
    assert score.metadata == {"answer_gt": "the cat", "answer_pred": "the cat sat"}


def test_grouped_metrics_and_their_arguments(scored, read):
    yaml = (
        "- {type: lighteval, metric: 'lighteval:copyright', "
        "arguments: {strip_prediction: false}, "
        "ground_truth: 'a b', value: '{{ sample.answer }}'}"
    )
    score = scored(yaml, {"answer": "a c"})
    assert score.values["edit_distance:strip_prediction=False"] == 1
    (scorer,), _, _ = read(yaml)
    assert [one.name for one in scorer.metric_values] == list(score.values)


def test_a_metric_of_the_corpus_adds_up_over_all_samples(scored, added_up):
    """sacrebleu: equal texts have chrF 100, texts without common letters 0."""
    yaml = "- {type: lighteval, metric: chrf, ground_truth: '{{ sample.target }}'}"
    same = scored(yaml, {"target": "abcd"}, "abcd")
    other = scored(yaml, {"target": "abcd"}, "xyzw")
    assert added_up(yaml, [same])["chrf"].value == pytest.approx(100)
    assert 0 < added_up(yaml, [same, other])["chrf"].value < 100
    rows = added_up(yaml, [[same, other]])["chrf"].value
    assert rows == added_up(yaml, [same, other])["chrf"].value


def test_means_have_their_standard_error(scored, added_up):
    """The standard error of 1 and 0 is half of their difference."""
    yaml = "- {type: lighteval, metric: exact_match, ground_truth: a}"
    found = added_up(yaml, [scored(yaml, {}, "a"), scored(yaml, {}, "b")])
    assert found == {"em": Estimate(0.5, 0.5, "analytic")}


def test_a_metric_reads_fields_of_the_sample(scored):
    yaml = "- {type: lighteval, metric: ifeval_metrics}"
    sample = {"instructions_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert scored(yaml, sample, "a, b").values["prompt_level_strict_acc"] == 0


def test_judges_are_models_of_the_file(scored):
    yaml = "- {type: lighteval, metric: simpleqa_judge, model_key: j, ground_truth: a}"
    assert scored(yaml, {}, "a", reply="A").values == {"simpleqa_judge": 1.0}


def test_programs_run_in_the_sandbox_with_the_tests_of_the_sample(scored):
    set_sandbox("process", consents=True)
    sample = {"inputs": ["1", "4"], "outputs": ["2", "5"]}
    yaml = "- {type: lighteval, metric: lcb_codegen_metric}"
    for code, passed in (("print(int(input()) + 1)", 1), ("print(2)", 0)):
        score = scored(yaml, sample, f"```\n{code}\n```")
        assert list(score.values.values()) == [passed]
    assert current_sandbox().n_programs
    end_sandbox()


def test_programs_without_a_boundary_need_consent(read):
    set_sandbox("process", consents=False)
    (message,) = read("- {type: lighteval, metric: lcb_codegen_metric}")[2]
    assert "executes model output" in message
    assert "--evals-allow-unsafe-code" in message
    end_sandbox()


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("metric: rouge_t6", "did you mean 'rouge_t5'?"),
        ("metric: mcc", "scores log-probabilities"),
        ("metric: pass_at_k, arguments: {k: 4}", "needs 4 answers at once"),
        ("metric: rouge1, arguments: {stem: 1}", "unknown argument 'stem'"),
        ("metric: rouge1, model_key: j", "does not use a judge"),
        ("metric: hle_metrics", "model_key is missing"),
        ("ground_truth: a", "metric is missing"),
    ],
)
def test_unsupported_metrics_are_reported(read, fields, what):
    (message,) = read(f"- {{type: lighteval, {fields}}}")[2]
    assert message.startswith("./t.yaml:2: ") and what in message
