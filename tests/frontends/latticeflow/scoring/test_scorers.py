"""Scorers: values of a sample. OBS and CORE were measured on LatticeFlow's own code
(3.17.0), DOC stands in its documentation; all else is a decision of ours."""

import json
from textwrap import indent

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
    """OBS: of a folded text."""
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
def test_what_is_compared_may_be_said(scored, value):
    """Decision 10: the output as text is the answer."""
    yaml = f'- {{type: string_equals, ground_truth: "a", value: "{value}"}}'
    assert scored(yaml, {}, "a").values["is_correct"]


def test_a_dataset_is_scored_by_a_value(scored, read):
    yaml = '- {type: string_equals, ground_truth: "a", value: "{{ sample.x }}"}'
    assert scored(yaml, {"x": "a"}).values["is_correct"]
    assert read(EQUALS, has_solver=False)[2] == [
        "./t.yaml:2: there is no solver, so that value must say what is compared\n"
        '  fix: value: "{{ sample.answer }}"'
    ]


def test_an_answer_that_is_not_there_is_no_wrong_answer(scored):
    with pytest.raises(DocumentError, match="the assistant has said nothing"):
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
    """OBS, also "Answer: A", whose first character happens to be right."""
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
    truth, said = "the cat sat on the mat", "the cat is on the mat"
    want = sacrebleu.sentence_bleu(said, [truth]).score / 100
    assert scored(yaml, {"t": truth}, said).values == {"bleu_score": want}
    assert scored(yaml, {"t": truth}, truth).values["bleu_score"] == pytest.approx(1)
    assert scored(yaml, {"t": truth}, "").values["bleu_score"] == 0


CLASSIFIER = """
- type: model_as_a_judge_classifier
  model_key: judge-model
  system_prompt: "Say 'correct' or 'incorrect'."
  user_prompt: "Truth: {{ sample.gt }} Answer: {{ solver_output.output }}"
  correct_labels: ["correct"]
  incorrect_labels: ["incorrect"]
"""


def test_a_judge_is_asked_with_the_answer(scored, read):
    asked = []

    def reply(prompt):
        asked.append(prompt)
        return "correct"

    score = scored(CLASSIFIER, {"gt": "Paris"}, "paris", reply)
    assert score.values == {"is_correct": True}
    assert score.metadata == {"prediction": "correct", "raw": "correct"}
    ((system, user),) = asked
    assert system == ("system", "Say 'correct' or 'incorrect'.")
    assert user.content.startswith("Truth: Paris Answer: paris\n\nReply with a JSON")
    assert '"prediction" (one of "correct", "incorrect")' in user.content
    assert read(CLASSIFIER)[0][0].models == {"judge-model"}


@pytest.mark.parametrize(
    ("reply", "is_correct"),
    [
        ("correct", True),
        ("Incorrect.", False),
        ('"CORRECT"', True),
        ('{"prediction": "incorrect", "reasoning": "r", "confidence": 0.5}', False),
        ('```json\n{"prediction": "correct"}\n```', True),
        ('Sure: {"label": "correct"} as asked', True),
    ],
)
def test_a_reply_may_be_json_or_a_bare_label(scored, reply, is_correct):
    """SEED: the documentation's own example asks for one bare word."""
    assert (
        scored(CLASSIFIER, {"gt": "a"}, "b", reply).values["is_correct"] is is_correct
    )


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("perhaps", "is none of 'correct', 'incorrect': 'perhaps'"),
        ("not correct", "is none of"),
        ('{"prediction": "so-so"}', "is none of"),
        ("", "has no label: ''"),
        ('{"prediction": null}', "has no label"),
    ],
)
def test_a_reply_with_no_label_is_no_wrong_answer(scored, reply, told):
    with pytest.raises(DocumentError, match=told):
        scored(CLASSIFIER, {"gt": "a"}, "b", reply)


