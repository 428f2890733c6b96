"""Detection of YAML task files."""

import pytest

from pytest_evals.dialects.detect import dialect, may_hold_entities

TASKS = [
    b"task: arc_easy\ndataset_path: allenai/ai2_arc\n",
    b"include: _base.yaml\ntask: arc_easy\n",
    b"\"task\": 'arc'\n'output_type': multiple_choice\n",
    b"# a comment\r\ntask: arc\r\ninclude: x\r\n",
    b"task: squadv2\nclass: !function task.SQuAD2\n",
    b"task: ruler\ncustom_dataset: !function data.make\n",
    b"group: mmlu\ntask:\n  - mmlu_stem\n",
    b"group: mmlu\ntask: # members\n  # first\n\n  - mmlu_stem\n",
    b"group: mmlu\ntask:\n- mmlu_stem\n",
    b"group: mmlu\ntask: [a, b]\n",
    b"group: mmlu\ntask: one\n",
]
OTHERS = [
    b"",
    b"services:\n  web:\n    image: task\ninclude:\n  - other.yaml\n",
    b"- name: play\n  hosts: all\n  tasks:\n    - task: x\n      include: y\n",
    b"name: ci\non: push\njobs:\n  task:\n    runs-on: ubuntu\n",
    b"version: '3'\nincludes:\n  docs: ./docs\ntasks:\n  default:\n    cmds: [task]\n",
    b"include:\n  - local: ci.yml\ntask:\n  script: [make]\ngroup:\n  script: [make]\n",
    b"include: ci.yml\ntask: {script: [make]}\n",
    b"task: x\nname: y\n",
    b"dataset_path: json\ntest_split: test\n",
    b"subtask: x\ndataset_path: y\n",
    b"version: 2\nmodels:\n  - name: orders\n    config: {tags: [x]}\n",
    b"key: x\nvalue: y\n",
    b"tasks:\n  build:\n    definition: make\n",
    b"definition: x\nname: y\n",
    b"key: g\ndefinition:\n  synthesizers: []\n",
    b"tasks: x\ninclude: y\n",
]


@pytest.mark.parametrize("raw", TASKS)
def test_task_and_group_files_are_known_by_their_keys(raw):
    assert dialect(raw) == "lm_eval"


LATTICEFLOW = [
    b"key: t\ndefinition:\n  task: x\n  output_type: y\n",
    b"display_name: T\n'definition':\n  type: system_task\n",
    b"evaluation:\n  key: e\n  task_specifications: []\n",
    b"key: e\ndisplay_name: E\ntask_specifications:\n  - task_key: t\n",
    b"tasks:\n  - $ref: ./task.yaml\n",
]


@pytest.mark.parametrize("raw", LATTICEFLOW)
def test_tasks_and_runs_of_latticeflow_are_known_by_their_keys(raw):
    assert dialect(raw) == "latticeflow"
    assert may_hold_entities(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"key: d\nsource: {type: local}\n",
        b"key: d\ngenerator_specification:\n  num_samples: 3\n",
        b"key: g\ndefinition:\n  synthesizers: []\n",
        b"key: m\nconfig:\n  url: x\n",
    ],
)
def test_files_that_task_files_refer_to_are_not_task_files(raw):
    assert may_hold_entities(raw)
    assert dialect(raw) is None


@pytest.mark.parametrize("raw", OTHERS)
def test_other_yaml_files_are_left_alone(raw):
    assert dialect(raw) is None


def test_a_byte_order_mark_does_not_hide_a_task():
    assert dialect(b"\xef\xbb\xbftask: x\noutput_type: y\n") == "lm_eval"
