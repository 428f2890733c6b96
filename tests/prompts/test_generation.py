"""Generation arguments; values of the first test were measured on lm-eval 0.4.13."""

import pytest

from pytest_evals.core.request import Generate, as_sent
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.prompts.generation import Sampling, check_overrides, read_sampling


def sampling(given, overrides=(), delimiter="\n\n"):
    return read_sampling(given, dict(overrides), delimiter).sampling


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, Sampling(stop=("\n\n",), max_tokens=256, temperature=0.0)),
        (
            {"until": "x", "max_new_tokens": 5, "max_gen_toks": 9},
            Sampling(stop=("x",), max_tokens=9, temperature=0.0),
        ),
        ({"temperature": 0.7}, Sampling(stop=("\n\n",), temperature=0.7)),
        (
            {"do_sample": False, "temperature": 0.7},
            Sampling(stop=("\n\n",), temperature=0.0),
        ),
        ({"do_sample": 0, "temperature": 1}, Sampling(stop=("\n\n",))),
        ({"max_gen_toks": "4"}, Sampling(stop=("\n\n",), max_tokens=4)),
        ({"temperature": None}, Sampling(stop=("\n\n",))),
    ],
)
def test_arguments_have_the_meaning_of_lm_eval(given, expected):
    assert sampling(given) == expected


def test_no_stop_strings_are_none_but_the_default_is_the_delimiter():
    assert sampling({"until": []}).stop == ()
    assert sampling({"max_gen_toks": 5}, delimiter="##").stop == ("##",)
    made = read_sampling({"until": ["", "a", "b"]}, {}, "")
    assert made.sampling.stop == ("a", "b")
    assert made.warnings[0].startswith("until: an empty stop string is ignored")


def test_the_command_line_beats_the_task_key_by_key():
    task = {"until": ["\n"], "temperature": 0.2, "do_sample": True}

    assert sampling(task, {"temperature": 0.9}) == Sampling(
        stop=("\n",), temperature=0.9
    )


def test_a_length_of_the_command_line_loses_under_another_name_with_a_warning():
    result = read_sampling({"max_gen_toks": 9}, {"max_new_tokens": 5}, "\n\n")

    assert result.sampling.max_tokens == 9
    assert result.warnings == (
        "max_gen_toks=9 of the task overrides the option "
        "max_new_tokens=5, as in lm-eval; "
        "give max_gen_toks instead",
    )


def test_a_temperature_without_sampling_has_no_effect_with_a_warning():
    result = read_sampling(None, {"temperature": 0.7}, "\n\n")

    assert result.sampling.temperature == 0
    assert result.warnings == (
        "do_sample: false makes temperature 0.7 greedy, as in lm-eval",
    )


def test_greedy_decoding_leaves_sampling_options_out_so_that_requests_stay_equal():
    assert sampling({"top_p": 0.95, "num_beams": 4}).options == (("num_beams", 4),)
    assert sampling({"top_p": 0.95, "temperature": 1}).options == (("top_p", 0.95),)
    assert sampling({"do_sample": True}).temperature == 1.0


def test_repeats_are_requests_of_their_own_that_a_deterministic_model_gets_once():
    assert sampling({"temperature": 1}).requests("p", 3) == tuple(
        Generate("p", ("\n\n",), temperature=1.0, repeat=i) for i in range(3)
    )
    greedy = sampling(None).requests("p", 3)
    assert [one.repeat for one in greedy] == [0, 1, 2]
    assert {as_sent(one, is_deterministic=False) for one in greedy} == {*greedy}
    assert {as_sent(one, is_deterministic=True) for one in greedy} == {greedy[0]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"until": [5]}, "until: a stop string must be a string, not 5; quote it"),
        ({"max_gen_toks": 0}, "max_gen_toks must be an integer from 1, not 0"),
        (
            {"max_gen_toks": float("inf")},
            "max_gen_toks must be an integer from 1, not inf",
        ),
        ({"max_tokens": "x"}, "max_tokens must be an integer from 1, not 'x'"),
        ({"temperature": -1}, "temperature must be a number from 0, not -1"),
        ({"temperature": "hot"}, "temperature must be a number from 0, not 'hot'"),
        ({"do_sample": "yes"}, "do_sample must be true or false, not 'yes'"),
        ({"x": {"y": 1}}, "x must be a number, a string or a list, not {'y': 1}"),
    ],
)
def test_values_that_mean_nothing_are_errors(given, message):
    with pytest.raises(EvalsError) as error:
        read_sampling(given, {}, "\n\n")

    assert str(error.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_gen_toks": "abc"}, "max_gen_toks must be an integer from 1, not 'abc'"),
        ({"until": [5]}, "until: a stop string must be a string, not 5; quote it"),
        (
            {"temprature": 1, "top_p": 7},
            "unknown argument 'temprature'; did you mean 'temperature'?; "
            "top_p must be a number from 0 to 1, not 7",
        ),
    ],
)
def test_a_bad_argument_of_the_command_line_names_its_option(given, message):
    with pytest.raises(OptionError) as error:
        check_overrides(given)

    assert str(error.value) == f"--evals-gen-kwargs: {message}"


@pytest.mark.parametrize(
    "given", [{}, {"max_thinking_tokens": 9, "my_flag": True, "top_p": 0.9}]
)
def test_arguments_that_a_model_may_know_reach_it(given):
    check_overrides(given)

    result = read_sampling({"temperature": 1.0}, given, "\n\n")
    assert given.items() <= dict(result.sampling.options).items()
