"""Context that the tasks of one suite share: entities, datasets and options; and the
models that a task calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.yaml_reader.yaml_file import CodeRules, YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.dataset_file import (
    GeneratedSource,
    Loading,
    dataset_rows,
)
from pytest_evals.guests.latticeflow.entities import Entities, Entity, Kind
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.generator import generate_rows
from pytest_evals.guests.latticeflow.model_file import (
    ModelFile,
    read_adapter,
    read_model,
)
from pytest_evals.guests.latticeflow.models import Adapter
from pytest_evals.guests.latticeflow.reader import Environment, Values, substitute
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient
from pytest_evals.guests.latticeflow.tables import Rows
from pytest_evals.masking.registry import learn_secret


@dataclass(slots=True, kw_only=True)
class EntitySuite:
    """Looks up the entities that a file refers to."""

    entities: Entities
    options: TaskOptions
    listed: Sequence[Entity] = ()  # with precedence: those that a run file lists
    secrets: Mapping[str, str] = field(default_factory=dict)
    _open: tuple[str, ...] = ()

    def with_code_rules(self, file: YamlFile) -> YamlFile:
        """Return the file with the rules for running Python of this suite."""
        roots = self.options.code_roots

        def may_run(path: Path) -> bool:
            real = path.resolve()
            return roots is None or any(real.is_relative_to(root) for root in roots)

        return replace(
            file, code=CodeRules(seconds=self.options.call_s, may_run=may_run)
        )

    def entity(self, kind: Kind, key: str, place: Place) -> Entity:
        """Return the entity with a key. Raises ``TaskFileError`` if the key is unknown
        or ambiguous."""
        match = self.entities.find(kind, key, place.path, self.listed)
        if match is None:
            message = self.entities.unknown_key(kind, key, place.path, self.listed)
            raise TaskFileError([Problem(message, place)])
        return match

    def model(self, key: str, place: Place) -> ModelFile | None:
        """Return the model with a key, or ``None`` if no file describes it."""
        entity = self.entities.find("model", key, place.path, self.listed)
        if entity is None:
            return None
        raw = entity.file.values.get("config")
        filled = self._with_secrets(entity)

        def adapter(name: str, section: Keys) -> Adapter:
            match = self.entity("adapter", name, section.place("key"))
            return read_adapter(self._with_secrets(match))

        return read_model(filled, raw if isinstance(raw, Mapping) else {}, adapter)

    def _with_secrets(self, entity: Entity) -> Entity:
        problems: list[Problem] = []
        values = Values({}, self.secret_of(entity))
        filled = substitute(self.with_code_rules(entity.file), "", values, problems)
        if problems:
            raise TaskFileError(problems)
        return replace(entity, file=filled)

    def secret_of(self, entity: Entity) -> Callable[[str], str | None]:
        """Return a function that looks up secrets in the entity's own file, then the
        run file, then the environment."""
        secrets = entity.file.values.get("secrets")
        known = {**self.secrets, **(secrets if isinstance(secrets, Mapping) else {})}
        environment = Environment(self.entities.base)

        def secret(name: str) -> str | None:
            match = known.get(name)
            value = match if isinstance(match, str) else environment.get(name)
            learn_secret(value or "")
            return value

        return secret

    def rows(self, key: str, place: Place) -> Rows:
        """Return the rows of a dataset."""
        if key in self._open:
            names = " needs ".join((*self._open, key))
            raise TaskFileError([Problem(f"circular datasets: {names}", place)])
        entity = self.entity("dataset", key, place)
        inner = replace(self, _open=(*self._open, key))

        def generate(source: GeneratedSource) -> Rows:
            generator = self.entity("generator", source.generator, source.place)
            file = self.with_code_rules(generator.file)
            return generate_rows(source, file, self.secret_of(generator), inner.rows)

        base = Path(self.options.base) if self.options.base else Path.cwd()
        loading = Loading(generate, base, self.options.typed_csv)
        return dataset_rows(entity, loading)


@dataclass(slots=True, kw_only=True)
class TaskModels:
    """Key → client of a model.

    ``--model`` replaces the tested model of a file. The session's judge replaces any
    other model that no file describes and, if set, models of providers.
    """

    suite: EntitySuite
    tested: str  # key of the tested model; empty if no file names it
    place: Place
    temperature: float = 0.0  # of models that do not set one
    sources: dict[str, ModelSource] = field(default_factory=dict)
    """``Ask.model`` → source of the model, for each model that was requested."""

    def client(self, key: str) -> ModelClient:
        """Return the client of a model; an empty key is the tested model. Raises
        ``TaskFileError`` if its file is invalid."""
        options = self.suite.options
        client = ModelClient(
            temperature=self.temperature, gen_kwargs=options.gen_kwargs
        )
        if not key and (options.has_model or not self.tested):
            return client
        name = key or self.tested
        model = self.suite.model(name, self.place)
        if model is None and not key:
            return client
        if model is None or (key and not model.native and options.has_judge):
            self.sources[name] = JUDGE
            return ModelClient(name=name)
        self.sources[name] = model.source
        return replace(
            ModelClient() if key else client,
            name=name,
            native=model.native,
            takes_sample=model.takes_sample,
        )
