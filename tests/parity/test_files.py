"""The files of a run have the keys, types and values of lm-eval 0.4.13's files.

``record_files.py`` ran lm-eval's command line and stored its files; here the same runs
are made by ``pytest``.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
RUNS = sorted((HERE / "files").iterdir())
OF_THE_MACHINE = frozenset(
    {"git_hash", "date", "pretty_env_info", "total_evaluation_time_seconds"}
)
"""Values that differ in every run; their types are equal."""
OURS = {
    ("lm_eval_version",): "the version is that of this package",
    ("config", "batch_size"): "batches are cut by tokens",
    ("config", "torch_seed"): "torch's generator is left alone",
}
"""Intended differences from lm-eval, and their reasons."""
NATS = 1e-4
"""Maximum difference of two log-probabilities: other batches add up in another
order."""

pytestmark = pytest.mark.nightly


@dataclass(frozen=True)
class Files:
    """The files of lm-eval, and those of this package."""

    theirs: dict[str, Any]
    ours: dict[str, Any]
    samples: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def made() -> dict[Path, Files]:
    """A cache: each run is made once."""
    return {}


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def files(request, made, pytester, monkeypatch) -> Files:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    recorded = request.param
    if recorded not in made:
        monkeypatch.chdir(HERE / "tasks")
        made[recorded] = _made(recorded, pytester)
    return made[recorded]


def _made(recorded: Path, pytester: pytest.Pytester) -> Files:
    """The same run by ``pytest``, next to the recorded one."""
    folder = pytester.path / "evals"
    given = json.loads((recorded / "options.json").read_text())
    done = pytester.runpytest(f"--evals-dir={folder}", *given)
    assert done.ret == 0
    (run,) = folder.glob("runs/*")
    samples = {
        path.stem.removeprefix("samples_"): (_rows(path), _rows(run / path.name))
        for path in recorded.glob("samples_*.jsonl")
    }
    theirs, ours = (_json(each / "results.json") for each in (recorded, run))
    return Files(theirs, ours, samples)


def test_every_key_of_lm_eval_is_there_in_its_order(files):
    shared = [key for key in files.ours if key in files.theirs]
    assert shared == list(files.theirs)
    assert set(files.ours["config"]) >= set(files.theirs["config"])


def test_everything_but_results_has_lm_evals_value(files):
    for key in set(files.theirs) - OF_THE_MACHINE - {"results"}:
        _same(files.theirs[key], files.ours[key], (key,))


def test_values_about_the_machine_have_lm_evals_types(files):
    for key in OF_THE_MACHINE - {"git_hash"}:
        assert type(files.ours[key]) is type(files.theirs[key])
    assert isinstance(files.ours["git_hash"], str | None)


def test_intended_differences_have_compatible_types(files):
    assert files.ours["lm_eval_version"].startswith("0.4.13+pytest.model.evals.")
    assert files.ours["config"]["batch_size"] == "auto"


def test_numbers_are_lm_evals(files):
    assert files.ours["results"].keys() == files.theirs["results"].keys()
    for name, theirs in files.theirs["results"].items():
        ours = files.ours["results"][name]
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            assert _near(ours[key], value), f"{name}: {key}"


def test_samples_have_lm_evals_rows_and_keys(files):
    for name, (theirs, ours) in files.samples.items():
        assert _by_key(ours).keys() == _by_key(theirs).keys(), name
        assert len(ours) == len(theirs)
        for key, row in _by_key(theirs).items():
            assert row.keys() <= _by_key(ours)[key].keys()


def test_samples_have_lm_evals_values(files):
    exact = ("doc", "target", "doc_hash", "prompt_hash", "target_hash")
    for theirs, ours in files.samples.values():
        for key, row in _by_key(theirs).items():
            mine = _by_key(ours)[key]
            assert {k: mine[k] for k in exact} == {k: row[k] for k in exact}
            assert sorted(mine["metrics"]) == sorted(row["metrics"])
            assert _prompts(mine) == _prompts(row)
            for name in ("resps", "filtered_resps", *row["metrics"]):
                assert _near(mine[name], _typed(row[name])), name


def _same(theirs: Any, ours: Any, where: tuple[str, ...]) -> None:
    if where in OURS or _is_address(theirs):
        return
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            _same(value, ours[key], (*where, key))
    else:
        assert (type(ours), ours) == (type(theirs), theirs), where


def _is_address(value: Any) -> bool:
    """lm-eval writes functions inside ``fewshot_config`` by their address, this package
    by their source."""
    return isinstance(value, str) and " at 0x" in value


def _prompts(row: dict[str, Any]) -> list[Any]:
    """The requests; only this package writes out all generation settings."""
    return [
        (request["arg_0"], second if isinstance(second, str) else None)
        for request in row["arguments"].values()
        for second in [request.get("arg_1")]
    ]


def _by_key(rows: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row["doc_id"], row["filter"]): row for row in rows}


def _typed(value: Any) -> Any:
    """lm-eval writes the numbers of responses and arrays as strings; this package as
    numbers."""
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if not isinstance(value, str):
        return value
    if value in ("True", "False"):
        return value == "True"
    if re.fullmatch(r"\[[-+.e\d\s]+\]", value):
        return [float(part) for part in value[1:-1].split()]
    return float(value) if re.fullmatch(r"-?\d+\.\d+(e[-+]\d+)?", value) else value


def _near(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, list) and isinstance(ours, list):
        pairs = zip(ours, theirs, strict=True)
        return len(ours) == len(theirs) and all(_near(*pair) for pair in pairs)
    if isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=NATS, abs_tol=NATS)
    return bool(ours == theirs)


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_lm_evals_weights_and_biases_logger_reads_our_results_like_its_own(files):
    """The part of it that needs neither the library nor a network. Its tables of
    samples read lm-eval's memory, not a samples file."""
    from lm_eval.loggers.wandb_logger import WandbLogger

    def read(results: dict[str, Any]) -> tuple[Any, ...]:
        logger = WandbLogger.__new__(WandbLogger)
        logger.post_init(results)
        return logger._get_config(), *logger._sanitize_results_dict()

    ours, theirs = read(files.ours), read(files.theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert sorted(mine) == sorted(other)
