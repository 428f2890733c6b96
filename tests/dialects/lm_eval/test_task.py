"""lm-eval task files → tasks. ``tests/task_files`` contains one file per case: valid
files load, invalid ones fail with the message in the file next to them."""

import json
from pathlib import Path

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.lm_eval.task import load_tasks
from pytest_evals.errors import DocumentError, OptionError, TaskFileError

FILES = Path(__file__).parents[2] / "task_files"
VALID = sorted((FILES / "valid").glob("*.yaml"))
INVALID = sorted((FILES / "invalid").glob("*.yaml"))
BASE = f"include: {FILES / 'valid' / '_base'}\ntask: toy\n"


def task(path, **options):
    (only,) = load_tasks(path, TaskOptions(**options))
    return only


def valid(name, **options):
    return task(FILES / "valid" / f"{name}.yaml", **options)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that loads a task with lines added to the base."""
    monkeypatch.chdir(tmp_path)

    def load(text, **options):
        (tmp_path / "toy.yaml").write_text(BASE + text)
        return task(tmp_path / "toy.yaml", **options)

    return load


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_gives_documents_with_requests(path):
    loaded = task(path)

    assert loaded.name == path.stem
    assert loaded.rows.total() == len(loaded.rows.ids()) == len(set(loaded.rows.ids()))
    assert loaded.metrics
    assert loaded.warnings() == ()
    for index in loaded.rows.indices():
        assert loaded.ask(index).requests


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_file_reports_all_problems(path, monkeypatch):
    monkeypatch.chdir(path.parent)

    with pytest.raises(TaskFileError) as error:
        task(path).rows.ids()

    assert f"{error.value}\n" == path.with_suffix(".txt").read_text()


def test_a_task_has_the_values_of_its_file():
    loaded = valid("multiple_choice")

    assert (loaded.name, loaded.alias) == ("multiple_choice", "Choices")
    assert loaded.tags == ("toys", "choices")
    assert (loaded.output_type, loaded.n_shots) == ("multiple_choice", 2)
    assert loaded.version == 2
    assert loaded.source.line == 2
    assert [metric.key for metric in loaded.metrics] == [
        "acc,none",
        "acc_norm,none",
        "f1,none",
    ]
    assert [(gate.id, gate.source.line) for gate in loaded.gates] == [
        ("acc", 22),
        ("norm-floor", 23),
    ]
    assert loaded.rows.ids()[:2] == ["Q-0", "Q-1"]


def test_requests_follow_the_file():
    generation, choices = valid("generation"), valid("multiple_choice")

    assert generation.ask(0).requests == tuple(
        Generate(
            "Question: T7?\nAnswer:The answer is TA7\n"
            "Question: Q0?\nAnswer:The answer is",
            stop=("\n", "."),
            max_tokens=16,
            temperature=0.5,
            options=(("top_p", 0.9),),
            repeat=repeat,
        )
        for repeat in (0, 1)
    )
    assert choices.ask(4).requests[2] == Loglikelihood(
        "Answer the questions.\n\nQuestion: T0?\nAnswer: a\n\nQuestion: T1?\nAnswer: b"
        "\n\nQuestion: Q4?\nAnswer:",
        " cc",
    )
    assert valid("rolling").ask(5).requests == (Rolling("Q5? A5"),)
    assert valid("custom_dataset").ask(1).doc.choices == ["7"]


@pytest.mark.parametrize(
    ("own", "option", "shots"),
    [("num_fewshot: 2", 1, 1), ("num_fewshot: 0", 3, 0), ("", 3, 3), ("", None, 0)],
)
def test_num_fewshot_overrides_the_file_unless_that_is_0(toy, own, option, shots):
    loaded = toy(own, num_fewshot=option)

    assert loaded.n_shots == shots
    assert loaded.ask(0).requests[0].context.count("Question:") == shots + 1


def test_few_shot_examples_use_their_own_keys_or_those_of_the_task(toy):
    loaded = toy(
        "num_fewshot: 1\n"
        "gen_prefix: 'It is'\n"
        "fewshot_config:\n"
        "  split: validation\n"
        "  doc_to_text: 'S: {{q}}'\n"
        "  doc_to_choice: null\n"
        "  doc_to_target: ans\n"
        "  target_delimiter: ' = '\n"
        "  gen_prefix: null\n"
    )

    assert loaded.ask(0).requests[0].context == (
        "S: V7? = VA7\n\nQuestion: Q0?\nAnswer: It is"
    )


def test_keys_without_effect_are_warnings(toy):
    loaded = toy(
        "generation_kwargs: {until: []}\n"
        "fewshot_config:\n"
        "  split: train\n"
        "  samples: [{q: x}]\n"
        "  fewshot_indices: [1]\n"
    )

    assert loaded.warnings() == (
        "fewshot_config: split overrides samples, as in lm-eval",
        "fewshot_config.fewshot_indices has no effect, as in lm-eval",
        "generation_kwargs has no effect with output_type multiple_choice",
    )
    assert loaded.config["fewshot_config"]["fewshot_indices"] == [1]  # as typed there


def test_a_key_given_twice_is_flagged(toy):
    assert toy("tag: a\ntag: b\n").warnings() == (
        "toy.yaml:4: 'tag' is a duplicate key; the last value is used",
    )


def test_generation_arguments_of_the_command_line_are_checked(toy):
    text = "output_type: generate_until\ndoc_to_choice: null\n"

    loaded = toy(text, gen_kwargs={"max_gen_toks": 3})
    assert loaded.ask(0).requests[0].max_tokens == 3
    with pytest.raises(OptionError) as error:
        toy(text, gen_kwargs={"max_gen_toks": -3})
    assert str(error.value) == (
        "--evals-gen-kwargs: max_gen_toks must be an integer from 1, not -3"
    )


def test_an_unselected_task_is_matched_by_name_and_tags_without_reading_it(tmp_path):
    (tmp_path / "toy.yaml").write_text(BASE + "tag: [colours, new]\nfaulty: yes\n")
    requested = []

    def takes(names):
        requested.append(tuple(names))
        return False

    assert load_tasks(tmp_path / "toy.yaml", TaskOptions(takes=takes)) == ()
    assert requested == [("toy", "colours", "new")]


def test_a_document_that_cannot_be_built_is_an_error_of_its_own(toy):
    loaded = toy("doc_to_text: '{{ 1 // (label - 1) }}'\n")
    with pytest.raises(ZeroDivisionError) as words:
        _ = 1 // 0

    assert loaded.ask(0).doc.query == "-1"
    with pytest.raises(DocumentError) as error:
        loaded.ask(1)
    assert str(error.value) == (
        f"toy.yaml:3: doc_to_text: ZeroDivisionError: {words.value}"
    )


def test_the_resolved_configuration_has_lm_evals_keys_and_the_source_of_functions():
    config = valid("functions_everywhere").config

    assert config["task"] == "functions_everywhere"
    assert config["doc_to_text"] == "def text(row):\n    return f\"Q: {row['q']}\"\n"
    assert config["fewshot_config"]["doc_to_text"] == "Example: {{q}}"
    assert config["fewshot_config"]["sampler"] == "default"
    assert (config["num_fewshot"], config["repeats"]) == (1, 1)
    assert config["metadata"] == {"version": 1.0}
    assert "gates" not in valid("multiple_choice").config["metadata"]


def test_a_function_is_looked_for_next_to_the_file_that_names_it(tmp_path):
    base = (FILES / "valid" / "_base").read_text().replace("..", str(FILES))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "base").write_text(f"{base}process_docs: !function u.f\n")
    (tmp_path / "shared" / "u.py").write_text("def f(docs):\n    return list(docs)[2:]")
    (tmp_path / "u.py").write_text("def f(docs):\n    return []")
    (tmp_path / "toy.yaml").write_text("include: shared/base\ntask: toy\n")

    assert task(tmp_path / "toy.yaml").rows.ids()[0] == "Q-2"


def test_rows_are_read_late_and_unusual_ones_are_flagged(toy):
    loaded = toy("doc_to_target: 5\n")

    assert loaded.warnings() == ()
    assert loaded.rows.total() == 8
    assert loaded.warnings() == (
        "toy.yaml:3: doc_to_target is neither a choice nor the position of one, from "
        "0, so the answer counts as wrong, as in lm-eval; correct the target "
        "(document Q-0)",
    )


def test_gates_of_a_task_have_ids_of_their_own(toy):
    loaded = toy("gates: [acc >= 0.1, acc <= 0.9]\n")

    assert [gate.id for gate in loaded.gates] == ["acc", "acc#2"]


def test_a_misspelt_key_of_a_metric_that_takes_none_is_flagged(toy):
    loaded = toy("metric_list: [{metric: acc, agregation: mean}]\n")
    (text,) = loaded.warnings()
    assert text.endswith(
        "'agregation' has no effect for 'acc'; did you mean 'aggregation'?"
    )


def test_a_function_that_ends_the_process_is_a_fault_of_the_file(tmp_path):
    (tmp_path / "u.py").write_text("import sys\ndef f(doc): sys.exit(3)\n")
    (tmp_path / "toy.yaml").write_text(BASE + "doc_to_text: !function u.f\n")
    (loaded,) = load_tasks(tmp_path / "toy.yaml", TaskOptions())
    with pytest.raises(TaskFileError, match="SystemExit: 3"):
        loaded.rows.ids()


@pytest.mark.parametrize("name", ["a::b", "a[b", "a]", "a\x1b"])
def test_a_name_that_would_break_node_ids_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.yaml"
    path.write_text(BASE.replace("task: toy", f"task: {json.dumps(name)}"))

    with pytest.raises(TaskFileError) as error:
        task(path)

    assert str(error.value) == (
        "t.yaml:2: task: a name must not contain '::', '[', ']' or control "
        f"characters: {name!r}"
    )


def test_rows_that_are_numbered_in_spite_of_an_id_column_are_in_the_warnings(toy):
    (Path.cwd() / "d.jsonl").write_text('{"id": "x"}\n{"id": "x"}\n')
    loaded = toy(
        "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\n"
        "doc_to_text: Q\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
    )

    assert loaded.rows.ids() == ["0", "1"]
    assert (
        "the column 'id' cannot be used as ids, so rows are numbered from 0: "
        "rows 0 and 1 both have 'x'" in loaded.warnings()
    )


def dataset(builder, file, raw):
    Path(file).write_bytes(raw)
    return (
        f"dataset_path: {builder}\ndataset_kwargs: {{data_files: {{test: {file}}}}}\n"
        "doc_to_text: Q\ndoc_to_choice: [a, b]\ndoc_to_target: 0\n"
    )


def failure(loaded):
    with pytest.raises(TaskFileError) as error:
        loaded.rows.ids()
    return str(error.value)


@pytest.mark.parametrize(
    ("builder", "file", "raw"),
    [
        ("json", "d.jsonl", b""),
        ("json", "d.jsonl", b"\n\n"),
        ("json", "d.json", b"[]"),
        ("csv", "d.csv", b""),
        ("csv", "d.csv", b"q,a\n"),
        ("text", "d.txt", b""),
    ],
)
def test_a_data_file_without_rows_is_named(builder, file, raw, toy):
    assert failure(toy(dataset(builder, file, raw))) == (
        f"toy.yaml:4: {file} has no rows"
    )


@pytest.mark.parametrize(
    ("builder", "file", "raw"),
    [
        ("json", "d.jsonl", b'{"q": "x"}\n{"q": "caf\xe9"}\n'),
        ("json", "d.jsonl", b'{"id": "x"}\n{"id": "caf\xe9"}\n'),
        ("csv", "d.csv", b"q,a\ncaf\xe9,1\n"),
    ],
)
def test_a_data_file_in_another_encoding_is_named_with_its_line(
    builder, file, raw, toy
):
    assert failure(toy(dataset(builder, file, raw))) == (
        f"toy.yaml:4: {file}:2 is not UTF-8 (byte 0xe9)\n"
        "  fix: convert it, for example: iconv -f latin1 -t utf-8 old > new"
    )


def test_a_later_row_in_another_encoding_is_the_fault_of_its_document(toy):
    raw = b'{"q": "x"}\n' * 600 + b'{"q": "\xe9"}\n'
    loaded = toy(dataset("json", "d.jsonl", raw))

    assert len(loaded.rows.ids()) == 601
    assert loaded.ask(1).doc.id == "1"
    with pytest.raises(DocumentError, match="a row from 512 to 1023 is not UTF-8"):
        loaded.ask(600)


@pytest.mark.parametrize(
    ("slip", "meant"), [("jsn", "json"), ("jsonl", "json"), ("CSV", "csv")]
)
def test_nearly_the_name_of_a_file_reader_is_refused_at_once(slip, meant, toy):
    assert failure(toy(dataset(slip, "d.jsonl", b'{"q": "x"}\n'))) == (
        f"toy.yaml:3: unknown dataset {slip!r}; did you mean {meant!r}?\n"
        f"  fix: dataset_path: {meant}"
    )


def test_a_file_reader_without_files_is_refused(toy):
    assert failure(toy("dataset_path: json\ndataset_kwargs: null\n")) == (
        "toy.yaml:4: data_files is missing: 'json' reads local files\n"
        "  fix: dataset_kwargs: {data_files: {test: my_file}}"
    )


def test_a_path_with_a_slash_is_not_reported_as_a_typo(toy):
    assert failure(toy(dataset("./jsn", "d.jsonl", b'{"q": "x"}\n'))).startswith(
        "toy.yaml:3: data file not found: jsn"
    )


def test_a_plain_word_that_is_not_a_column_of_choices_is_reported(toy):
    assert failure(toy("doc_to_choice: choicez\n")).startswith(
        "toy.yaml:3: doc_to_choice: unknown column 'choicez'; "
        "did you mean 'choices'?\n  fix: the columns are "
    )


def test_the_fault_of_the_first_document_names_it(toy):
    rows = b'{"id": "q7", "y": null}\n{"id": "q8", "y": 1}\n'
    text = dataset("json", "d.jsonl", rows).replace("target: 0", "target: y")

    assert failure(toy(text)) == (
        "toy.yaml:7: doc_to_target returned None, which does not identify a "
        "choice (document q7)"
    )


@pytest.mark.parametrize(
    "key", ["doc_to_text", "doc_to_target", "doc_to_choice", "process_docs"]
)
def test_a_function_tag_on_something_else_is_a_problem(key, toy):
    (Path.cwd() / "own.py").write_text("WORD = 'q'\n")

    with pytest.raises(TaskFileError) as error:
        toy(f"{key}: !function own.WORD\n")

    assert str(error.value) == (
        f"toy.yaml:3: {key}: own.WORD must be a function, not a value of type str"
    )


def test_choices_may_be_a_list_in_python(toy):
    (Path.cwd() / "own.py").write_text("LETTERS = ['a', 'b', 'c']\n")

    loaded = toy("doc_to_choice: !function own.LETTERS\ndoc_to_target: 0\n")

    assert loaded.ask(0).doc.choices == ["a", "b", "c"]


def test_documents_with_sound_are_collected_and_refused_one_by_one(toy):
    """So other tasks of the run continue."""
    loaded = toy("doc_to_audio: [q]\n")

    assert len(loaded.rows.ids()) == 8
    assert loaded.config["doc_to_audio"] == ["q"]
    with pytest.raises(DocumentError) as error:
        loaded.ask(0)
    what = "toy.yaml:3: doc_to_audio: audio is not supported"
    assert str(error.value) == what


def test_whole_texts_have_no_images(toy):
    with pytest.raises(TaskFileError) as error:
        toy("output_type: loglikelihood_rolling\ndoc_to_image: [q]\n")
    assert str(error.value) == (
        "toy.yaml:4: doc_to_image: a text without a prompt has no images\n"
        "  fix: output_type: generate_until"
    )
