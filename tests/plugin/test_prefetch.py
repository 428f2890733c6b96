"""``--evals-prefetch`` with a local mirror of the Hub's API; then without network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated_hub import COMMIT, emulated_hub

TINY = Path(__file__).parents[2] / "example_suites" / "tiny"


@pytest.fixture
def hub(tmp_path):
    """A mirror with a dataset and a model: its address and the requests so far."""
    root = tmp_path / "hub"
    model = root / "models" / "acme" / "tiny"
    shutil.copytree(TINY, model)
    (model / "onnx").mkdir()
    (model / "onnx" / "model.onnx").write_bytes(b"x" * 1000)
    (model / "pytorch_model.bin").write_bytes(b"x" * 5000)
    dataset = root / "datasets" / "acme" / "sums"
    dataset.mkdir(parents=True)
    for split, n in ("train", 3), ("test", 4):
        rows = [{"question": f"{i}+1=?", "answer": str(i + 1)} for i in range(n)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (dataset / f"{split}.jsonl").write_text(lines)
    with emulated_hub(root) as found:
        yield found


@pytest.fixture
def suite_of_hub(pytester):
    pytester.makeini("[pytest]\n")
    pytester.path.joinpath("sums.yaml").write_text(
        """
task: sums
dataset_path: acme/sums
test_split: test
fewshot_split: train
num_fewshot: 2
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {max_gen_toks: 4, until: ["\\n"]}
metric_list: [{metric: exact_match}]
"""
    )
    return pytester


def run(pytester, url, *arguments, model="hf:acme/tiny", **more):
    """Run pytest with its own cache of the Hub."""
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name},
        "HF_ENDPOINT": url,
        "HF_HOME": str(pytester.path / "cache"),
        "NO_PROXY": "127.0.0.1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **more,
    }
    command = [sys.executable, "-m", "pytest", f"--model={model}", *arguments]
    return subprocess.run(
        command,
        cwd=pytester.path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_prefetched_suite_runs_without_network(suite_of_hub, hub):
    url, requests = hub
    done = run(suite_of_hub, url, "--evals-prefetch", "sums.yaml")
    assert done.returncode == 0, done.stdout
    commit = COMMIT[:12]
    assert f"dataset acme/sums: commit {commit}, 2 files, " in done.stdout
    assert f"model acme/tiny: commit {commit}, " in done.stdout
    assert "the suite now runs without network" in done.stdout
    assert not any("onnx" in one or one.endswith(".bin") for one in requests)
    n = len(requests)
    nowhere = "http://127.0.0.1:9"
    options = ("sums.yaml", "--evals-locked")
    offline = run(suite_of_hub, nowhere, *options, HF_HUB_OFFLINE="1")
    assert "4 documents" in offline.stdout
    assert offline.returncode == 0, offline.stdout
    assert len(requests) == n
    lock = suite_of_hub.path / "evals.lock"
    lock.write_text(lock.read_text().replace(COMMIT, "0" * 40))
    for address, more in ((nowhere, {"HF_HUB_OFFLINE": "1"}), (url, {})):
        moved = run(suite_of_hub, address, *options, **more)
        assert moved.returncode == pytest.ExitCode.USAGE_ERROR
        was = f"commit: {'0' * 12} in evals.lock, {COMMIT[:12]} now"
        assert f"dataset acme/sums: {was} (for sums)" in moved.stdout
        assert f"model acme/tiny: {was} (for --model)" in moved.stdout


@pytest.mark.slow
def test_the_list_downloads_nothing(suite_of_hub, hub):
    url, requests = hub
    done = run(suite_of_hub, url, "--evals-prefetch", "--collect-only", "sums.yaml")
    assert done.returncode == 0, done.stdout
    assert "2 repositories, " in done.stdout
    assert "(for sums)" in done.stdout
    assert "(for --model)" in done.stdout
    assert not any("resolve" in one for one in requests)


@pytest.mark.slow
def test_what_is_not_available_fails_with_its_user(suite_of_hub, hub):
    url, _ = hub
    done = run(
        suite_of_hub,
        url,
        "--evals-prefetch",
        "--collect-only",
        "sums.yaml",
        model="hf:acme/tiny,revision=v9",
    )
    assert done.returncode == 1
    assert "not available: model 'acme/tiny' at 'v9'" in done.stdout
    assert "(for --model)" in done.stdout
