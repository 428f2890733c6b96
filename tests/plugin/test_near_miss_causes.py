"""A failing gate names the likely cause of wrong answers; the proposed change makes the
documents correct."""

import json
import re

import pytest
import yaml

TAKE_FIRST = {"function": "take_first"}


def filtered(config, **step):
    config["filter_list"] = [{"name": "fixed", "filter": [step, TAKE_FIRST]}]


def argument(config, name):
    config["metric_list"][0][name] = True


def stop(config):
    config["generation_kwargs"] = {"until": ["\n"]}


def regex(config, message):
    """Copy the pattern from the message, as a user would."""
    pattern = re.search(r"regex_pattern: '(.*)'", message)[1]
    step = {"function": "regex", "regex_pattern": pattern}
    if message.endswith("group_select: -1"):
        step["group_select"] = -1
    filtered(config, **step)


@pytest.fixture
def suite(pytester):
    def write(answers, config=None):
        rows = [
            {"q": f"Question {i}", "a": target} for i, (_, target) in enumerate(answers)
        ]
        (pytester.path / "quiz.jsonl").write_text("\n".join(map(json.dumps, rows)))
        replies = {row["q"]: text for row, (text, _) in zip(rows, answers, strict=True)}
        (pytester.path / "answers.json").write_text(json.dumps(replies))
        config = config or {
            "task": "quiz",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": "quiz.jsonl"}},
            "test_split": "test",
            "output_type": "generate_until",
            "generation_kwargs": {"until": ["<end>"]},
            "doc_to_text": "{{q}}",
            "doc_to_target": "{{a}}",
            "metric_list": [{"metric": "exact_match"}],
            "gates": ["exact_match >= 0.9"],
        }
        (pytester.path / "quiz.yaml").write_text(yaml.safe_dump(config))
        return config

    pytester.makeini("[pytest]\n")
    return write


def run(pytester, *options):
    result = pytester.runpytest("--model=scripted:answers.json", *options)
    return result, [line[4:] for line in result.outlines if "wrong answers" in line]


WRONG = "of {n} wrong answers"


@pytest.mark.parametrize(
    ("answers", "message", "fix"),
    [
        (
            [(" 7", "7"), (" 8", "8"), (" 9", "9")],
            "3 of 3 wrong answers differ from the target by whitespace only; add "
            "filter remove_whitespace",
            lambda config, _: filtered(config, function="remove_whitespace"),
        ),
        (
            [("paris", "Paris"), ("ROME", "Rome")],
            "2 of 2 wrong answers differ from the target by case only; set "
            "ignore_case: true on exact_match",
            lambda config, _: argument(config, "ignore_case"),
        ),
        (
            [("Paris.", "Paris"), ("(Rome)", "Rome")],
            "2 of 2 wrong answers differ from the target by punctuation only; set "
            "ignore_punctuation: true on exact_match",
            lambda config, _: argument(config, "ignore_punctuation"),
        ),
        (
            [(" Paris.", "Paris"), (" Rome.", "Rome")],
            "2 of 2 wrong answers differ from the target by whitespace and "
            "punctuation only; add filter remove_whitespace and set "
            "ignore_punctuation: true on exact_match",
            lambda config, _: (
                filtered(config, function="remove_whitespace"),
                argument(config, "ignore_punctuation"),
            ),
        ),
        (
            [("**7**", "7"), ("`8`", "8"), ("```\n9\n```", "9")],
            "3 of 3 wrong answers equal the target without their Markdown; add filter "
            "regex with regex_pattern: *",
            regex,
        ),
        (
            [("7 apples, not 8", "7"), ("5 pears, not 6", "5")],
            "2 of 2 wrong answers equal the target if the first number is taken; add "
            "filter regex with regex_pattern: *",
            regex,
        ),
        (
            [("1 + 6 is 7", "7"), ("2.5 + 3 is 5.5", "5.5")],
            "2 of 2 wrong answers equal the target if the last number is taken; add "
            "filter regex with regex_pattern: *, group_select: -1",
            regex,
        ),
        (
            [("I choose B", "B"), ("I choose D", "D")],
            "2 of 2 wrong answers equal the target if the last letter is taken; add "
            "filter regex with regex_pattern: *, group_select: -1",
            regex,
        ),
        (
            [("7\nQuestion: 2+2=", "7"), ("8\nQuestion: 1+1=", "8")],
            "2 of 2 wrong answers continue after a first line that equals the target; "
            r'add "\n" to until in generation_kwargs',
            lambda config, _: stop(config),
        ),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) else "",
)
def test_the_proposed_change_makes_the_documents_correct(
    pytester, suite, answers, message, fix
):
    config = suite(answers)
    result, found = run(pytester)
    pattern = re.escape(message).replace(r"\*", ".*")
    assert len(found) == 1
    assert re.fullmatch(pattern, found[0])
    result.assert_outcomes(failed=1)
    fix(config, found[0])
    suite(answers, config)
    result, found = run(pytester)
    result.assert_outcomes(passed=len(answers) + 1)
    assert found == []


@pytest.mark.slow
def test_the_cause_is_in_the_results_and_with_several_workers(pytester, suite):
    suite([(" 7", "7"), (" 8", "8"), (" 9", "9")])
    _, found = run(pytester, "-n2", "--evals-json=r.json")
    (gate,) = json.loads((pytester.path / "r.json").read_text())["gates"]
    assert len(found) == 1
    assert found[0] in gate["notes"]


def test_validation_names_the_cause_in_the_last_run_until_the_task_changes(
    pytester, suite
):
    config = suite([(" 7", "7"), (" 8", "8"), ("9", "9")])
    run(pytester)
    warning = "*quiz: last run: 2 of 2 wrong answers differ*add filter remove_white*"
    pytester.runpytest("--evals-validate").stdout.fnmatch_lines([warning])
    filtered(config, function="remove_whitespace")
    suite([(" 7", "7"), (" 8", "8"), ("9", "9")], config)
    pytester.runpytest("--evals-validate").stdout.no_fnmatch_line("*last run*")


def test_a_target_that_a_csv_reader_changed_is_reported_with_and_without_a_gate(
    pytester, suite
):
    config = suite([("007", "7"), ("4.90", "5")])
    (pytester.path / "quiz.csv").write_text("q,a\nQuestion 0,007\nQuestion 1,5\n")
    config |= {"dataset_path": "csv", "gates": []}
    config["dataset_kwargs"] = {"data_files": {"test": "quiz.csv"}}
    (pytester.path / "quiz.yaml").write_text(yaml.safe_dump(config))
    cause = "equal the target as numbers, booleans, dates or missing values"
    shown = run(pytester)[0].stdout.str()
    assert "quiz[0]: the answer " + cause.replace("equal", "equals", 1) in flat(shown)
    assert "store the rows as JSON lines, with quotes" in flat(shown)
    shown = run(pytester, "--evals-gate=quiz/exact_match >= 1")[0].stdout.str()
    assert f"1 of 2 wrong answers {cause}; datasets infers" in flat(shown)
    shown = run(pytester, "--evals-strict")[0].stdout.str()
    assert "  hint    the answer equals the target as numbers" in shown


def flat(text):
    """Text without line breaks."""
    return " ".join(text.split())
