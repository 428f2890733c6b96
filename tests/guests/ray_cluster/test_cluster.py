"""Replicas on a Ray cluster of several nodes, all on this machine: the responses equal
those of one model, even if nodes fail."""

from __future__ import annotations

import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed")

from ray.cluster_utils import Cluster  # noqa: E402

from pytest_evals.core.model import Model  # noqa: E402
from pytest_evals.core.request import (  # noqa: E402
    Generate,
    Loglikelihood,
    Response,
    Rolling,
)
from pytest_evals.errors import ModelError  # noqa: E402
from pytest_evals.models.registry import (  # noqa: E402
    KINDS,
    ModelKind,
    open_model,
    parse_spec,
)

pytestmark = pytest.mark.nightly


class Nodes:
    """A cluster of a head and a node, with one processor each."""

    def __init__(self):
        head = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.workers = [self.cluster.add_node(num_cpus=1)]
        self.cluster.wait_for_nodes()
        self.address = self.cluster.address


@pytest.fixture(scope="module")
def nodes():
    found = Nodes()
    yield found
    ray.shutdown()
    found.cluster.shutdown()


def open_replicas(nodes, model, n=2):
    return open_model(parse_spec(f"ray:{model},replicas={n},address={nodes.address}"))


@pytest.fixture
def slow_rules(tmp_path):
    """A model that needs a millisecond per response: it tries many rules first. (The
    module ``re`` caches 512 of them.)"""
    rules = [{"regex": f"never {i}", "text": "x"} for i in range(500)]
    rules.append({"regex": "7", "text": "seven"})
    rules.append({"text": "other"})
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return f"scripted:{path}"


def test_a_run_on_a_cluster_reuses_responses_of_a_run_without(
    nodes, pytester, example_suites, tiny_model_path
):
    """The same rows, in the same order; numbers as close as batching allows."""
    found = {}
    suite = example_suites / "lm_eval"
    for name, more in {
        "alone": [f"--model=hf:{tiny_model_path}"],
        "spread": [
            f"--model=hf:{tiny_model_path},replicas=2",
            f"--evals-ray={nodes.address}",
        ],
    }.items():
        folder = pytester.path / name
        arguments = ["--evals-limit=20", f"--evals-dir={folder}", "--evals-cache=off"]
        result = pytester.runpytest(suite, *arguments, *more)
        (run,) = folder.glob("runs/*")
        results = json.loads((run / "results.json").read_text())
        samples = {
            path.name.rpartition("_20")[0] or path.name: [
                json.loads(line) for line in path.read_text().splitlines()
            ]
            for path in sorted(run.glob("samples_*.jsonl"))
        }
        found[name] = (result.parseoutcomes(), results["results"], samples)
        names = (results["model_name"], results["config"]["model_args"]["pretrained"])
        assert names == (str(tiny_model_path),) * 2
    alone, spread = found["alone"], found["spread"]
    assert alone[0] == spread[0]
    assert alone[0]["passed"] > 20
    for task, metrics in alone[1].items():
        for name, value in metrics.items():
            if isinstance(value, float):
                value = pytest.approx(value, abs=1e-3)
            assert spread[1][task][name] == value, (task, name)
    for task, rows in alone[2].items():
        for row, other in zip(rows, spread[2][task], strict=True):
            for key in ("doc_id", "doc", "arguments", "target", "correct"):
                assert row.get(key) == other.get(key), (task, row["doc_id"], key)


def test_responses_of_replicas_are_received_while_nobody_consumes_them(
    nodes, slow_rules
):
    model, received = open_replicas(nodes, slow_rules), []
    model.on_response = lambda request, response: received.append(request)
    try:
        requests = [Generate(f"Question {i}") for i in range(40)]
        answers = model.answer(requests)
        next(answers)
        until = time.monotonic() + 60
        while len(received) < len(requests) and time.monotonic() < until:
            time.sleep(0.05)
        assert {*received} == {*requests}
        assert len([*answers]) == len(requests) - 1
    finally:
        model.close()


def test_every_request_is_answered_once_when_a_node_dies_in_mid_run(nodes, slow_rules):
    """Its replica's requests are sent to others; and a node that joins later is
    used."""
    requests = [
        Generate(f"question {i}", max_tokens=4)
        if i % 3
        else Loglikelihood(f"question {i}", " seven")
        for i in range(4000)
    ]
    requests.append(Rolling("a whole text"))
    expected = dict(open_model(parse_spec(slow_rules)).answer(requests))
    model = open_replicas(nodes, slow_rules)
    try:
        dict(model.answer(requests[:50]))
        while model.notes:  # a replica is not open yet, and its loss could go unnoticed
            dict(model.answer(requests[:50]))
        found = []
        for n, pair in enumerate(model.answer(requests)):
            found.append(pair)
            if n == 300:
                nodes.cluster.remove_node(nodes.workers.pop())
            if n == 2500:
                nodes.workers.append(nodes.cluster.add_node(num_cpus=1))
        assert sorted(position for position, _ in found) == list(range(len(requests)))
        assert dict(found) == expected
        (note,) = model.notes
        assert "1 replica was lost; requests without a response were sent again" in note
        again = dict(model.answer(requests[:50]))
        assert again == {i: expected[i] for i in range(50)}
    finally:
        model.close()


