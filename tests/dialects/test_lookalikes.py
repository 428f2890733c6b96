"""YAML files that resemble eval files and are not read as such."""

import pytest

from pytest_evals.dialects.detect import dialect, lookalike_bytes
from pytest_evals.dialects.lookalikes import is_included, lookalike

REST = """\
dataset_path: json
output_type: generate_until
doc_to_text: '{{q}}'
doc_to_target: '{{a}}'
metric_list: [{metric: exact_match}]
"""
INDENTED = "".join(f"  {line}\n" for line in f"task: x\n{REST}".splitlines())


@pytest.fixture
def message_about(tmp_path, monkeypatch):
    """A function from a text to the messages about a file with it."""
    monkeypatch.chdir(tmp_path)

    def look(text, name="quiz.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = lookalike(path)
        return "" if found is None else str(found.problem)

    return look


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (REST, 1, "task file of lm-eval, but it has no 'task' key"),
        (f"task:\n  quiz\n{REST}", 1, "its value is not on that line"),
        (f"task: {{name: quiz}}\n{REST}", 1, "but 'task' is a mapping, not a name"),
        (f"task: [quiz]\n{REST}", 1, "a file with several tasks is a group"),
        (f"task:\n{REST}", 1, "but 'task' is empty, not a name"),
        (f"a: 1\nTask: quiz\n{REST}", 2, "which has no key 'Task'"),
        (f"tasks: quiz\n{REST}", 1, "which has no key 'tasks'"),
        (f"task quiz\n{REST}", 2, "but cannot be read: invalid YAML"),
        (f"task: [quiz\n{REST}", 2, "but cannot be read: invalid YAML"),
        ("- x:\n    promt: a\n    rows: []\n    gates: [a > 0]\n", 1, "not a list"),
        ("- x:\n    y:\n      - promt: a\n        gates: [a > 0]\n", 1, "not a list"),
        ("x:\n  - y: {prompt: a, gates: [a > 0]}\n", 1, "its keys are below 'x'"),
        (
            "x: {prompt: '{{q}}', rows: [], metadata: {quality_gates: [a > 0]}}\n",
            1,
            "its keys are below 'x'",
        ),
        (
            "x: &x {prompt: '{{q}}', rows: [], metadata: {my_gates: [a > 0]}}\n"
            "<<: *x\n",
            1,
            "but 'prompt' does not begin its line",
        ),
        (
            "x: 1\n---\nprompt: '{{q}}'\nmetadata:\n  gates: [exact > 0.5]\n",
            2,
            "but cannot be read: invalid YAML: expected a single document",
        ),
        (
            "eval:\n  group: g\n  aggregate_metric_list: [{metric: acc}]\n"
            "  metadata: {gates: [acc > 0]}\n",
            1,
            "but its keys are below 'eval'",
        ),
        ('prompt: "{{q}}"\n  rows:\n  - q: a\nscore: exact\n', 2, "cannot be read"),
        (
            "group: g\ntaskk: [a]\nmetadata: {old: {gate: {metric: acc, min: 1}}}\n",
            2,
            "has no key 'taskk'",
        ),
        ("gates:\n\t- quiz/exact >= 0.9\n", 2, "a gates file, but cannot be read"),
        (
            "\tprompt: '{{q}}'\n!!str rows: [{q: a}]\nscore: exact\n"
            "!!str &g gates: [exact > 0.5]\n",
            1,
            "looks like an eval, but cannot be read",
        ),
        ("!!str prompt: '{{q}}'\nrows: [{q: a}]\n", 1, "does not begin its line"),
        (
            "b: &a {task: x, dataset_path: y, doc_to_text: z,test_split: s}\n <<: *a\n",
            2,
            "but cannot be read: invalid YAML",
        ),
        (f"- {INDENTED.lstrip()}", 1, "expected a mapping, not a list"),
        ("{task: x, dataset_path: y, doc_to_text: z}", 1, "does not begin its line"),
        ("task: x\ndoc_to_text: a\nmetric_list: []\n", 1, "it has no 'dataset_path'"),
        (
            "task: x\ndataset_pth: a\ndoc_to_text: b\n",
            2,
            "which has no key 'dataset_pth'",
        ),
        ("task: x\ngates: [acc >= 0.5]\n", 1, "it has no 'dataset_path'"),
        ("include: a.yaml\ngates: [acc >= 0.5]\n", 1, "it has no 'task' key"),
        ("group: g\ntask: {a: 1}\ngates: [acc > 0]\n", 2, "a mapping, not a list"),
        ("group:\n  g\ntask: [a]\n", 1, "its value is not on that line"),
        ("group: g\ntasks: [a]\n", 2, "which has no key 'tasks'"),
        ("group: g\ngates: [acc >= 0.5]\n", 1, "no 'task' key"),
        ("group: [g]\ntask: [a]\n", 1, "'group' is a list, not a name"),
        ("Group: g\ntask: [a]\n", 1, "which has no key 'Group'"),
        ("group: g\ntask:\ngates: [acc > 0]\n", 2, "'task' is empty, not a list"),
        ("gates: [quiz/acc >= 0.5]\n", 1, "only gates.yaml and gates.yml are read"),
        ("Gates: [{task: a, metric: b, min: 0}]", 1, "only gates.yaml and gates.yml"),
        ("definition:\n  scorers: []\n", 1, "file of LatticeFlow"),
        ("task: texts\ntag:\n", 1, "it has no 'dataset_path'"),
        (
            "task: texts\ntag: [a]\nmetadata: {version: 1}\n",
            1,
            "it has no 'dataset_path'",
        ),
        ("repeats: 2\ntask: texts\n", 2, "it has no 'dataset_path'"),
        ("Task: texts\ntag: a\n", 1, "which has no key 'Task'"),
        (
            "task: a\nnum_fewshot: 2\ndataset_paht: json\n",
            3,
            "which has no key 'dataset_paht'",
        ),
        ("{task: texts, tag: a}\n", 1, "it has no 'dataset_path'"),
        ("task:\n  texts\ntest_split: x\n", 1, "it has no 'dataset_path'"),
        ("task: texts\ntag: [a\n", 3, "but cannot be read: invalid YAML"),
    ],
)
def test_the_missing_key_is_reported_with_its_line(message_about, text, line, expected):
    message = message_about(text)
    assert message.startswith(f"quiz.yaml:{line}: looks like a")
    assert expected in message


