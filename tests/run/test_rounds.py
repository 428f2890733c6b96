"""Dialogue rounds: requests that depend on the first responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.core.doc import Doc
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.core.task import Asked, Task
from pytest_evals.errors import DocumentError, ModelError, Place
from pytest_evals.run.batches import answered, places_of
from pytest_evals.run.rounds import followed


class Rows:
    def ids(self) -> Sequence[str]:
        return ["0"]

    def indices(self) -> Sequence[int]:
        return [0]

    def total(self) -> int:
        return 1


class Echo(Model):
    """A model that replies with its name and the prompt, and records each batch."""

    def __init__(self, name: str, fails: Sequence[str] = ()) -> None:
        self.name, self.batches, self._fails = name, list[list[str]](), fails

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        prompts = [str(r.prompt) for r in requests if isinstance(r, Generate)]
        self.batches.append(prompts)
        for i, prompt in reversed([*enumerate(prompts)]):
            if prompt in self._fails:
                yield i, Response(error=f"{self.name} is down")
            else:
                yield i, Response(text=f"{self.name}({prompt})")


def chain(lengths: Sequence[int], names: Sequence[str] = ("",)) -> Task:
    """A task whose document ``i`` has ``lengths[i]`` follow-up requests, each about the
    last response, to the models in turn."""

    def follow_up(record: Record) -> Dialogue[None]:
        last = record.responses[0].text
        for n in range(lengths[record.index]):
            (response,) = yield [Ask(names[n % len(names)], Generate(f"{last}?"))]
            last = response.raise_for_error().text

    return Task(
        name="chain",
        source=Place(Path("chain.yaml")),
        rows=Rows(),
        ask=lambda index: Asked(Doc("", [], 0), ()),
        score=lambda record: (),
        metrics=(),
        follow_up=follow_up,
        models={name: name for name in names if name},
    )


def record(index: int, text: str = "q") -> Record:
    return Record(
        task="chain", index=index, doc=Doc("", [], 0), requests=(Generate(text),)
    )


def run(
    records: Sequence[Record],
    tasks: Sequence[Task],
    model: Model,
    others: Mapping[str, Model],
) -> tuple[dict[int, Record], list[int], int]:
    """Records by position, their order of arrival, and requests of follow-ups."""
    sent: list[int] = []
    stream = followed(
        answered(records, places_of(records, model), model),
        tasks,
        model,
        lambda _, name: others[name],
        sent.append,
    )
    pairs = [*stream]
    return dict(pairs), [i for i, _ in pairs], sum(sent)


def test_a_round_is_one_batch_a_model_over_all_open_documents():
    task = chain([2, 2, 0], ["judge", ""])
    model, judge = Echo("m"), Echo("j")
    records = [record(0, "a"), record(1, "b"), record(2, "c")]
    found, order, n_sent = run(records, [task] * 3, model, {"judge": judge})
    assert judge.batches == [["m(a)?", "m(b)?"]]
    assert model.batches == [["a", "b", "c"], ["j(m(a)?)?", "j(m(b)?)?"]]
    assert order == [2, 0, 1]
    assert found[0].exchanges[-1].text == "m(j(m(a)?)?)"
    assert n_sent == 4


def test_equal_follow_ups_of_a_round_are_sent_once():
    model = Echo("m")
    records = [record(0), record(1)]
    found, _, n_sent = run(records, [chain([1, 1])] * 2, model, {})
    assert model.batches == [["q"], ["m(q)?"]]
    assert n_sent == 1
    assert found[0].exchanges == found[1].exchanges


def test_a_failed_response_is_an_error_of_the_document_that_reads_it():
    model, judge = Echo("m"), Echo("j", fails=["m(a)?"])
    task = chain([2, 2], ["judge", ""])
    found, _, _ = run(
        [record(0, "a"), record(1, "b")], [task] * 2, model, {"judge": judge}
    )
    assert found[0].error == "j is down"
    assert not found[1].error and len(found[1].exchanges) == 2
    with pytest.raises(DocumentError, match="j is down"):
        _ = found[0].exchanges[0].text


def test_a_document_without_a_first_response_gets_no_follow_up_requests():
    model = Echo("m", fails=["a"])
    found, _, _ = run([record(0, "a")], [chain([3])], model, {})
    assert found[0].error == "m is down" and not found[0].exchanges


def test_a_name_that_the_task_does_not_know_is_an_error_that_lists_its_models():
    task = chain([1], ["judge"])
    lost = replace(task, models={"x": ""})
    found, _, _ = run([record(0)], [lost], Echo("m"), {})
    assert "unknown model 'judge' of chain" in found[0].error
    assert "'x'" in found[0].error


def not_a_generator(record):
    return [Ask("", Generate("?"))]


def not_a_list(record):
    yield Ask("", Generate("?"))


def not_asks(record):
    yield [Generate("?")]


@pytest.mark.parametrize(
    ("follow_up", "message"),
    [
        (not_a_generator, "must be a generator function, not return list"),
        (not_a_list, "must yield a list of Ask, not Ask(model=''"),
        (not_asks, "must yield a list of Ask, not [Generate("),
    ],
)
def test_a_follow_up_of_another_form_is_an_error_that_shows_the_form(
    follow_up, message
):
    task = replace(chain([1]), follow_up=follow_up)
    found, _, _ = run([record(0)], [task], Echo("m"), {})
    assert message in found[0].error
    assert 'fix: (response,) = yield [Ask("judge"' in found[0].error


def test_a_round_without_requests_is_over_at_once():
    def follow_up(record):
        assert (yield []) == ()
        yield [Ask("", Generate("more"))]

    model = Echo("m")
    task = replace(chain([1]), follow_up=follow_up)
    found, _, _ = run([record(0)], [task], model, {})
    assert [one.text for one in found[0].exchanges] == ["m(more)"]
    assert model.batches == [["q"], ["more"]]


def test_an_error_in_a_dialogue_keeps_its_exchanges():
    def follow_up(record):
        (response,) = yield [Ask("", Generate("more"))]
        raise DocumentError(f"{response.text} is not a number")

    task = replace(chain([1]), follow_up=follow_up)
    found, _, _ = run([record(0)], [task], Echo("m"), {})
    assert found[0].error == "m(more) is not a number"
    assert [one.text for one in found[0].exchanges] == ["m(more)"]


def test_dialogues_that_are_not_over_are_closed_with_the_run():
    closed = []

    def follow_up(record):
        try:
            yield [Ask("", Generate("more"))]
        finally:
            closed.append(record.index)

    task = replace(chain([1]), follow_up=follow_up)
    none = replace(task, follow_up=lambda record: iter_nothing())
    records, model = [record(0), record(1)], Echo("m")
    stream = followed(
        answered(records, places_of(records, model), model),
        [task, none],
        model,
        lambda _, name: model,
        [].append,
    )
    assert next(stream)[0] == 1
    stream.close()
    assert closed == [0]


def iter_nothing():
    yield from ()


def test_a_judge_that_breaks_its_contract_is_named():
    class Twice(Model):
        name = "twice"

        def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            yield 0, Response()
            yield 0, Response()

    with pytest.raises(ModelError, match="twice"):
        run([record(0)], [chain([1], ["judge"])], Echo("m"), {"judge": Twice()})


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_every_document_has_as_many_exchanges_as_when_run_alone(lengths):
    names = ["judge", "", "other"]

    def others() -> dict[str, Model]:
        return {"judge": Echo("j"), "other": Echo("o")}

    task = chain(lengths, names)
    records = [record(i, f"q{i % 3}") for i in range(len(lengths))]
    together, _, _ = run(records, [task] * len(records), Echo("m"), others())
    for i, one in enumerate(records):
        alone, _, _ = run([one], [task], Echo("m"), others())
        assert together[i].exchanges == alone[0].exchanges
        assert len(alone[0].exchanges) == lengths[i]
