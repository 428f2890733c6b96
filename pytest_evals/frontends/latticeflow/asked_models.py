"""The models of a task: what each key in its files stands for in this session."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_evals.core.turn import JUDGE, ModelSource
from pytest_evals.errors import Place
from pytest_evals.frontends.latticeflow.solving.line import Line
from pytest_evals.frontends.latticeflow.suite import Suite

__all__ = ["AskedModels"]


@dataclass(slots=True, kw_only=True)
class AskedModels:
    """Key → line to a model.

    The model of ``--model`` stands for the one that a file names to be tested; and the
    session's judge for any other that no file describes.

    Args:
        suite: Where models are looked up.
        tested: Key of the model that is tested, empty if no file names it.
        place: Where the task stands.
    """

    suite: Suite
    tested: str
    place: Place
    sources: dict[str, ModelSource] = field(default_factory=dict)
    """Name in follow-ups → where the model comes from, of all that were asked for."""

    def line(self, key: str) -> Line:
        """The line to a model.

        Args:
            key: Empty for the one that is tested.

        Raises:
            TaskFileError: Its file cannot be used.
        """
        own = Line(gen_kwargs=self.suite.options.gen_kwargs)
        if not key and (self.suite.options.has_model or not self.tested):
            return own
        name = key or self.tested
        if not self.suite.has("model", name, self.place):
            if not key:
                return own
            self.sources[name] = JUDGE
            return Line(name=name)
        return own
