"""Records what lm-eval 0.4.13 makes of the groups in ``tasks/groups``.

    python tests/parity/record_groups.py               # all
    python tests/parity/record_groups.py group_forms   # some

Run it by hand, in an environment with ``lm_eval[hf]==0.4.13`` and on a CPU, when a
group or a task of one has changed. It writes ``groups/<group>.json``. lm-eval reaches
groups by name only, so all files are given as its include path.

One file: the versions, and of lm-eval's results whatever has to do with groups.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks"
MODEL = HERE.parents[1] / "example_suites" / "tiny"
KEPT = (
    "results",
    "groups",
    "group_subtasks",
    "versions",
    "n-shot",
    "higher_is_better",
)


def main() -> None:
    """Record the groups named on the command line, or all."""
    os.chdir(TASKS)  # lm-eval looks for data files from the working directory
    for path in sorted((TASKS / "groups").glob("group_*.yaml")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            _record(path)


def _record(path: Path) -> None:
    found = _run(path.stem)
    recording = {
        "versions": {
            name: version(name) for name in ("lm_eval", "transformers", "torch")
        },
        "file": path.relative_to(HERE).as_posix(),
        "found": {key: found[key] for key in KEPT if key in found},
    }
    out = HERE / "groups" / f"{path.stem}.json"
    out.parent.mkdir(exist_ok=True)
    text = json.dumps(recording, indent=1, ensure_ascii=False, default=float)
    out.write_text(text + "\n", encoding="utf-8")
    print(path.stem, found["results"][path.stem])


def _run(group: str) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    return simple_evaluate(
        model="hf",
        model_args={"pretrained": str(MODEL), "dtype": "float32"},
        tasks=[group],
        task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
        batch_size=16,
        device="cpu",
    )


if __name__ == "__main__":
    main()
