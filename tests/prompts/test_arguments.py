"""Names and values of generation arguments."""

import pytest

from pytest_evals.models.openai.sampling_params import OPTIONS
from pytest_evals.prompts.generation import argument_errors


def faults(**given):
    return [fault.message for fault in argument_errors(given)]


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("untill", "until"),
        ("max_gen_tokens", "max_gen_toks"),
        ("max_new_token", "max_new_tokens"),
        ("dosample", "do_sample"),
        ("Temperature", "temperature"),
        ("top-p", "top_p"),
        ("num_beam", "num_beams"),
        ("repitition_penalty", "repetition_penalty"),
    ],
)
def test_a_slip_of_the_pen_is_a_fault_with_the_name_that_is_meant(slip, meant):
    assert faults(**{slip: 1}) == [
        f"unknown argument {slip!r}; did you mean {meant!r}?"
    ]


def test_no_setting_of_transformers_or_of_a_server_is_taken_for_a_slip():
    from transformers import GenerationConfig

    settings = {name for name in GenerationConfig().to_dict() if name[0] != "_"}
    assert faults(**dict.fromkeys(settings | OPTIONS | {"bad_words", "top_a"})) == []


def test_a_name_unlike_any_other_is_left_alone():
    assert faults(my_flag=1, stop=["x"], max_thinking_tokens=5, logprobs=2) == []


@pytest.mark.parametrize(
    "good",
    [
        {"top_p": 1, "min_p": 0.05, "typical_p": 0.5, "top_k": 50, "seed": 3},
        {"temperature": "1e-5", "do_sample": True, "until": ["x"]},
        {"num_beams": 4, "early_stopping": "never", "length_penalty": -0.5},
        {"presence_penalty": -1.5, "frequency_penalty": 0, "repetition_penalty": 1.1},
        {"top_p": None, "max_gen_toks": None},
        {"max_gen_toks": "4", "do_sample": 0},
    ],
)
def test_values_that_engines_take_pass(good):
    assert faults(**good) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("top_p", 7, "a number from 0 to 1"),
        ("top_p", "0.9", "a number from 0 to 1"),
        ("min_p", -0.1, "a number from 0 to 1"),
        ("top_k", 1.5, "an integer from -1"),
        ("temperature", -1, "a number from 0"),
        ("temperature", float("nan"), "a number from 0"),
        ("temperature", True, "a number from 0"),
        ("temperature", 10**400, "a number from 0"),
        ("top_k", 10**400, "an integer from -1"),
        ("num_beams", 0, "an integer from 1"),
        ("max_tokens", float("inf"), "an integer from 1"),
        ("repetition_penalty", 0, "a number above 0"),
        ("do_sample", "yes", "true or false"),
        ("early_stopping", "soon", "true, false or 'never'"),
    ],
)
def test_a_value_outside_its_range_is_a_fault(key, value, expected):
    assert faults(**{key: value}) == [f"{key} must be {expected}, not {value!r}"]


def test_a_name_that_is_not_a_string_is_an_error():
    (fault,) = argument_errors({True: 1})

    assert fault[:2] == (True, "the name of an argument must be a string, not True")