def test_a_gates_file_is_not_run_by_itself(message_about):
    message = message_about("gates: [quiz/acc >= 0.5]\n", "gates.yaml")
    assert "read with the tasks in its folder and below, not on its own" in message


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("gates.json", "gates:\r   - q/acc > 0.9\r  - q/acc > 0\r", "invalid YAML: "),
        ("gate.json", '{"gates": ["acc > 0.9",}', "invalid JSON: "),
        ("gates.toml", 'gates = ["acc > 0.9"\n[x', "invalid TOML: "),
    ],
)
def test_a_broken_gates_file_with_another_name_is_reported(
    message_about, name, text, why
):
    message = message_about(text, name)
    assert f"looks like a gates file, but cannot be read: {why}" in message


def test_encoding_and_file_extension_are_reported(message_about):
    latin = "ggates: [quiz/exact >= 0.9]  # é".encode("latin-1")
    message = message_about(latin, "gates (1).yaml")
    assert "like a gates file, but cannot be read: the file is not UTF-8" in message
    inner = "eval:\n  group: g\n  task: [a]\n  metadata: {gates: [acc > 0]}\n"
    message = message_about(inner, "all.yml.bak")
    assert "a group file of lm-eval, but its name does not end in .yaml" in message
    text = f"task: quiz\n{REST}"
    assert "its encoding is UTF-16" in message_about(text.encode("utf-16"))
    assert "its name does not end in .yaml" in message_about(text, "quiz.YAML")
    assert message_about(text) == ""  # it is read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: CI\non: push\njobs:\n  a:\n    steps:\n    - run: |\n"
        "        cat > x.yaml <<EOF\n        task: x\n        doc_to_text: y\n"
        "        metric_list: z\n        EOF\n",
        "include: x.yml\nstages: [a]\n",
        "version: '3'\ntasks:\n  build: {cmds: [make]}\n",
        "groups:\n- name: x\n  rules: []\n",
        "gates: [open, closed]\n",
        "- hosts: all\n  tasks:\n  - group: {name: x}\n",
        "{{ if x }}\na:\n  group: x\n  tasks: y\n",
        "apiVersion: v1\nkind: Job\ngroup: a\ntasks: []\n",
        "dataset_path: x\noutput_type: y\nnum_fewshot: 3\n",
        "definition: {type: object}\n",
        "group: admins\nmembers: [a, b]\n",
        "task: build\ndescription: Build it.\nmetadata: {owner: me}\n",
        "task: summarise\ninput: text\noutput: text\n",
        "task: classification\nmodel: bert\nnum_fewshot: 3\n",
        "task: {script: make}\ninclude: [a.yml]\n",
        "version: '3'\ntask: build\ninclude: [a.yml]\nvars: {a: 1}\n",
        "task: build\n",
    ],
)
def test_files_of_other_programs_are_left_alone(message_about, text):
    assert message_about(text) == ""