def test_structured_outputs_are_asked_for_with_the_labels(read):
    from pytest_evals.frontends.latticeflow.solving.steps import replayed
    from pytest_evals.prompts.latticeflow.output import SolverOutput

    (scorer,), _, _ = read(f"{CLASSIFIER}  use_structured_outputs: true\n")
    output = SolverOutput(trace=[{"role": "assistant", "content": "b"}])
    (asked,) = replayed(scorer.steps({"gt": "a"}, output), ())
    form = json.loads(dict(asked.request.options)["response_format"])
    schema = form["json_schema"]["schema"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    assert schema["properties"]["prediction"]["enum"] == ["correct", "incorrect"]
    assert asked.model == "judge-model"


def test_a_labeler_takes_any_label_unless_some_are_valid(scored):
    yaml = """
- type: labeler_via_model
  model_key: m
  user_prompt: "{{ sample.text }}"
"""
    assert scored(yaml, {"text": "a"}, reply="polite").values == {"label": "polite"}
    json_reply = '{"label": "RUDE", "reasoning": "r", "confidence": 1}'
    score = scored(yaml, {"text": "a"}, reply=json_reply)
    assert score.values == {"label": "RUDE"}
    assert score.metadata["reasoning"] == "r"
    yaml += '  valid_labels: ["POLITE", "RUDE"]\n'
    assert scored(yaml, {"text": "a"}, reply="polite").values == {"label": "POLITE"}
    with pytest.raises(DocumentError, match="none of 'POLITE', 'RUDE': 'neither'"):
        scored(yaml, {"text": "a"}, reply="neither")


GRADER = """
- type: model_as_a_judge_scorer
  model_key: m
  user_prompt: "Grade {{ input_prompt }} and {{ messages[-1].content }}"
  score_min: 0
  score_max: 10
"""


@pytest.mark.parametrize(
    ("reply", "score"),
    [("7", 0.7), ('{"score": 2.5}', 0.25), ("10.", 1.0), ('{"score": "5"}', 0.5)],
)
def test_a_grade_is_brought_between_0_and_1(scored, reply, score):
    """DOC."""
    found = scored(GRADER, {}, "x", reply)
    assert found.values == {"score": pytest.approx(score)}
    assert found.metadata["raw_score"] == pytest.approx(score * 10)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("11", "score 11 is not between 0 and 10"),
        ("good", "has no score: 'good'"),
        ('{"score": true}', "has no score"),
        ("nan", "has no score"),
        ('{"grade": 3}', "has no score"),
    ],
)
def test_a_grade_that_means_nothing_is_no_bad_grade(scored, reply, told):
    with pytest.raises(DocumentError, match=told):
        scored(GRADER, {}, "x", reply)


TRACES = {
    # name: (expected calls, calls made)
    "t1": (["lookup", "book"], [("lookup", {"city": "Bern"}), ("book", {"room": 4})]),
    "t2": (["lookup", "book"], [("book", {"room": 4}), ("lookup", {"city": "Bern"})]),
    "t3": (["lookup", "lookup"], [("lookup", {}), ("weather", {})]),
    "t4": ([], []),
    "t5": ([{"name": "book", "arguments": {"room": 4}}], [("book", {"room": 5})]),
}


