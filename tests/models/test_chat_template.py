"""Chat templates come with a model: their errors are errors of the chat."""

from __future__ import annotations

import resource
import time

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from pytest_evals.core.request import Message
from pytest_evals.models.tokens.chat_template import (
    ChatTemplateError,
    render_chat,
)

PLAIN = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
ASKED = [Message(role="system", content="short"), Message(role="user", content=" Q ")]


def tokenizer(template: str) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    made = PreTrainedTokenizerFast(tokenizer_object=words)
    made.chat_template = template
    return made


def refused(template: str) -> str:
    with pytest.raises(ChatTemplateError) as error:
        render_chat(tokenizer(template), ASKED, {})
    return str(error.value)


def test_a_chat_equals_that_of_the_library() -> None:
    assert (
        render_chat(tokenizer(PLAIN), ASKED, {})
        == "[system] short\n[user] Q\n[assistant]"
    )
    begun = [*ASKED, Message(role="assistant", content="Because")]
    assert render_chat(tokenizer(PLAIN), begun, {}).endswith("[assistant] Because")


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 1000000000 * [0] }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ messages[0].content.center(10**9) }}",
        "{{ '%1000000000d' % 1 }}{{ messages | tojson(indent=10**9) }}",
        "{% for i in range(9**5) %}{% for j in range(9**5) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    ],
)
def test_a_template_of_a_model_takes_neither_memory_nor_time(template: str) -> None:
    """This holds at compile time too, when constants are rendered."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    assert refused(template).startswith("the chat template: the template ")
    assert time.process_time() - begun < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('no more') }}", "refuses the chat: no more"),
        ("{{ missing.thing }}", "refuses the chat: 'missing' is undefined"),
        ("{% if %}", "refuses the chat: Expected an expression"),
        ("{{ range(10**9) }}", "fails: OverflowError: Range too big"),
        ("{{ messages + 1 }}", "fails: TypeError"),
        ("{% if 1 %}" * 200 + "{% endif %}" * 200, "fails: "),
        ("{{ " + "(" * 2000 + ")" * 2000 + " }}", "fails: RecursionError"),
        ("", "the prompt is a chat and the tokenizer has no chat template"),
    ],
)
def test_every_error_of_a_template_is_an_error_of_the_chat(
    template: str, message: str
) -> None:
    assert message in refused(template)


def test_a_template_that_takes_no_system_message_is_tried_without_it() -> None:
    strict = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}" + PLAIN
    )
    assert render_chat(tokenizer(strict), ASKED, {}) == "[user] Q\n[assistant]"
