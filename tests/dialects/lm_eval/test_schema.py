"""The JSON Schema for editors: it accepts all files that the reader accepts, and
rejects errors that an editor can detect."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from pytest_evals.dialects.detect import TASK_KEYS, dialect
from pytest_evals.dialects.lm_eval.group import GROUP_KEYS
from pytest_evals.gates.read.keys import KEYS
from tests.json_schemas import FILES as SCHEMAS
from tests.json_schemas import task_schema, text_of

ROOT = Path(__file__).parents[3]
FILES = ROOT / "tests" / "task_files"
SOUND = [
    path
    for folder in ("tests/task_files/valid", "tests/parity/tasks", "example_suites")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
    if dialect(path.read_bytes()) == "lm_eval"
]
BEYOND = {
    "column": "what columns the data has",
    "data_file": "which files there are",
    "functions_missing": "what modules hold",
    "generation": "the arguments of generation differ from model to model",
    "generation_arguments": "the same",
    "group": "which tasks there are",
    "no_choices": "the content of included files",
    "nothing": "the same",
    "split": "which splits the data has",
    "template": "the grammar of templates",
    "too_few_samples": "how many samples a prompt needs",
    "too_many_shots": "how many rows there are",
    "unsafe_code": "the options of the command line",
}
"""Invalid files whose errors a schema cannot express."""


class Loader(yaml.SafeLoader):
    """YAML as editors read it: unknown tags are ignored."""


Loader.add_constructor("!function", lambda loader, node: f"!function {node.value}")


def faults(path: Path) -> list[str]:
    checker = jsonschema.Draft202012Validator(task_schema())
    found = checker.iter_errors(yaml.load(path.read_text("utf-8"), Loader))
    return [error.message for error in found]


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_each_is_a_schema_and_its_file_is_current(path):
    schema = SCHEMAS[path]()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert path.read_text("utf-8") == text_of(schema), "python tests/json_schemas.py"
    assert (ROOT / "docs" / path.name).samefile(path)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_sound_files_are_taken(path):
    assert faults(path) == []


FAULTY = sorted(p for p in (FILES / "invalid").glob("*.yaml") if p.stem != "syntax")


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: path.stem)
def test_faulty_files_are_refused_as_far_as_one_file_can_tell(path):
    assert bool(faults(path)) == (path.stem not in BEYOND)


def test_all_keys_are_there():
    known = task_schema()["$defs"]
    ours = {"include", "class", "gates", "task_list"}
    assert set(known["task"]["properties"]) == {*TASK_KEYS, *ours}
    assert set(known["group"]["properties"]) == {*TASK_KEYS, *ours, *GROUP_KEYS}
    assert set(known["gate"]["anyOf"][1]["properties"]) == {*KEYS}