@pytest.mark.parametrize(
    ("name", "complete", "coverage", "made", "unrequired"),
    [
        ("t1", (True, True), 1, 2, 0),
        ("t2", (True, False), 1, 2, 0),
        ("t3", (False, False), 0.5, 1, 1),
        ("t4", (True, True), 1, 0, 0),
        ("t5", (False, False), 0, 0, 1),
    ],
)
def test_calls_of_functions_are_covered(
    scored, name, complete, coverage, made, unrequired
):
    """CORE: values by hand of the algorithm, as LatticeFlow's own code gives them."""
    expected, calls = TRACES[name]
    trace = [{"role": "user", "content": "a"}] + [
        {"type": "function_call", "name": n, "arguments": json.dumps(arguments)}
        for n, arguments in calls
    ]
    modes = zip(("any_order", "in_order"), complete, strict=True)
    for mode, is_complete in modes:
        for form in ("sample.calls | tojson", "sample.calls"):
            yaml = (
                f"- {{type: function_call_coverage, mode: {mode}, "
                f'function_calls: "{{{{ {form} }}}}"}}'
            )
            score = scored(yaml, {"calls": expected}, trace=trace)
            assert score.values == {
                "all_required_calls_made": is_complete,
                "required_calls_coverage": coverage,
                "num_required_calls_made": made,
                "num_required_calls_not_made": len(expected) - made,
                "num_unrequired_calls": unrequired,
                "num_required_calls_total": len(expected),
            }


def test_calls_with_arguments_are_matched_first(scored):
    """CORE: else the call without arguments would take the only fitting one."""
    calls = ["f", {"name": "f", "arguments": {"a": 1}}]
    trace = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "name": "f", "arguments": "no JSON"},
    ]
    yaml = "- {type: function_call_coverage, function_calls: '{{ sample.c | tojson }}'}"
    score = scored(yaml, {"c": calls}, trace=trace)
    assert score.values["num_required_calls_made"] == 2
    with pytest.raises(DocumentError, match="gives no list: 3"):
        scored(yaml, {"c": 3}, trace=trace)


def python(code, kind="python"):
    return f"- type: {kind}\n  compute_scores_snippet: |\n{indent(code, '    ')}"


@pytest.mark.parametrize(
    "code",
    [
        "def compute_scores(sample, solver_output):\n"
        "    return {'a': solver_output.output.choices[0].message.content}",
        "async def compute_scores(sample, solver_output):\n"
        "    return {'scores': {'a': solver_output.messages[-1].content}}",
        "def compute_scores(solver_output, sample):\n"
        "    return {'a': solver_output.trace.get_last_assistant_text()}",
        "def compute_scores(sample, model_input, model_output):\n"
        "    return {'a': str(model_output)}",
        "from latticeflow.core.dtypes import SampleScore\n"
        "def compute_scores(sample, solver_output):\n"
        "    return SampleScore(values={'a': 'x'})",
    ],
)
def test_python_may_be_written_in_any_of_these_ways(scored, code):
    score = scored(python(code), {}, "x")
    assert (score.values, score.metadata) == ({"a": "x"}, {})


def test_metadata_is_kept_beside(scored):
    head = "def compute_scores(sample):\n    return "
    code = f"{head}{{'scores': {{'n': 1}}, 'metadata': {{'k': 2}}}}"
    score = scored(python(code), {})
    assert (score.values, score.metadata) == ({"n": 1}, {"k": 2})
    assert scored(python(f"{head}{{'scores': 3}}"), {}).values == {"scores": 3}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return 3", "compute_scores returns scores by name, not 3"),
        ("return {1: 2}", "returns a score called 1, which is no text"),
        ("return sample['x']", r"KeyError: 'x' \(.*t.yaml:5\)"),
    ],
)
def test_faults_of_python_are_told_with_its_line(scored, body, told):
    with pytest.raises(DocumentError, match=told):
        scored(python(f"def compute_scores(sample):\n    {body}"), {})


UNIQUE = """
from collections import Counter

def compute_scores(samples):
    seen = Counter(sample.get("email") for sample in samples)
    return [
        {"is_unique": seen[s.get("email")] == 1 if s.get("email") else True}
        for s in samples
    ]
"""


def test_a_scorer_may_see_all_samples(read):
    """By hand: two of four share an address, and one has none."""
    (scorer,), _, problems = read(python(UNIQUE, "python_all_samples"), False)
    assert problems == []
    emails = [{"email": "a"}, {"email": "b"}, {"email": "a"}, {}]
    found = [score["is_unique"] for score in scorer.of_all(emails)]
    assert found == [False, True, False, True]


