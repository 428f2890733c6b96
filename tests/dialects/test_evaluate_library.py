"""Metrics of the evaluate library: local scripts only."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_evals.dialects import evaluate_library
from pytest_evals.dialects.evaluate_library import find_metric
from pytest_evals.errors import EvalsError, MissingExtraError

SCRIPT = """\
import datasets
import evaluate

class Overlap(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="", features=features
        )

    def _compute(self, predictions, references, scale=1):
        pairs = zip(predictions, references)
        return {"overlap": scale * sum(len(set(p) & set(r)) for p, r in pairs)}
"""
LOAD = """\
import sys
from pathlib import Path

from pytest_evals.errors import EvalsError
from pytest_evals.dialects.evaluate_library import find_metric

def value(name):
    compute = find_metric(name, [Path(sys.argv[1])], may_execute=True)
    return compute(references=["abc"], predictions=["cab d"], scale=2)

for name in ("overlap", "./overlap", "overlap/overlap.py", "known", "me/known"):
    print(name, value(name))
for _ in range(2):
    try:
        value("broken.py")
    except EvalsError as error:
        print(str(error)[:60])
print("transformers" in sys.modules)
from evaluate import TextClassificationEvaluator, evaluator
print(isinstance(evaluator("text-classification"), TextClassificationEvaluator))
"""


@pytest.mark.nightly
def test_scripts_next_to_the_task_and_in_the_cache_are_run(tmp_path):
    """Runs in a separate process: the library reads its cache directory at import."""
    cache = tmp_path / "home/modules/evaluate_modules/metrics"
    for script in (
        tmp_path / "overlap/overlap.py",
        cache / "evaluate-metric--known/0f/known.py",
        cache / "me--known/0f/known.py",
    ):
        script.parent.mkdir(parents=True)
        script.write_text(SCRIPT)
    (tmp_path / "broken.py").write_text("import no_such_library_at_all\n")
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path)],
        env={
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(root),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "overlap {'overlap': 6}",
        "./overlap {'overlap': 6}",
        "overlap/overlap.py {'overlap': 6}",
        "known {'overlap': 6}",
        "me/known {'overlap': 6}",
        *["the evaluate library: ImportError: To be able to use broken,"] * 2,
        "False",  # transformers is imported with the first evaluator
        "True",
    ]


def test_a_script_that_is_not_on_this_disk_is_never_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(EvalsError) as caught:
        find_metric("no_such_metric", [tmp_path])
    assert str(caught.value) == (
        "the evaluate library has no script 'no_such_metric' on this disk\n"
        '  fix: download it (code of the Hub that runs here): python -c "import '
        "evaluate; evaluate.load('no_such_metric')\"; or metric: !function module.name"
    )


def script(path):
    path.parent.mkdir(parents=True)
    path.write_text(SCRIPT)


def test_a_folder_of_that_name_runs_only_if_the_entry_is_its_path(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    script(tmp_path / "mine/mine.py")
    script(tmp_path / "wer/wer.py")
    for name in ("mine", "wer"):
        with pytest.raises(EvalsError) as caught:
            find_metric(name, [tmp_path])
        assert str(caught.value).endswith(
            f"which the entry does not name\n  fix: metric: ./{name}"
        )
    for name in ("./mine", "mine/mine.py", str(tmp_path / "mine")):
        assert callable(find_metric(name, [tmp_path]))
    assert callable(find_metric("mine", [tmp_path], may_execute=True))


def test_only_scripts_of_the_librarys_authors_run_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    cache = tmp_path / "modules/evaluate_modules/metrics"
    script(cache / "evaluate-metric--wer/0f/wer.py")
    script(cache / "me--known/0f/known.py")
    assert callable(find_metric("wer", [tmp_path]))
    with pytest.raises(EvalsError, match="runs code of the Hub\n  fix: pass "):
        find_metric("me/known", [tmp_path])
    assert callable(find_metric("me/known", [tmp_path], may_execute=True))


def test_a_missing_library_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(evaluate_library, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        find_metric("wer", [tmp_path])
    assert str(caught.value) == (
        "metric 'wer' needs evaluate: pip install 'pytest-model-evals[metrics]'"
    )


@pytest.mark.nightly
def test_the_tasks_of_lm_eval_name_only_scripts_of_the_librarys_authors():
    """Those that run without consent: entries with ``hf_evaluate``, and ``wer``."""
    spec = find_spec("lm_eval")
    if spec is None:
        pytest.skip("needs lm-eval's task files")
    tree = Path(spec.origin).parent / "tasks"
    named = {}
    for path in tree.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8", errors="replace")
        for entry in re.split(r"^ *- metric: ", text, flags=re.MULTILINE)[1:]:
            name = entry.split()[0]
            if "hf_evaluate: true" in entry or name == "wer":
                named[path.relative_to(tree).as_posix()] = name
    assert named == {
        "kobest/kobest_boolq.yaml": "f1",
        "kobest/kobest_copa.yaml": "f1",
        "kobest/kobest_hellaswag.yaml": "f1",
        "kobest/kobest_sentineg.yaml": "f1",
        "kobest/kobest_wic.yaml": "f1",
        "polemo2/polemo2_in.yaml": "accuracy",
        "wmt2016/ro_en-t5_prompt.yaml": "wer",
    }
    assert {*named.values()} <= evaluate_library.OFFICIAL