def test_files_of_other_programs_are_not_even_parsed(tmp_path):
    for name, text in (
        ("ci.yaml", "name: CI\non: push\n"),
        ("tasks.yaml", "tasks:\n- a\n"),
        ("compose.yml", "services: {db: {}}\n"),
        ("package.json", '{"name": "app", "scripts": {"test": "jest"}}'),
        ("large.json", f'{{"prompt": "{"x" * 300_000}", "gates": ["a >= 1"]}}'),
    ):
        (tmp_path / name).write_text(text)
        assert not lookalike_bytes(tmp_path / name)


def test_a_file_that_others_include_needs_no_name(message_about, tmp_path):
    message_about(REST, "_base.yaml")
    base, user = tmp_path / "_base.yaml", tmp_path / "user.yaml"
    assert lookalike(base) is not None
    for text in ("my_base.yaml", "_base.yaml.old", "# no _base.yaml"):
        user.write_text(f"task: user\ninclude: {text}\n" if text[0] != "#" else text)
        assert not is_included(base, tmp_path.iterdir())
    for text in (
        "_base.yaml",
        "[_base.yaml, x.yaml]",
        "\n- ../evals/_base.yaml",
        "'_base.yaml'",
    ):
        user.write_text(f"task: user\ninclude: {text}\n")
        assert is_included(base, tmp_path.iterdir())


def test_an_eval_file_does_not_resemble_other_files(message_about):
    """Each file is either read or checked for resemblance, never both."""
    for text in (f"task: quiz\n{REST}", "group: g\ntask: [a]\n"):
        assert dialect(text.encode()) == "lm_eval"
        assert message_about(text) == ""


def test_results_that_list_gates_are_no_gates_file(tmp_path):
    """As ours, and those of ``judge --json``."""
    for name, text, is_found in [
        ("results.json", '{"results": {}, "gates": ["acc >= 0.5"]}', False),
        ("quiz.json", '{"gates": ["acc >= 0.5"]}', True),
        ("gates.json", '{"version": 1, "gates": ["acc >= 0.5"]}', True),
    ]:
        path = tmp_path / name
        path.write_text(text)
        assert (lookalike(path) is not None) == is_found


@pytest.mark.slow
def test_brackets_without_end_are_read_up_to_their_depth(tmp_path):
    path = tmp_path / "deep.yaml"
    path.write_text("include: _base\ntask: " + "[" * 3000)
    found = lookalike(path)
    assert found is None or "nested more than 100 levels" in found.problem.message


def test_keys_of_a_file_that_cannot_be_parsed_are_found_after_any_line_end(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        path = tmp_path / "gates.yaml.txt"
        path.write_bytes(end.join(["gates:", "\t- quiz/acc >= 0.9", ""]).encode())
        assert "a gates file" in lookalike(path).problem.message
