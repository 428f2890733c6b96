"""Scorers that compare strings. OBS and CORE were measured on LatticeFlow's own code
(3.17.0), DOC is from its documentation; the rest is our own decision."""

import pytest

from pytest_evals.errors import DocumentError

EQUALS = '- {type: string_equals, ground_truth: "{{ sample.target }}"}'


@pytest.mark.parametrize(
    ("target", "answer", "is_correct"),
    [
        ("Paris", "Paris", True),
        ("Paris", "Paris ", False),
        ("Paris", "paris", False),
        (3, "3", True),
    ],
)
def test_texts_are_compared_exactly(scored, target, answer, is_correct):
    """OBS."""
    score = scored(EQUALS, {"target": target}, answer)
    assert score.values == {"is_correct": is_correct}
    assert score.metadata == {"answer_gt": str(target), "answer_pred": answer}


def test_one_newline_at_the_end_of_a_truth_does_not_count(scored):
    """OBS: of a case-folded string."""
    yaml = "- type: string_equals\n  ground_truth: >\n    Paris\n"
    assert scored(yaml, {}, "Paris").values["is_correct"]


@pytest.mark.parametrize(
    "value",
    [
        "{{ solver_output.output }}",
        "{{ solver_output.output.choices[0].message.content }}",
        "{{ solver_output['output'].choices[0]['message']['content'] }}",
        "{{ solver_output.messages[-1].content }}",
        "{{ solver_output.trace.get_last_assistant_text() }}",
    ],
)
def test_the_compared_value_can_be_a_template(scored, value):
    """Decision 10: the output as text is the answer."""
    yaml = f'- {{type: string_equals, ground_truth: "a", value: "{value}"}}'
    assert scored(yaml, {}, "a").values["is_correct"]


def test_a_dataset_is_scored_by_a_value(scored, read):
    yaml = '- {type: string_equals, ground_truth: "a", value: "{{ sample.x }}"}'
    assert scored(yaml, {"x": "a"}).values["is_correct"]
    assert read(EQUALS, has_solver=False)[2] == [
        "./t.yaml:2: value is required in a task without a solver\n"
        '  fix: value: "{{ sample.answer }}"'
    ]


def test_a_missing_answer_is_an_error_and_not_a_wrong_answer(scored):
    with pytest.raises(DocumentError, match="the trace has no assistant message"):
        scored(EQUALS, {"target": "a"}, trace=[{"role": "user", "content": "a"}])


MCQA = (
    '- {type: string_equals_mcqa, ground_truth_choice: "{{ sample.right }}", '
    'choices: "{{ sample.choices }}"}'
)


@pytest.mark.parametrize(
    ("answer", "is_correct", "validity"),
    [
        ("A", True, "valid"),
        ("A.", True, "valid"),
        ("Answer: A", True, "valid"),
        ("a", False, "invalid"),
        (" A", False, "invalid"),
        ("(A)", False, "invalid"),
        ("", False, "invalid"),
        ("B", False, "valid"),
    ],
)
def test_the_first_character_is_the_choice(scored, answer, is_correct, validity):
    """OBS, including "Answer: A", whose first character happens to be correct."""
    score = scored(MCQA, {"right": "A", "choices": ["A", "B"]}, answer)
    assert score.values == {"is_correct": is_correct}
    assert score.metadata == {
        "ground_truth_choices": ["A", "B"],
        "ground_truth_correct_choice": "A",
        "predicted_choice": answer[:1],
        "completion_validity": validity,
    }


def test_choices_may_be_json_or_python(scored):
    """OBS."""
    sample = {"right": "A", "choices": '["A", "B"]'}
    assert scored(MCQA, sample, "A").metadata["completion_validity"] == "valid"
    sample["choices"] = "3"
    assert scored(MCQA, sample, "A").metadata["completion_validity"] == "unknown"
    sample["choices"] = "A or B"
    with pytest.raises(DocumentError, match="neither JSON nor Python: 'A or B'"):
        scored(MCQA, sample, "A")


def test_older_files_name_columns(scored):
    yaml = (
        "- {type: string_equals_mcqa, ground_truth_choice_field: r c, "
        "choices_field: choices}"
    )
    sample = {"r c": "B", "choices": ["A", "B"]}
    assert scored(yaml, sample, "B").values["is_correct"]


def test_bleu_is_sacrebleus_of_one_sentence(scored):
    sacrebleu = pytest.importorskip("sacrebleu")
    yaml = '- {type: bleu, ground_truth: "{{ sample.t }}"}'
    reference, candidate = "the cat sat on the mat", "the cat is on the mat"
    want = sacrebleu.sentence_bleu(candidate, [reference]).score / 100
    assert scored(yaml, {"t": reference}, candidate).values == {"bleu_score": want}
    assert scored(yaml, {"t": reference}, reference).values[
        "bleu_score"
    ] == pytest.approx(1)
    assert scored(yaml, {"t": reference}, "").values["bleu_score"] == 0
