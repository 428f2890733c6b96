"""Sections of scorers, and the errors in them."""

import pytest


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "- {}",
            "./t.yaml:2: type is missing\n  fix: set type to one of bleu, "
            "function_call_coverage, labeler_via_model, lighteval, "
            "model_as_a_judge_classifier, model_as_a_judge_scorer, python, "
            "python_all_samples, rag_checker, "
            "string_equals, string_equals_mcqa",
        ),
        (
            "- {type: string_equal}",
            "./t.yaml:2: unknown scorer 'string_equal'; did you mean "
            "'string_equals'?\n  fix: type: string_equals",
        ),
        (
            "- {type: string_equals, ground_truth: 4}",
            "./t.yaml:2: ground_truth must be a string, not 4\n"
            "  fix: ground_truth: '4'",
        ),
        (
            "- {type: string_equals}",
            "./t.yaml:2: ground_truth is missing\n  fix: ground_truth: "
            '"{{ sample.target }}"',
        ),
        (
            "- {type: string_equals, ground_truth: a, truth: b}",
            "./t.yaml:2: a scorer of type string_equals has no key 'truth'; known: "
            "type, key, purpose, display_name, ground_truth, value, metrics",
        ),
        (
            "- {type: string_equals, ground_truth: a, purpose: fun}",
            "./t.yaml:2: unknown purpose 'fun'; known: score, qa",
        ),
        (
            "- {type: string_equals, ground_truth: a, key: x}\n"
            "- {type: string_equals, ground_truth: a, key: x}",
            "./t.yaml:3: duplicate scorer 'x'",
        ),
        (
            "- {type: labeler_via_model, model_key: m, user_prompt: a, "
            "valid_labels: [yes, no]}",
            "./t.yaml:2: a label must be a string, not True\n  fix: quote "
            "it: YAML reads yes, "
            "no, on and off as true and false",
        ),
        (
            "- {type: labeler_via_model, model_key: m, user_prompt: a, "
            "valid_labels: [1]}",
            './t.yaml:2: a label must be a string, not 1\n  fix: "1"',
        ),
        (
            "- {type: model_as_a_judge_scorer, model_key: m, user_prompt: a, "
            "score_min: 1, score_max: 1}",
            "./t.yaml:2: score_max (1) must be greater than score_min (1)",
        ),
        (
            "- {type: model_as_a_judge_classifier, model_key: m, user_prompt: a, "
            "correct_labels: [x], incorrect_labels: [x]}",
            "./t.yaml:2: 'x' is both a correct and an incorrect label",
        ),
        (
            "- {type: model_as_a_judge_scorer, user_prompt: a}",
            "./t.yaml:2: model_key is missing\n  fix: model_key: "
            '"<< config.my_model >>"',
        ),
        (
            "- {type: rag_checker, judge_model_key: m, scores_to_compute: [recal]}",
            "./t.yaml:2: unknown score 'recal'; did you mean 'recall'?",
        ),
        (
            "- {type: rag_checker, judge_model_key: m, mode: required_only}",
            "./t.yaml:2: mode required_only needs labels of the claims\n"
            "  fix: target_labels_column: labels",
        ),
        (
            "- {type: python_all_samples, compute_scores_snippet: "
            "'def compute_scores(samples): pass'}",
            "./t.yaml:2: python_all_samples cannot be used in a task with a "
            "solver\n  fix: type: python",
        ),
    ],
)
def test_an_invalid_scorer_is_reported_with_its_line(read, yaml, message):
    assert read(yaml)[2][0] == message


def test_scorers_without_keys_are_called_by_their_types(read):
    equals = '- {type: string_equals, ground_truth: "{{ sample.target }}"}'
    scorers, _, _ = read("\n".join([equals] * 3))
    assert [scorer.key for scorer in scorers] == [
        "string_equals",
        "string_equals_2",
        "string_equals_3",
    ]