@pytest.mark.parametrize(
    ("body", "told"),
    [("[{}]", "returns 1 scores for 2 samples"), ("3", "returns a list, not 3")],
)
def test_all_samples_must_be_scored(read, body, told):
    code = f"def compute_scores(samples):\n    return {body}"
    (scorer,), _, _ = read(python(code, "python_all_samples"), False)
    with pytest.raises(DocumentError, match=told):
        scorer.of_all([{}, {}])


def test_of_aligned_datasets_the_first_counts(read):
    code = (
        "def compute_scores(samples):\n"
        "    return [{'n': len(samples['b'])} for _ in samples['a']]"
    )
    (scorer,), _, _ = read(python(code, "python_all_samples"), False)
    found = scorer.of_all({"a": [{}, {}], "b": [{}]})
    assert [score.values for score in found] == [{"n": 1}, {"n": 1}]


RAG = """
- type: rag_checker
  judge_model_key: m
"""


def rag_reply(prompt):
    """A judge that takes each word for a claim, and looks for it in the text."""
    text = prompt[-1].content
    about = text.split("Text:\n")[1].split("\n\nReply")[0]
    if "apart" in text:
        return json.dumps({"claims": about.split()})
    claims = json.loads(text.split("Claims:\n")[1].split("\n\nText")[0])
    return json.dumps({"entailed": [claim in about.split() for claim in claims]})


def test_retrieved_answers_are_checked_claim_by_claim(scored):
    """By hand, by the definitions of RAGChecker (arXiv 2408.08067): target a b c,
    answer a b x y z, passages "a x" (relevant) and "y q" (not)."""
    trace = [
        {"role": "user", "content": "q"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "a b x y z",
                    "annotations": [
                        {"type": "text_citation", "content": "a x"},
                        {"type": "text_citation", "content": "y q"},
                    ],
                }
            ],
        },
    ]
    score = scored(RAG, {"query": "q", "target": "a b c"}, reply=rag_reply, trace=trace)
    assert score.values == pytest.approx(
        {
            "recall": 2 / 3,
            "precision": 2 / 5,
            "f1_score": 0.5,
            "claim_recall": 1 / 3,
            "context_precision": 1 / 2,
            "context_utilization": 1.0,
            "noise_sensitivity_in_relevant": 1 / 5,
            "noise_sensitivity_in_irrelevant": 1 / 5,
            "hallucination": 1 / 5,
            "self_knowledge": 1 / 5,
            "faithfulness": 3 / 5,
        }
    )


def test_a_score_without_anything_to_count_is_left_out(scored):
    score = scored(RAG, {"query": "q", "target": "a"}, "a b", rag_reply)
    assert score.values == pytest.approx(
        {
            "recall": 1.0,
            "precision": 0.5,
            "f1_score": 2 / 3,
            "claim_recall": 0.0,
            "noise_sensitivity_in_relevant": 0.0,
            "noise_sensitivity_in_irrelevant": 0.0,
            "hallucination": 0.5,
            "self_knowledge": 0.5,
            "faithfulness": 0.0,
        }
    )


