"""Canned answers."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.models.registry import check_spec, open_model, parse_spec
from pytest_evals.models.scripted import read_rules


def answers(target, *requests):
    found = dict(open_model(parse_spec(f"scripted:{target}")).answer(requests))
    return [found[i] for i in range(len(requests))]


def test_first_ranks_by_length_and_then_by_alphabet():
    words = ["b", "a", "aa", "ab"]
    scored = answers("first", *(Loglikelihood("q", word) for word in words))
    ranked = sorted(words, key=lambda w: -scored[words.index(w)].logprob)
    assert ranked == ["a", "b", "aa", "ab"]


def test_first_does_not_depend_on_other_requests():
    alone = answers("first", Loglikelihood("q", "b"))
    among = answers("first", Loglikelihood("q", "b"), Loglikelihood("q", "a"))
    assert alone[0] == among[0]


def test_echo_writes_the_prompt_up_to_a_stop_string():
    (response,) = answers("echo", Generate("one two\nthree", ("\n",)))
    assert (response.text, response.finish) == ("one two", "stop")


def test_echo_keeps_to_the_limit():
    (response,) = answers("echo", Generate("one two three", max_tokens=2))
    assert (response.text, response.finish, response.n_tokens) == (
        "one two",
        "length",
        2,
    )


def test_fail_gives_errors_and_no_numbers():
    for response in answers("fail", Loglikelihood("a", "b"), Rolling("c")):
        assert response.error
        assert response.logprob is None


def test_break_raises():
    with pytest.raises(ModelError, match="breaks at the first request"):
        answers("break", Rolling("c"))


def test_a_json_file_answers_texts_and_choices_by_the_end_of_the_prompt(tmp_path):
    path = tmp_path / "answers.json"
    path.write_text('{"of France?": "Paris", "of Italy?": "Rome"}')
    text, right, wrong, other = answers(
        path,
        Generate("What is the capital of Italy?"),
        Loglikelihood("The capital of France?", " Paris"),
        Loglikelihood("The capital of France?", " Rome"),
        Generate("Who?"),
    )
    assert text.text == "Rome"
    assert (right.logprob, right.greedy) == (0.0, True)
    assert wrong.logprob < -1
    assert wrong.greedy is False
    start = f"{path} has no answer to a prompt ending 'Who?'; add a rule for it: "
    assert other.error.startswith(start)


def test_the_first_rule_that_fits_answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"regex": "cap.*Italy", "error": "down"}\n'
        "\n"
        '{"continuation": " x", "logprob": -0.5, "greedy": true}\n'
        '{"text": "else"}\n'
    )
    chat = (Message("user", "the capital"), Message("user", "of Italy"))
    down, scored, text = answers(
        path, Generate("capital of Italy?"), Loglikelihood("q", " x"), Generate(chat)
    )
    assert down.error == "down"
    assert (scored.logprob, scored.greedy) == (-0.5, True)
    assert text.text == "else"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", '{"txt": "a"}', "{}:1: a rule has no 'txt'; did you mean 'text'?"),
        ("x.jsonl", '\n{"text": 3}', "{}:2: text cannot be 3"),
        ("x.jsonl", '{"logprob": true}', "{}:1: logprob cannot be True"),
        (
            "x.jsonl",
            '{"logprob": -1' + "0" * 400 + "}",
            "{}:1: logprob is too large a number",
        ),
        ("x.jsonl", "[1]", "{}:1: a rule must be an object, not [1]"),
        ("x.json", '{"q": 3}', "{}: 'q': text cannot be 3"),
        ("x.json", "[]", "{} is not an object of prompts and answers"),
    ],
)
def test_a_wrong_file_of_answers_is_found_when_the_spec_is_checked(
    tmp_path, name, content, message
):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(OptionError) as caught:
        check_spec(parse_spec(f"scripted:{path}"))
    assert str(caught.value) == message.format(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.json",
            b'{"q": "\xe9"}',
            ":1: the file is not UTF-8 (byte 0xe9)\n  fix: convert",
        ),
        ("x.jsonl", b'\n{"text": "\xff"}', ":2: the file is not UTF-8 (byte 0xff)"),
        ("x.json", b"[" * 100_000, ": invalid JSON: "),
        (
            "x.json",
            b'{"q": 1' + b"0" * 5000 + b"}",
            ": invalid JSON: Exceeds",
        ),
    ],
)
def test_a_file_of_answers_that_cannot_be_decoded_is_an_option_error(
    tmp_path, name, content, message
):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(OptionError) as caught:
        check_spec(parse_spec(f"scripted:{path}"))
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_file_of_answers_may_have_a_byte_order_mark_and_line_separators(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a\xe2\x80\xa8b"}\r\n')
    (rule,) = read_rules(str(path))
    assert rule.text == "a\u2028b"


def test_a_wrong_name_is_found_when_the_spec_is_checked():
    with pytest.raises(OptionError, match="did you mean 'first'"):
        check_spec(parse_spec("scripted:frist"))
    with pytest.raises(OptionError, match=r"no\.json: cannot be read: No such file"):
        check_spec(parse_spec("scripted:no.json"))
    with pytest.raises(OptionError, match="takes no argument 'x'"):
        check_spec(parse_spec("scripted:first,x=1"))
