"""Arguments of ``vllm:`` models, without vLLM: a package of that name replaces it, with
the source of a class ``EngineArgs``."""

from __future__ import annotations

import importlib

import pytest

from pytest_evals.errors import MissingExtraError, OptionError
from pytest_evals.models.registry import (
    check_ready,
    check_spec,
    fingerprint_of,
    open_tokenizer,
    parse_spec,
)
from pytest_evals.models.vllm.settings import engine_arguments, read_settings

SOURCE = """
class EngineArgs:
    model: str = ""
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    enable_prefix_caching: bool | None = None
    compilation_config: dict = None
    revision: str | None = None
    _api_process_count: int = 1
    def create(self): ...
raise RuntimeError("the source is read, not run")
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package ``vllm`` that fails when it is imported."""
    folder = tmp_path / "site" / "vllm" / "engine"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "arg_utils.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    engine_arguments.cache_clear()
    yield
    engine_arguments.cache_clear()


@pytest.fixture
def missing(monkeypatch):
    """No package ``vllm``."""
    monkeypatch.setattr(
        "pytest_evals.models.vllm.settings.find_spec", lambda name: None
    )
    monkeypatch.setattr("pytest_evals.models.vllm.kind.find_spec", lambda name: None)
    engine_arguments.cache_clear()
    yield
    engine_arguments.cache_clear()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "tensor_paralel_size=4",
            "the vllm model takes no argument 'tensor_paralel_size'; did you mean "
            "'tensor_parallel_size'?",
        ),
        (
            "reuse_prefx=true",
            "the vllm model takes no argument 'reuse_prefx'; did you mean "
            "'reuse_prefix'?",
        ),
        (
            "api_process_count=2",
            "the vllm model takes no argument 'api_process_count'; it takes vLLM's "
            "engine arguments, see 'vllm serve --help=all'",
        ),
        (
            "max_length=512",
            "the vllm model takes no argument 'max_length': use max_model_len",
        ),
        (
            "data_parallel_size=2",
            "the vllm model takes no argument 'data_parallel_size': one engine runs in "
            "this process; tensor_parallel_size=N and pipeline_parallel_size=N "
            "distribute a model over N GPUs",
        ),
        ("reuse_prefix=maybe", "the vllm model's reuse_prefix is 'maybe'; write true "
         "or false"),
        (
            "reuse_prefix=true,enable_prefix_caching=No",
            "the vllm model's reuse_prefix needs the prefix cache, which "
            "enable_prefix_caching=false turns off",
        ),
        (
            "reuse_prefix=true,enable_prefix_caching=false",
            "the vllm model's reuse_prefix needs the prefix cache, which "
            "enable_prefix_caching=false turns off",
        ),
        (
            "enable_thinking=true",
            "the vllm model's enable_thinking needs think_end_token, the text that "
            "ends the thinking, such as '</think>': the answer begins behind it",
        ),
        (
            "chat_template_args={",
            "the model's spec lacks a closing }",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_arguments_is_found_without_importing_vllm(
    installed, argument, message
):
    with pytest.raises(OptionError) as error:
        check_spec(parse_spec(f"vllm:org/name,{argument}"))
    assert str(error.value) == message


def test_engine_arguments_are_kept_as_they_are_written(installed):
    spec = parse_spec(
        "vllm:org/name,tensor_parallel_size=4,compilation_config.mode=0,revision=abc,"
        'compilation_config={"a":1,"b":2},add_bos_token=false,prefix_token_id=3'
    )
    settings = read_settings(spec)
    assert settings.engine == {
        "tensor_parallel_size": "4",
        "compilation_config.mode": "0",
        "compilation_config": '{"a":1,"b":2}',
        "revision": "abc",
    }
    assert settings.tokens.target == "org/name"
    assert settings.tokens.revision == "abc"
    assert settings.tokens.add_bos_token is False
    assert settings.tokens.prefix_token_id == 3


def test_engine_arguments_of_an_unknown_vllm_are_left_to_it(missing):
    spec = parse_spec("vllm:org/name,a_new_argument=1")
    check_spec(spec)
    assert read_settings(spec).engine == {"a_new_argument": "1"}


def test_without_vllm_the_extra_is_named(missing, tiny_model_path):
    with pytest.raises(MissingExtraError) as error:
        check_ready(parse_spec(f"vllm:{tiny_model_path}"))
    assert str(error.value) == (
        "the vllm model needs vllm: pip install 'pytest-model-evals[vllm]'"
    )


def test_a_folder_without_a_model_is_found(missing, tmp_path):
    with pytest.raises(OptionError, match=r"has no config\.json"):
        check_spec(parse_spec(f"vllm:{tmp_path}"))


def test_the_tokenizer_is_that_of_the_hf_model(installed, tiny_model_path):
    from pytest_evals.core.request import Loglikelihood

    request = Loglikelihood("The cat sat on the", " mat")
    ours = open_tokenizer(parse_spec(f"vllm:{tiny_model_path},add_bos_token=false"))
    theirs = open_tokenizer(parse_spec(f"hf:{tiny_model_path},add_bos_token=false"))
    assert ours.token_strings(request) == theirs.token_strings(request)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "is_equal"),
    [
        ("", True),
        (",gpu_memory_utilization=0.5", True),
        (",max_model_len=128", False),
        (",tensor_parallel_size=2", False),
        (",reuse_prefix=true", False),
        (",add_bos_token=true", False),
    ],
)
def test_the_fingerprint_contains_settings_that_change_outputs(
    missing, tiny_model_path, arguments, is_equal
):
    def hash_file(path):
        return path.name

    plain = fingerprint_of(parse_spec(f"vllm:{tiny_model_path}"), hash_file)
    other = fingerprint_of(parse_spec(f"vllm:{tiny_model_path}{arguments}"), hash_file)
    assert (plain == other) is is_equal


@pytest.mark.slow
def test_the_fingerprint_contains_batch_invariance(
    missing, tiny_model_path, monkeypatch
):
    def found():
        return fingerprint_of(parse_spec(f"vllm:{tiny_model_path}"), str)

    monkeypatch.delenv("VLLM_BATCH_INVARIANT", raising=False)
    before = found()
    monkeypatch.setenv("VLLM_DIST_IDENT", "vLLM sets this itself")
    assert found() == before
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert found() != before


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--model", "--evals-judge"])
def test_workers_cannot_open_an_engine_each(pytester, option, example_suites):
    result = pytester.runpytest_subprocess(
        "-n2", f"{option}=vllm:{example_suites / 'tiny'}", str(example_suites)
    )
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        [
            f"ERROR: {option}=vllm:* cannot be opened by 2 workers: it runs one engine "
            "per session, which forms batches over all documents",
            "  fix: leave out -n; the engine's own arguments, such as "
            "tensor_parallel_size=N, distribute it over GPUs",
        ]
    )


@pytest.mark.slow
def test_an_automatic_number_of_workers_is_one(pytester, monkeypatch, example_suites):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    pytester.makepyfile(
        test_n="import os\n"
        "def test_n(): assert os.environ['PYTEST_XDIST_WORKER_COUNT'] == '1'"
    )
    result = pytester.runpytest_subprocess(
        "-nauto", f"--model=vllm:{example_suites / 'tiny'}"
    )
    result.assert_outcomes(passed=1)
