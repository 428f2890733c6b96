"""Commands of servers: words, ports, containers, secrets."""

import pytest

from pytest_evals.errors import OptionError
from pytest_evals.masking.registry import remembering
from pytest_evals.models.registry import check_spec, fingerprint_of, parse_spec
from pytest_evals.models.serve.kind import read_command

VLLM = "vllm serve org/name --lora-modules a,b=c --tensor-parallel-size 2"


def test_a_command_ends_at_the_first_argument_of_the_served_model():
    spec = parse_spec(f"serve:{VLLM},api=chat, concurrency=8,restart=1")
    assert spec.target == VLLM
    assert spec.arguments == {"api": "chat", "concurrency": "8", "restart": "1"}
    assert str(spec) == f"serve:{VLLM},api=chat,concurrency=8,restart=1"
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve org/name",
        "/opt/bin/llama-server -m model.gguf",
        "python -m sglang.launch_server --model-path org/name",
        "python -m vllm.entrypoints.openai.api_server --model org/name",
        "transformers serve",
    ],
)
def test_a_port_is_added_for_servers_that_are_known_to_take_it(command):
    assert read_command(command).words[-2:] == ("--port", "{port}")


def test_a_port_of_the_user_is_kept():
    assert read_command("vllm serve x --port 8001").port == 8001
    assert read_command("my-server --port=8001").words == ("my-server", "--port=8001")
    assert read_command("PORT={port} my-server").words == ("my-server",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("my-server --fast", "write {port} where the command takes the number"),
        ("A=1", "no program"),
        ("vllm serve 'x", "close the quotes"),
    ],
)
def test_a_command_without_program_or_port_is_refused_with_the_fix(text, says):
    with pytest.raises(OptionError, match=says.replace("{", r"\{")):
        read_command(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("base_url=http://x/v1", "takes no base_url"),
        ("ready=health", "write a path on the server"),
        ("startup_timeout=0", "seconds, more than 0"),
        ("api=chats", "chat"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_fix(arguments, says):
    with pytest.raises(OptionError, match=says):
        check_spec(parse_spec(f"serve:vllm serve x,concurrency=2,{arguments}"))


def test_a_container_gets_a_name_by_which_it_is_ended():
    given = read_command("docker run --rm -p {port}:8000 image")
    named, name = given.named("evals-1")
    assert named.words[:4] == ("docker", "run", "--name", "evals-1")
    assert name == "evals-1"
    own, name = read_command("podman run --name mine -p {port}:80 i").named("evals-1")
    assert (own.words.count("--name"), name) == (1, "mine")
    assert read_command("vllm serve x").named("evals-1")[1] == ""


def test_secrets_of_a_command_are_neither_shown_nor_part_of_its_identity():
    with remembering():
        text = "HF_TOKEN=hf_abcdefgh1234 vllm serve x --api-key sk-abcdef123456"
        spec = parse_spec(f"serve:{text},api=chat")
        shown = f"{spec} {read_command(text)} {read_command(text).identity}"
        assert "hf_abcdefgh1234" not in shown
        assert "sk-abcdef123456" not in shown
        assert str(spec) == ("serve:HF_TOKEN=*** vllm serve x --api-key ***,api=chat")


def test_port_and_host_do_not_change_stored_responses_but_other_words_do():
    def fingerprint(command):
        return fingerprint_of(parse_spec(f"serve:{command}"), str)

    plain = fingerprint("vllm serve x")
    assert fingerprint("vllm serve x --port 8001 --host 0.0.0.0") == plain
    assert fingerprint("vllm serve x --dtype float16") != plain
    assert fingerprint("VLLM_BATCH_INVARIANT=1 vllm serve x") != plain
    assert fingerprint("vllm serve x,api=chat") != plain
