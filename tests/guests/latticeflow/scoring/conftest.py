"""Scorers from YAML, and samples scored by them."""

from pathlib import Path

import pytest

from pytest_evals.core.dialogue import Exchange, replayed
from pytest_evals.core.request import Response
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.reader import read_trials
from pytest_evals.guests.latticeflow.prompts.output import SolverOutput
from pytest_evals.guests.latticeflow.reader import read_entity_file
from pytest_evals.guests.latticeflow.scoring.reader import read_scorers
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient


@pytest.fixture
def section(tmp_path: Path):
    """Return a function from YAML to a section and its problems."""

    def of(text):
        path = tmp_path / "t.yaml"
        path.write_text(text, encoding="utf-8")
        problems = []
        return Keys(read_entity_file(path), problems), problems

    return of


@pytest.fixture
def read(section, tmp_path):
    """Return a function from entries of ``scorers`` to scorers, warnings and problems
    as text."""

    def read_text(text, has_solver=True):
        top, problems = section(f"scorers:\n{text}")
        warnings: list[str] = []
        scorers = read_scorers(
            top.entries("scorers"),
            lambda key: ModelClient(name=key),
            warnings,
            has_solver=has_solver,
        )
        messages = [str(problem).replace(str(tmp_path), ".") for problem in problems]
        return scorers, tuple(warnings), messages

    return read_text


@pytest.fixture
def scored(read):
    """Score a sample with the only scorer; ``replies`` are those of the judge, each a
    string or a function of the prompt."""

    def score(text, sample, answer=None, reply=None, trace=None):
        has_solver = answer is not None or trace is not None
        (scorer,), _, problems = read(text, has_solver)
        assert problems == []
        output = None
        if has_solver:
            message = {"role": "assistant", "content": answer}
            raw = [{"choices": [{"message": message}]}] if trace is None else []
            output = SolverOutput(trace=trace, raw_outputs=raw)
        exchanges = []
        dialogue, responses = scorer.dialogue(sample, output), None
        while True:
            try:
                asks = dialogue.send(responses)
            except StopIteration:
                return replayed(scorer.dialogue(sample, output), exchanges)
            responses = []
            for one in asks:
                prompt = one.request.prompt
                text = reply(prompt) if callable(reply) else reply
                responses.append(Response(text=text))
                exchanges.append(Exchange(*one, responses[-1]))

    return score


@pytest.fixture
def added_up(read):
    """Return names → estimates (or the error) of the only scorer over values of
    samples; a list of values is several rows."""

    def add_up(text, samples):
        (scorer,), _, problems = read(text)
        assert problems == []
        found = {}
        for number in scorer.metric_values:
            values = []
            for sample in samples:
                rows = sample if isinstance(sample, list) else [sample]
                given = [number.read(row) for row in rows]
                given = [one for one in given if one is not None]
                if given:
                    values.append(
                        tuple(given) if isinstance(sample, list) else given[0]
                    )
            how = number.how
            if not values:
                found[number.name] = how.lacking
            elif how.several is not None:
                found |= how.several(values)
            else:
                found[number.name] = how.aggregate(values)
        return found

    return add_up


@pytest.fixture
def trials(section, tmp_path):
    """Return the parsed ``trials`` and the problems."""

    def read_text(text):
        top, problems = section(text)
        found = read_trials(top)
        return found, [str(one).replace(str(tmp_path), ".") for one in problems]

    return read_text