def test_replicas_prepare_their_next_requests_during_the_current_ones(
    nodes, tmp_path, monkeypatch
):
    """A replica is announced the requests that it answers next, those of the next
    window included, as a model without Ray is."""

    def register():
        """Add a kind of model that writes down its calls."""
        from pytest_evals.models.registry import KINDS

        class Noted(Model):
            name, works_ahead, fingerprint = "noted", True, None

            def __init__(self, spec):
                self.path = Path(spec.target) / f"{os.getpid()}.jsonl"

            def answer(self, requests):
                self.note("answer", requests)
                for position, request in enumerate(requests):
                    time.sleep(0.01)
                    yield position, Response(text=request.prompt)

            def expect(self, requests):
                self.note("expect", requests)

            def note(self, call, requests):
                line = json.dumps([call, [request.prompt for request in requests]])
                with self.path.open("a") as stream:
                    stream.write(f"{line}\n")

        kind = ModelKind(name="noted", example="noted:x", open=Noted, is_local=True)
        KINDS.add("noted", kind)

    monkeypatch.setattr(KINDS, "_entries", dict(KINDS._entries))
    register()
    ray.init(nodes.address, runtime_env={"worker_process_setup_hook": register})
    windows = [
        [Generate(f"{window} {i}", max_tokens=400) for i in range(100)]
        for window in "ab"
    ]
    model = open_replicas(nodes, f"noted:{tmp_path}")
    try:
        while model.notes:
            dict(model.answer(windows[0][:1]))
        for path in tmp_path.iterdir():
            path.unlink()
        responses = model.answer(windows[0])
        found = dict([next(responses)])
        model.expect(windows[1])
        found |= dict(responses)
        assert found == {i: Response(text=f"a {i}") for i in range(100)}
        found = dict(model.answer(windows[1]))
        assert found == {i: Response(text=f"b {i}") for i in range(100)}
    finally:
        model.close()
        ray.shutdown()
    files = [*tmp_path.iterdir()]
    assert len(files) == 2
    for file in files:
        calls = [json.loads(line) for line in file.read_text().splitlines()]
        announced = [
            first[0] == "expect" and second == ["answer", first[1]]
            for first, second in pairwise(calls)
        ]
        n_answers = sum(call == "answer" for call, _ in calls)
        assert n_answers > 2
        # not the first one; and one of another replica that has finished early
        assert sum(announced) >= n_answers - 2


def test_replicas_compute_a_shared_prefix_once_each(nodes, tiny_model_path):
    """400 requests of a few tokens each after about 500."""
    passage = "the cat sat on the mat " * 50
    requests = [
        Loglikelihood(f"{passage}{i}?", end) for i in range(200) for end in [" a", " b"]
    ]
    one = open_model(parse_spec(f"hf:{tiny_model_path}"))
    expected = dict(one.answer(requests))
    model = open_replicas(nodes, f"hf:{tiny_model_path}")

    def n_read():
        counts = [
            actor.__ray_call__.remote(lambda replica: replica._model.counters["n_read"])
            for actor in model._actors
        ]
        return sum(ray.get(counts))

    try:
        while model.notes:
            dict(model.answer([Loglikelihood("the", " cat")]))
        before = n_read()
        found = dict(model.answer(requests))
        n_prompt = max(response.n_prompt_tokens for response in found.values())
        assert n_prompt > 400
        assert n_read() - before <= 1.1 * one.counters["n_read"] + n_prompt
    finally:
        model.close()
    for position, response in found.items():
        logprob = expected[position].logprob
        assert response.logprob == pytest.approx(logprob, abs=1e-3)


def test_a_request_at_which_replicas_die_is_one_error_of_its_document(
    nodes, monkeypatch
):
    """The others are answered."""

    def register():
        """Add a kind of model whose process ends at one request."""
        from pytest_evals.models.registry import KINDS

        class Mortal(Model):
            name, fingerprint = "mortal", None

            def __init__(self, spec):
                pass

            def answer(self, requests):
                for position, request in enumerate(requests):
                    if request.prompt == "the end":
                        os._exit(1)
                    yield position, Response(text=request.prompt)

        kind = ModelKind(name="mortal", example="mortal:x", open=Mortal, is_local=True)
        KINDS.add("mortal", kind)

    monkeypatch.setattr(KINDS, "_entries", dict(KINDS._entries))
    register()
    ray.init(nodes.address, runtime_env={"worker_process_setup_hook": register})
    model = open_replicas(nodes, "mortal:x")
    try:
        requests = [Generate("a"), Generate("the end"), Generate("b")]
        found = dict(model.answer(requests))
    finally:
        model.close()
        ray.shutdown()
    assert found[0] == Response(text="a")
    assert found[2] == Response(text="b")
    why = re.escape(
        "3 or more replicas in a row were lost while they ran this request (Actor"
    )
    fix = re.escape(
        "Error)\n  fix: find the cause in Ray's logs on the node of the replica; if "
        "memory ran out, set a lower batch_tokens=, or a shorter prompt"
    )
    assert re.fullmatch(rf"{why}\w+{fix}", found[1].error)


def test_a_cluster_that_is_too_small_is_one_error(nodes):
    with pytest.raises(ModelError) as caught:
        open_replicas(nodes, "scripted:first", n=40)
    assert str(caught.value).startswith("40 replicas with cpus=1 need 40 CPUs, and the")


def test_the_error_of_a_replica_contains_that_of_its_model(nodes, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llamma"}')
    with pytest.raises(ModelError) as caught:
        open_replicas(nodes, f"hf:{tmp_path}", n=1)
    assert str(caught.value).startswith("a replica failed: ")
    assert "llamma" in str(caught.value)
