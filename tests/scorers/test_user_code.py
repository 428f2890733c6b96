"""Errors in user code, and its return values."""

import numpy as np
import pytest

from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.user_code import UserCode


def test_a_fault_inside_a_library_is_put_where_the_user_called_it():
    def user():
        return np.zeros((2, 2)) @ np.zeros(3)

    line = user.__code__.co_firstlineno + 1
    with pytest.raises(DocumentError) as caught, UserCode("metric 'm'"):
        user()
    assert str(caught.value).startswith("metric 'm': ValueError: matmul")
    assert str(caught.value).endswith(f"test_user_code.py:{line})")
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_exception_without_text_is_reported_by_its_name():
    raises = pytest.raises(EvalsError, match=r"^filter 'f': AssertionError \(")
    with raises, UserCode("filter 'f'", EvalsError):
        raise AssertionError


@pytest.mark.parametrize("name", ["<stdin>", "<string>", "<ipython-input-1>"])
def test_a_fault_in_code_without_a_file_has_its_line(name):
    source = "with UserCode('it'):\n    import json\n    json.loads('{')"
    with pytest.raises(DocumentError) as caught:
        exec(compile(source, name, "exec"), {"UserCode": UserCode})
    assert str(caught.value).endswith(f"({name}:3)")


def test_an_interrupt_is_not_a_fault():
    with pytest.raises(KeyboardInterrupt), UserCode("x"):
        raise KeyboardInterrupt


def test_scalars_become_pythons_own_and_arrays_stay():
    array = np.arange(3)
    value = plain({"a": [np.float64(0.5), (np.int64(2), np.bool_(True))], "b": array})
    assert value == {"a": [0.5, (2, True)], "b": array}
    assert [type(v) for v in (value["a"][0], *value["a"][1])] == [float, int, bool]
    assert value["b"] is array


def test_tuples_stay_tuples_and_texts_become_pythons_own():
    assert plain(("a", None, True, 1)) == ("a", None, True, 1)
    assert type(plain(np.str_("x"))) is str
