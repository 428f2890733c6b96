"""--evals-ray on the command line; replicas themselves are tested with the models."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.guests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--evals-ray", "evals"],
            "*'evals' is not the address of a Ray cluster; *auto",
        ),
        (["--evals-ray=head"], "*'head' is not the address of a Ray cluster*"),
        (["--evals-ray=auto", "-n2", "evals"], "*has replicas instead of workers: -n0"),
    ],
)
def test_invalid_ray_options_are_usage_errors(suite, arguments, message):
    result = suite.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_cluster_without_a_model_is_a_usage_error(suite):
    result = suite.run("--evals-ray", model=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--evals-ray needs a model, as in --model=hf:gpt2"])


def test_a_model_that_is_not_replicated_is_a_usage_error(suite):
    result = suite.run("evals", "--evals-ray=local", model="openai:gpt-4o")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*Ray replicates hf and scripted models, not 'ope*"])
