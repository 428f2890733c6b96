"""The definitions of the model fixtures that documents see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_evals.run.batches import Job

if TYPE_CHECKING:
    from _pytest.fixtures import FixtureDef


class Definition(NamedTuple):
    """The definitions of ``eval_model`` and ``eval_judge`` that a file sees. Documents
    with equal ones share models and a plan."""

    model: FixtureDef[Any]
    judge: FixtureDef[Any]

    @property
    def has_own_model(self) -> bool:
        """Whether the tested model is opened by our fixture: nobody overrides it."""
        return _is_own(self.model)

    @property
    def has_own_judge(self) -> bool:
        """Whether the judge is."""
        return _is_own(self.judge)


def _is_own(fixture: FixtureDef[Any]) -> bool:
    return str(fixture.func.__module__).startswith("pytest_evals.")


class DocumentFile(Protocol):
    """The file node of a document."""

    @property
    def score_hook(self) -> Any:
        """``pytest_evals_score`` if a user implements it for this folder."""
        ...

    def model_definition(self, item: Any, /) -> Definition:
        """Return the fixtures that open the models of the file's documents."""
        ...


class DocumentItem(Protocol):
    """The item of a document, as models and runs see it."""

    job: Job
    word: str
    took_s: float
    packed: bytes | None

    @property
    def nodeid(self) -> str:
        """Its node id."""
        ...

    @property
    def ihook(self) -> Any:
        """The hooks as its folder sees them."""
        ...

    @property
    def parent(self) -> DocumentFile:
        """Its file."""
        ...
