"""Evals with choices: YAML, Python and rows."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import pytest_evals as ev
from pytest_evals import (
    DocumentError,
    Generate,
    Loglikelihood,
    Message,
    OptionError,
    RunResult,
    TaskFileError,
    TaskOptions,
    evaluate,
)
from pytest_evals.dialects.native.eval_file import load_tasks
from tests.json_schemas import eval_schema

LOGPROBS = {"London": -1.0, "Paris": -2.0, "Rome": -3.0, "New York City": -3.0}
"""London has the highest log-probability; per character, -1/6, -2/5, -3/4 and -3/13."""
ROWS = """\
prompt: "{{q}}\\nAnswer:"
rows:
  - {id: gb, q: "England?", options: [London, Paris, Rome], a: London}
  - {id: us, q: "Largest of the US?", options: [Paris, New York City], a: New York City}
  - {id: it, q: "Italy?", options: [London, Paris, Rome], a: Rome}
target: "{{a}}"
"""
LM_EVAL = """\
task: cities
dataset_path: json
dataset_kwargs: {data_files: {test: rows.json}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}\\nAnswer:"
doc_to_choice: "{{options}}"
doc_to_target: "{{a}}"
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model with log-probabilities of the cities."""
    rules = [
        {"continuation": space + city, "logprob": logprob, "greedy": False}
        for city, logprob in LOGPROBS.items()
        for space in ("", " ")
    ]
    rules.append({"regex": "Italy", "text": "Answer: C"})
    rules.append({"text": "A or B"})
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, rules)), "utf-8")
    return f"scripted:{path}"


def values(result: RunResult) -> dict[str, float]:
    """Metric → value."""
    metrics = result.tasks[0].metrics
    return {one.name: one.estimate.value for one in metrics if one.estimate}


def eval_file(folder: Path, text: str) -> Path:
    """The path of an eval file."""
    path = folder / "cities.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(folder: Path, text: str) -> list[str]:
    """The problems of an eval file, as ``line: message``."""
    with pytest.raises(TaskFileError) as error:
        for task in load_tasks(eval_file(folder, text), TaskOptions()):
            task.rows.ids()
    return [f"{one.where.line}: {one.message}" for one in error.value.problems]


def test_choices_are_scored_by_log_probabilities_as_in_lm_eval(
    tmp_path: Path, model: str
) -> None:
    rows = yaml.safe_load(ROWS)["rows"]
    (tmp_path / "rows.json").write_text(json.dumps(rows), "utf-8")
    lm_eval = tmp_path / "lm_eval.yaml"
    lm_eval.write_text(LM_EVAL, "utf-8")
    expected = evaluate(lm_eval, model)
    for choices in ('"{{options}}"', "options"):
        text = f"{ROWS}choices: {choices}\n"
        result = evaluate(eval_file(tmp_path, text), model)
        # By hand: London, Paris, London; per character London, New York City, London.
        assert values(result) == pytest.approx({"acc": 1 / 3, "acc_norm": 2 / 3})
        assert values(expected) == values(result)
        found, other = result.tasks[0].records, expected.tasks[0].records
        assert [one.requests for one in found] == [one.requests for one in other]
        assert [one.correct for one in found] == [True, False, False]
        jsonschema.validate(yaml.safe_load(text), eval_schema())


def test_choices_can_be_a_list_of_templates(tmp_path: Path, model: str) -> None:
    text = (
        'prompt: "{{q}}"\n'
        "rows: [{q: Italy, other: Paris, target: 1}]\n"
        'choices: ["{{other}}", Rome]\n'
    )
    (record,) = evaluate(eval_file(tmp_path, text), model).tasks[0].records
    assert record.requests == (
        Loglikelihood("Italy", " Paris"),
        Loglikelihood("Italy", " Rome"),
    )
    assert record.correct is False


@pytest.mark.parametrize("by_key", [True, False])
def test_choices_are_answered_by_generation(
    tmp_path: Path, model: str, by_key: bool
) -> None:
    key, options = ("choices_by: generate\n", None) if by_key else ("", "generate")
    path = eval_file(tmp_path, f'{ROWS}choices: "{{{{options}}}}"\n{key}')
    result = evaluate(path, model, TaskOptions(choices=options or ""))
    assert values(result) == pytest.approx({"acc": 1 / 3, "unparsable": 2 / 3})
    request = result.tasks[0].records[2].requests[0]
    assert isinstance(request, Generate)
    assert request.prompt == (
        "### Question\nItaly?\n\nA. London\nB. Paris\nC. Rome\n\nReply with the letter "
        'of the correct choice, in the form "Answer: LETTER".\nAnswer:'
    )
    by_logprob = evaluate(path, model, TaskOptions(choices="loglikelihood"))
    assert values(by_logprob) == pytest.approx({"acc": 1 / 3, "acc_norm": 2 / 3})


def test_the_two_ways_are_never_compared(tmp_path: Path, model: str) -> None:
    gate = "{metric: acc, baseline: main, max_drop: 0.02, over: run}"
    path = eval_file(tmp_path, f"{ROWS}choices: options\ngates: [{gate}]\n")
    folder = tmp_path / "out"
    evaluate(path, model, folder=folder, save="main", save_failed=True)
    same = evaluate(path, model, folder=folder, compare="main")
    assert same.verdicts[0].outcome.value == "passed"
    generated = TaskOptions(choices="generate")
    with pytest.raises(OptionError, match="'generate' instead of 'loglikelihood'"):
        evaluate(path, model, generated, folder=folder, compare="main")


def test_messages_of_a_chat_stay_in_front_of_the_lettered_question(model: str) -> None:
    @ev.eval(choices_by="generate", system="Be short.")
    def cities() -> Any:
        yield ev.case(
            [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi"},
                {"role": "user", "content": "Italy?"},
            ],
            choices=["London", "Paris", "Rome"],
            target="C",
        )

    result = evaluate(cities, model)
    (record,) = result.tasks[0].records
    request = record.requests[0]
    assert isinstance(request, Generate)
    assert [one[0] for one in request.prompt] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert request.prompt[-1][1].startswith("Italy?\n\nA. London\nB. Paris\nC. Rome\n")
    assert record.correct


@pytest.mark.parametrize(
    ("prompt", "continuation"),
    [
        ("Italy:", " Rome"),
        ("Italy:\n", "Rome"),
        ([Message("user", "Italy?")], "Rome"),
        ([Message("user", "Italy?"), Message("assistant", "It is")], " Rome"),
    ],
)
def test_a_space_separates_prompt_and_choice_unless_they_are_separate(
    prompt: Any, continuation: str, model: str
) -> None:
    row = {"prompt": prompt, "choices": ["Rome", "Paris"], "target": "A"}
    (record,) = evaluate([row], model).tasks[0].records
    assert isinstance(record.requests[0], Loglikelihood)
    assert record.requests[0].continuation == continuation


@pytest.mark.parametrize("options", [None, TaskOptions(choices="generate")])
def test_the_model_of_an_eval_answers_choices(
    model: str, options: TaskOptions | None, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\n")
    by = "generate" if options else "loglikelihood"
    pytester.makepyfile(
        test_cities=f"""
        import pytest_evals as ev

        @ev.eval(model={model!r}, choices_by={by!r}, gates=["acc >= 1"])
        def cities():
            yield ev.case("Italy", choices=["Rome", "New York", "X"], target={
            '"C"' if options else '"A"'
        })
        """
    )
    answers = Path(model.removeprefix("scripted:"))
    more = {"continuation": " New York", "logprob": -9, "greedy": False}
    rule = {"continuation": " X", "logprob": -9, "greedy": False}
    answers.write_text(
        "\n".join([json.dumps(more), json.dumps(rule), answers.read_text()])
    )
    assert pytester.runpytest().parseoutcomes() == {"passed": 2}


@pytest.mark.slow
def test_workers_and_one_process_have_equal_numbers(
    model: str, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        test_cities="""
        import pytest_evals as ev

        @ev.eval(gates=["acc >= 0.5", "acc_norm >= 0.5"])
        def cities():
            for n in range(8):
                target = ["London", "Rome"][n % 4 == 0]
                yield ev.case(f"City {n}", target, choices=["London", "Rome"])
        """
    )
    for workers in ("-n0", "-n2"):
        done = pytester.runpytest(f"--model={model}", workers, "-q")
        assert done.parseoutcomes() == {"passed": 10 - 2, "wrong": 2}
        done.stdout.fnmatch_lines(["cities * acc *0.750*"])


@pytest.mark.parametrize(
    ("target", "choices", "golds"),
    [
        ("Paris", ["London", "Paris"], [1]),
        (" Paris\n", ["London", "Paris "], [1]),
        ("B", ["London", "Paris"], [1]),
        ("b", ["London", "Paris"], [1]),
        (1, ["London", "Paris"], [1]),
        ("1", ["London", "Paris"], [1]),
        (["London", 1], ["London", "Paris"], [0, 1]),
        (4, [3, 4, 5], [1]),
        ("B", ["A", "B"], [1]),
        (0, ["0", "1"], [0]),
    ],
)
def test_a_target_is_the_text_the_letter_or_the_index_of_a_choice(
    target: Any, choices: list[Any], golds: list[int]
) -> None:
    assert ev.case("Capital?", target, choices=choices).golds == golds


@pytest.mark.parametrize(
    ("target", "choices", "what"),
    [
        (
            "Pari",
            ["London", "Paris"],
            "target 'Pari' is not among the choices; did you",
        ),
        ("C", ["London", "Paris"], "target 'C' is not among the choices; known: Lon"),
        (2, ["London", "Paris"], "target 2 is not among the choices"),
        (-1, ["London", "Paris"], "target -1 is not among the choices"),
        (True, ["True", "False"], "target True is not among the choices"),
        ("9" * 5000, ["London", "Paris"], "target '9999"),
        (2, [1, 2, 3], "target 2 is ambiguous: the index of choice 2 and the text of"),
        ("A", ["B", "A"], "target 'A' is ambiguous: the letter of choice 0 and the te"),
        (None, ["London", "Paris"], "a case with choices has no target"),
        ([], ["London", "Paris"], "a case with choices has no target"),
        ("a", [], "the list of choices is empty"),
        ("a", ["a"], "there is only one choice, 'a'"),
        ("a", ["a", "b", "a "], "choices 0 and 2 are both 'a'"),
        ("a", ["a", " "], "choice 1 is empty"),
        ("a", ["a", None], "choice 1 is None, not text"),
        ("a", [True, False], "choice 0 is True, not text"),
        ("a", "a, b", "choices must be a list, not 'a, b'"),
        ("a", {"a", "b"}, "choices must be a list, not {"),
        ("a", {"A": "a"}, "choices must be a list, not {"),
    ],
)
def test_invalid_choices_and_targets_are_errors_with_a_fix(
    target: Any, choices: Any, what: str
) -> None:
    with pytest.raises(DocumentError) as error:
        ev.case("Capital?", target, choices=choices)
    assert str(error.value).startswith(what)
    assert "\n  fix: " in str(error.value)


def test_all_rows_of_a_file_are_checked_with_their_lines(tmp_path: Path) -> None:
    text = (
        'prompt: "{{q}}"\n'
        "rows:\n"
        "  - {q: a, options: [x, y], target: x}\n"
        "  - {q: b, options: [x, y], target: z}\n"
        "  - {q: c, options: null, target: x}\n"
        "choices: options\n"
    )
    assert problems(tmp_path, text) == [
        "4: target 'z' is not among the choices; known: x, y\n  fix: give the text, "
        "the letter or the index (from 0) of the correct choice",
        "5: the list of choices is empty\n  fix: list at least two texts, such as "
        '["Paris", "Rome"]',
    ]


def test_keys_without_effect_on_choices_are_errors(tmp_path: Path) -> None:
    head = 'prompt: "{{q}}"\nrows: [{q: a, target: x}]\n'
    keys = (
        "choices: [x, y]\nscore: exact\nrepeats: 3\ngeneration: {max_tokens: 3}\n"
        "choices_by: letters\nmetadata: {choices: generate}\n"
    )
    assert problems(tmp_path, head + keys) == [
        "4: score has no effect on choices",
        "5: repeats has no effect on choices",
        "6: generation has no effect on choices",
        "7: choices_by: unknown value 'letters'; known: generate, loglikelihood",
        "8: metadata: choices has no effect in an eval",
    ]
    assert problems(tmp_path, head + "choices_by: generate\n") == [
        "3: choices_by is set without choices\n  fix: add choices"
    ]
    assert problems(tmp_path, head + "choices: 3\n") == [
        "3: choices must be a template, a column or a list"
    ]
    assert problems(tmp_path, head + "choices: options\n") == [
        "3: choices: unknown column 'options'"
    ]


@pytest.mark.parametrize(
    ("arguments", "second", "what"),
    [
        ({}, ev.case("b", "x"), "case 1 has no choices, and others have"),
        ({"score": "exact"}, None, "score has no effect on choices"),
        ({"repeats": 2}, None, "repeats has no effect on choices"),
        ({"generation": {"max_tokens": 2}}, None, "generation has no effect on"),
        ({"choices_by": "letter"}, None, "choices_by: unknown value 'letter'"),
    ],
)
def test_invalid_arguments_of_an_eval_with_choices_are_errors(
    arguments: Any, second: Any, what: str, model: str
) -> None:
    @ev.eval(**arguments)
    def cities() -> Any:
        yield ev.case("a", "x", choices=["x", "y"])
        if second is not None:
            yield second

    with pytest.raises(TaskFileError, match=f"cities: {what}"):
        evaluate(cities, model)


def test_an_invalid_case_of_a_function_is_reported_with_its_own_line(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        test_cities="""
        import pytest_evals as ev

        @ev.eval
        def cities():
            yield ev.case("a", "x", choices=["x", "y"])
            yield ev.case("b", "z", choices=["x", "y"])
        """
    )
    done = pytester.runpytest("--model=scripted:echo")
    done.stdout.fnmatch_lines(["*test_cities.py:6: *target 'z' is not among*"])


def test_rows_of_evaluate_and_of_a_test_have_choices(
    model: str, pytester: pytest.Pytester
) -> None:
    rows = [{"q": "Italy", "o": ["Rome", "Paris"], "a": "Rome"}]
    for choices in ("{{o}}", "o", ["Rome", "Paris"]):
        result = evaluate(
            rows,
            model,
            prompt="{{q}}",
            target="{{a}}",
            choices=choices,
            gates=["acc>=0.5"],
        )
        assert values(result) == {"acc": 0.0, "acc_norm": 0.0}
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(
        f"""
        def test_cities(evals):
            rows, gates = {rows!r}, ["acc >= 1"]
            evals(rows, prompt="{{{{q}}}}", target="a", choices="o", gates=gates)
        """
    )
    done = pytester.runpytest(f"--model={model}")
    done.stdout.fnmatch_lines(["*acc 0.000 is not >= 1 (0 of 1)*"])