def test_required_claims_have_scores_of_their_own(scored):
    yaml = f"""{RAG}  scores_to_compute: [recall]
  mode: required_and_optional
  target_claims_column: claims
  target_labels_column: labels
"""
    sample = {
        "query": "q",
        "target": "t",
        "claims": [{"subject": "a", "predicate": "", "object": ""}, "b", "c"],
        "labels": ["OPTIONAL", "REQUIRED", "REQUIRED"],
    }
    score = scored(yaml, sample, "b", rag_reply)
    assert score.values == {"recall": pytest.approx(1 / 3), "required_recall": 0.5}


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("no", "has no list of claims"),
        ('{"claims": ["a"], "entailed": [true, true]}', "true or false of 1 claims"),
    ],
)
def test_a_judge_that_says_nothing_of_claims_is_told(scored, reply, told):
    with pytest.raises(DocumentError, match=told):
        scored(RAG, {"query": "q", "target": "a"}, "a", reply)


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        (
            "- {}",
            "./t.yaml:2: type is missing\n  fix: type is one of bleu, "
            "function_call_coverage, labeler_via_model, lighteval, "
            "model_as_a_judge_classifier, model_as_a_judge_scorer, python, "
            "python_all_samples, rag_checker, "
            "string_equals, string_equals_mcqa",
        ),
        (
            "- {type: string_equal}",
            "./t.yaml:2: no scorer called 'string_equal'; did you mean "
            "'string_equals'?\n  fix: type: string_equals",
        ),
        (
            "- {type: string_equals, ground_truth: 4}",
            "./t.yaml:2: ground_truth is a text, not 4\n  fix: ground_truth: '4'",
        ),
        (
            "- {type: string_equals}",
            "./t.yaml:2: ground_truth is missing\n  fix: ground_truth: "
            '"{{ sample.target }}"',
        ),
        (
            "- {type: string_equals, ground_truth: a, truth: b}",
            "./t.yaml:2: a scorer of type string_equals has no key 'truth'",
        ),
        (
            "- {type: string_equals, ground_truth: a, purpose: fun}",
            "./t.yaml:2: no purpose called 'fun'\n  fix: purpose is one of score, qa",
        ),
        (
            "- {type: string_equals, ground_truth: a, key: x}\n"
            "- {type: string_equals, ground_truth: a, key: x}",
            "./t.yaml:3: there is another scorer called 'x'",
        ),
        (
            "- {type: labeler_via_model, model_key: m, user_prompt: a, "
            "valid_labels: [yes, no]}",
            "./t.yaml:2: a label is a text, not True\n  fix: quote it: YAML reads yes, "
            "no, on and off as true and false",
        ),
        (
            "- {type: labeler_via_model, model_key: m, user_prompt: a, "
            "valid_labels: [1]}",
            './t.yaml:2: a label is a text, not 1\n  fix: "1"',
        ),
        (
            "- {type: model_as_a_judge_scorer, model_key: m, user_prompt: a, "
            "score_min: 1, score_max: 1}",
            "./t.yaml:2: score_max is more than score_min, and 1 is not more than 1",
        ),
        (
            "- {type: model_as_a_judge_classifier, model_key: m, user_prompt: a, "
            "correct_labels: [x], incorrect_labels: [x]}",
            "./t.yaml:2: 'x' is a correct label and an incorrect one",
        ),
        (
            "- {type: model_as_a_judge_scorer, user_prompt: a}",
            "./t.yaml:2: model_key is missing\n  fix: model_key: "
            '"<< config.my_model >>"',
        ),
        (
            "- {type: rag_checker, judge_model_key: m, scores_to_compute: [recal]}",
            "./t.yaml:2: no score called 'recal'; did you mean 'recall'?",
        ),
        (
            "- {type: rag_checker, judge_model_key: m, mode: required_only}",
            "./t.yaml:2: mode required_only needs to know which claims are required\n"
            "  fix: target_labels_column: labels",
        ),
        (
            "- {type: python_all_samples, compute_scores_snippet: "
            "'def compute_scores(samples): pass'}",
            "./t.yaml:2: python_all_samples sees samples only, and this task has a "
            "solver\n  fix: type: python",
        ),
    ],
)
def test_what_a_scorer_cannot_say_is_told_with_its_line(read, yaml, told):
    assert read(yaml)[2][0] == told


def test_scorers_without_keys_are_called_by_their_types(read):
    scorers, _, _ = read(f"{EQUALS}\n{EQUALS}\n{EQUALS}")
    assert [scorer.key for scorer in scorers] == [
        "string_equals",
        "string_equals_2",
        "string_equals_3",
    ]
