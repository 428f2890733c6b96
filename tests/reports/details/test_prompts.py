"""Requests as lines: boundaries, repeated contexts, escapes."""

import re
from dataclasses import replace

from pytest_evals.core.model import TokenStrings
from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.errors import DocumentError
from pytest_evals.reports.details.prompts import prompt_lines


class Words:
    """Splits before each space; rejects a continuation that begins with one."""

    def token_strings(self, request):
        if isinstance(request, Loglikelihood):
            if not request.continuation:
                raise DocumentError("the continuation is empty")
            texts = (request.context, request.continuation)
        elif isinstance(request, Rolling):
            texts = ("<s>", request.text)
        else:
            texts = (request.prompt, "")
        a, b = (tuple(re.findall(" ?[^ ]+", text)) for text in texts)
        return TokenStrings(a, b, len(a), len(b))


def lines(make, *requests, cutter=None, error=""):
    record = replace(make.record(0, None, error=error), requests=requests)
    return [*prompt_lines(record, "t[0]", cutter)]


def test_the_shared_context_of_choices_is_shown_once(make):
    requests = [Loglikelihood("One\nand two:", f" {c}") for c in ("a b", "c")]
    assert lines(make, *requests) == [
        "t[0]: 2 requests",
        "  context:",
        "    │One⏎",
        "    and two:│",
        "  continuation 1: │ a b│",
        "  continuation 2: │ c│",
    ]


def test_tokens_are_shown_between_edges(make):
    found = lines(make, Loglikelihood("One\nand two:", " a b"), cutter=Words())
    assert found == [
        "t[0]: 1 request",
        "  context (2 tokens):",
        "    │One⏎",
        "    and│ two:│",
        "  continuation 1 (2 tokens): │ a│ b│",
    ]


def test_a_line_break_at_the_end_is_seen(make):
    found = lines(make, Generate("One\n", stop=("\n", "Q:"), max_tokens=7))
    assert found[1:] == [
        "  prompt:",
        "    │One⏎│",
        "  answer: until '\\n', 'Q:'; at most 7 tokens",
    ]


def test_a_chat_without_a_template_is_shown_by_message(make):
    chat = (Message("system", "Be brief."), Message("user", "Who?"))
    assert lines(make, Generate(chat))[1:6] == [
        "  prompt:",
        "   system:",
        "    │Be brief.│",
        "   user:",
        "    │Who?│",
    ]


def test_a_whole_text_is_scored_after_its_prefix(make):
    assert lines(make, Rolling("a b"), cutter=Words())[1:] == [
        "  before the text (1 token):",
        "    │<s>│",
        "  text (2 tokens): │a│ b│",
    ]
    assert lines(make, Rolling("a b"))[1:] == ["  text: │a b│"]


def test_control_characters_are_escaped(make):
    found = "\n".join(lines(make, Generate("\x1b[31mred\u202e\r")))
    assert "\x1b" not in found
    assert "\\x1b[31mred\\u202e\\r" in found


def test_requests_that_cannot_be_sent_or_rendered_are_reported(make):
    found = lines(make, Loglikelihood("a", ""), cutter=Words())
    assert "  request 1 cannot be sent: the continuation is empty" in found
    found = lines(make, error="no such column")
    assert found == ["t[0]: 0 requests", "  error: no such column"]
