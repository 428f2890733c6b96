"""Device memory: detection of out-of-memory errors, and free memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from pytest_evals.models.engine import device_memory
from pytest_evals.models.engine.device_memory import (
    SWITCH_INTERVAL_S,
    default_tokens,
    free_bytes,
    inference_thread,
    or_none,
)
from pytest_evals.models.hf.generation.kv_cache import free_tokens
from pytest_evals.models.hf.loader import _device, _placement
from pytest_evals.models.hf.model import _budget
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.prefetch import Prefetch

FAILED = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    ),
    RuntimeError(
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    ),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate"),
    RuntimeError(
        "level_zero backend failed with error: 39 "
        "(UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"
    ),
    RuntimeError(
        "Native API failed. Native API returns: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)"
    ),
    RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: "
        "can't allocate memory: you tried to allocate 4 bytes."
    ),
    MemoryError(),
]
OTHERS = [
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemm"),
    RuntimeError("shape '[2, 3]' is invalid for input of size 5"),
]


@pytest.mark.parametrize("error", FAILED, ids=str)
def test_every_librarys_lack_of_memory_is_recognised(error):
    def run():
        raise error

    assert or_none(run) is None


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_other_errors_of_the_device_end_the_run(error):
    def run():
        raise error

    with pytest.raises(RuntimeError, match=re.escape(str(error))):
        or_none(run)


@pytest.fixture
def cards(monkeypatch):
    """Two fake GPUs; the second has little memory left."""
    free = {0: 80 * 2**30, 1: 3 * 2**30 + 12_345}

    def look(device):
        return free[torch.device(device).index], 80 * 2**30

    for module in (torch.cuda, torch.xpu):
        monkeypatch.setattr(module, "mem_get_info", look)
        monkeypatch.setattr(module, "memory_reserved", lambda device: 0)
        monkeypatch.setattr(module, "memory_allocated", lambda device: 0)
    return free


class Weight:
    def __init__(self, device: str) -> None:
        self.device = torch.device(device)


class Spread:
    """A model whose weights are on two devices."""

    device = torch.device("cuda:0")

    def parameters(self):
        return iter([Weight("cuda:0"), Weight("cuda:1"), Weight("cuda:1")])


def test_the_fullest_device_of_a_spread_model_limits_its_batches(cards):
    devices = device_memory.devices_of(Spread())
    assert [str(device) for device in devices] == ["cuda:0", "cuda:1"]
    assert free_bytes(devices) == cards[1]
    assert free_bytes([torch.device("xpu:1")]) == cards[1]
    assert default_tokens(Spread(), 2**20) == 1024  # half of 3 GiB, in MiB: 1,536


def test_a_few_megabytes_of_another_process_do_not_change_the_batches(cards):
    measure = free_tokens([torch.device("cuda:0")], sys.maxsize)
    found = set()
    for used in range(0, 2**30, 2**27):
        cards[0] = 80 * 2**30 - used
        found.add((measure(32_768, 0), default_tokens(Spread(), 2**16)))
    assert found == {(2**20, 2**14)}


def test_generation_may_fill_the_device(cards):
    """48 GiB of 80 in tokens of 4 KiB: 12.6 million, rounded to a power of two."""
    assert free_tokens([torch.device("cuda:0")], sys.maxsize)(4096, 0) == 2**23


def test_the_memory_of_a_gpu_is_the_only_limit_of_its_generations(cards):
    budget = _budget(Spread(), 1024, HfSettings(target="x"))
    cards[1] = cards[0]
    budget.look(4096, 0)
    assert budget.held == 2**23


def test_the_model_thread_uses_the_models_device_and_switches_quickly(monkeypatch):
    seen = []
    monkeypatch.setattr(
        torch.cuda,
        "set_device",
        lambda device: seen.append((str(device), threading.current_thread().name)),
    )
    usual = sys.getswitchinterval()

    def stream():
        yield sys.getswitchinterval()

    device = torch.device("cuda:1")
    with inference_thread(device):  # of another model that is running
        (within,) = Prefetch(stream(), lambda: inference_thread(device))
        assert within == pytest.approx(SWITCH_INTERVAL_S)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    assert sys.getswitchinterval() == usual
    assert ("cuda:1", "evals-model") in seen


def test_a_gpu_may_be_named_without_its_index(monkeypatch):
    """torch.cuda.set_device rejects such a device."""
    with pytest.raises(ValueError, match="specified index"):
        torch.cuda.set_device(torch.device("cuda"))
    with inference_thread(torch.device("cuda")):  # as vLLM's
        pass
    seen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: seen.append(device))
    weight = SimpleNamespace(device=torch.device("cuda:2"))
    monkeypatch.setattr(torch, "empty", lambda n, device: weight)
    assert _device(HfSettings(target="x")) == torch.device("cuda:2")
    assert seen == [torch.device("cuda:2")]


@pytest.mark.slow
def test_a_thread_that_wakes_for_the_device_gets_the_interpreter_sooner():
    """The median of its delays while another thread runs Python without a pause."""

    def delay() -> float:
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                sum(range(1000))

        thread = threading.Thread(target=busy)
        thread.start()
        found = []
        for _ in range(60):
            start = time.perf_counter()
            time.sleep(1e-4)
            found.append(time.perf_counter() - start)
        stop.set()
        thread.join()
        return sorted(found)[30]

    usual = delay()
    with inference_thread(torch.device("cpu")):
        assert delay() < usual / 2


def test_weights_are_loaded_to_the_device_without_a_copy_on_the_host(monkeypatch):
    pytest.importorskip("accelerate")
    settings = HfSettings(target="x")
    device = torch.device("cuda:1")
    assert _placement(settings, device) == {"device_map": {"": device}}
    assert _placement(settings, torch.device("cpu")) == {}
    monkeypatch.setattr("pytest_evals.models.hf.loader.find_spec", lambda name: None)
    assert _placement(settings, device) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({"PYTORCH_ALLOC_CONF": "x:1"}, {"PYTORCH_ALLOC_CONF": "x:1"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "x:1"}, {"PYTORCH_CUDA_ALLOC_CONF": "x:1"}),
    ],
)
def test_memory_segments_are_expandable_unless_the_user_disables_it(given, expected):
    """Set before torch is imported, since torch reads it once."""
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    code = (
        "import os, sys, pytest_evals.models.hf.kind as kind;"
        "kind.version = lambda name: '2.11.0+cu130';"
        "kind._avoid_fragmentation();"
        "assert 'torch' not in sys.modules;"
        f"print({{n: os.environ[n] for n in {names} if n in os.environ}})"
    )
    usual = {k: v for k, v in os.environ.items() if k not in names}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**usual, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(expected)


AT_IMPORT = """
import os, sys

def watch(event, args):
    if event == "import" and args[0] == "torch":
        print(os.environ.get("PYTORCH_ALLOC_CONF"))

sys.addaudithook(watch)
from pytest_evals.models.registry import import_libraries, open_model, parse_spec
{call}(parse_spec("hf:{folder}"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [pytest.param("open_model", marks=pytest.mark.nightly), "import_libraries"],
)
def test_torch_is_imported_after_its_allocator_is_configured(call, saved_model):
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    code = AT_IMPORT.format(call=call, folder=saved_model("llama"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={k: v for k, v in os.environ.items() if k not in names},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {"expandable_segments:True"}
