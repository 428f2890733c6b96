"""Custom samplers, called as lm-eval 0.4.13 calls a ``ContextSampler``."""

from random import Random

import pytest

from pytest_evals.dialects.lm_eval.prompts.shots import CustomSampler
from pytest_evals.errors import EvalsError
from pytest_evals.prompts.fewshot import DefaultSampler

POOL = [{"n": i} for i in range(8)]


class Drawing:
    """The behaviour of lm-eval's default sampler, in the form of a custom one."""

    def __init__(self, df, *, rnd=None):
        self.rows, self.random = df, Random(rnd)

    def set_rnd(self, seed):
        self.random = Random(seed)

    def sample(self, n, eval_doc=None):
        if eval_doc is None:
            return self.random.sample(self.rows, n)
        drawn = self.random.sample(self.rows, n + 1)
        return [row for row in drawn if row != eval_doc][:n]


class Copying(Drawing):
    def sample(self, n, eval_doc=None):
        return [dict(row) for row in super().sample(n, eval_doc)]


class Failing(Drawing):
    def sample(self, n, eval_doc=None):
        if eval_doc == POOL[1]:
            raise KeyError("topic")
        return [{"n": "foreign"}] if eval_doc == POOL[2] else self.rows[:n]


@pytest.mark.parametrize("make", [Drawing, Copying])
@pytest.mark.parametrize("requested", [None, POOL], ids=["other pool", "same pool"])
def test_the_same_draw_by_a_class_gives_the_same_examples_in_every_order(
    make, requested
):
    own = CustomSampler(make, POOL, 3, 1234, requested or ())
    built_in = DefaultSampler(POOL, 3, 1234, requested)

    for index in (5, 0, 7, 3):
        assert own.shots(index) == built_in.shots(index)


def test_a_failing_draw_is_an_error_of_its_document_alone():
    own = CustomSampler(Failing, POOL, 2, 0, POOL)

    assert own.shots(0) == (0, 1)
    assert own.shots(3) == (0, 1)
    with pytest.raises(EvalsError, match="Failing: KeyError: 'topic'"):
        own.shots(1)
    with pytest.raises(
        EvalsError, match="Failing returned a row that is not in the pool"
    ):
        own.shots(2)


def test_a_class_that_cannot_be_made_is_an_error():
    with pytest.raises(EvalsError, match="type: TypeError: "):
        CustomSampler(type, POOL, 2, 0, ())
