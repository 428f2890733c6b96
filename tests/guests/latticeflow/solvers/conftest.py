"""Solvers from YAML, and dialogues with a model that is a function."""

from pathlib import Path

import pytest

from pytest_evals.core.dialogue import Exchange, replayed
from pytest_evals.core.request import Response
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.reader import read_entity_file
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient
from pytest_evals.guests.latticeflow.solvers.reader import read_solver


@pytest.fixture
def read(tmp_path: Path):
    """Return a function from the YAML of a ``solver`` to its parts and the problems."""

    def read_text(text, lines=lambda key: ModelClient(name=key)):
        path = tmp_path / "t.yaml"
        path.write_text(text, encoding="utf-8")
        problems = []
        parts = read_solver(Keys(read_entity_file(path), problems), lines)
        messages = [str(problem).replace(str(tmp_path), ".") for problem in problems]
        return parts, messages

    return read_text


@pytest.fixture
def solve(read):
    """Run a solver to its end with ``reply(model, prompt)``; return its output and the
    requests of each round."""

    def run(text, sample, reply, *, trial=0, lines=lambda key: ModelClient(name=key)):
        parts, problems = read(text, lines)
        assert problems == []
        exchanges, rounds = [], []
        dialogue, responses = parts.solve(sample, trial), None
        while True:
            try:
                asks = dialogue.send(responses)
            except StopIteration:
                # scoring runs it again with the responses
                again = parts.solve(sample, trial)
                return replayed(again, exchanges), rounds
            rounds.append([(one.model, one.request.prompt) for one in asks])
            responses = [
                Response(text=reply(one.model, one.request.prompt)) for one in asks
            ]
            exchanges += [
                Exchange(*one, response)
                for one, response in zip(asks, responses, strict=True)
            ]

    return run
