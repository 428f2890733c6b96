"""What the tasks of one suite share: its entities, its datasets, its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.latticeflow.adapter_file import read_adapter
from pytest_evals.dialects.latticeflow.dataset_file import (
    GeneratedSource,
    read_dataset,
)
from pytest_evals.dialects.latticeflow.entities import Entities, Entity, Kind
from pytest_evals.dialects.latticeflow.generator import generated
from pytest_evals.dialects.latticeflow.model_file import ModelFile, read_model
from pytest_evals.dialects.latticeflow.reader import Environment
from pytest_evals.dialects.latticeflow.samples import Rows, load_rows
from pytest_evals.dialects.latticeflow.substitution import Values, substituted
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import CodeRules, YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.masking.registry import learn_secret
from pytest_evals.models.latticeflow.adapters import Adapter


@dataclass(slots=True, kw_only=True)
class EntitySuite:
    """Where a file looks up what it names.

    Args:
        entities: All that there are.
        options: What the command line says.
        own: Entities that come first: those that a run file lists.
        secrets: Those of a run file.
    """

    entities: Entities
    options: TaskOptions
    own: Sequence[Entity] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    _open: tuple[str, ...] = ()

    @property
    def code(self) -> CodeRules:
        """How Python in these files is run."""
        roots = self.options.code_roots

        def may_run(path: Path) -> bool:
            real = path.resolve()
            return roots is None or any(real.is_relative_to(root) for root in roots)

        return CodeRules(seconds=self.options.call_s, may_run=may_run)

    def ruled(self, file: YamlFile) -> YamlFile:
        """A file whose Python is run by the rules of this suite."""
        return replace(file, code=self.code)

    def entity(self, kind: Kind, key: str, place: Place) -> Entity:
        """The entity of a key.

        Args:
            kind: What it should be.
            key: As in a file.
            place: Where the key stands.

        Raises:
            TaskFileError: There is none, or there are several.
        """
        found = self.entities.find(kind, key, place.path, self.own)
        if found is None:
            what = self.entities.missing(kind, key, place.path, self.own)
            raise TaskFileError([Problem(what, place)])
        return found

    def model(self, key: str, place: Place) -> ModelFile | None:
        """The model of a key, ``None`` if no file describes it.

        Raises:
            TaskFileError: Its file, or its adapter's, cannot be used.
        """
        entity = self.entities.find("model", key, place.path, self.own)
        if entity is None:
            return None
        raw = entity.file.values.get("config")
        filled = self._with_secrets(entity)

        def adapter(name: str, section: Section) -> Adapter:
            found = self.entity("adapter", name, section.place("key"))
            return read_adapter(self._with_secrets(found))

        return read_model(filled, raw if isinstance(raw, Mapping) else {}, adapter)

    def _with_secrets(self, entity: Entity) -> Entity:
        """An entity with its secrets put in.

        Raises:
            TaskFileError: One of them is not known.
        """
        problems: list[Problem] = []
        values = Values({}, self.secret_of(entity))
        filled = substituted(self.ruled(entity.file), (), values, problems)
        if problems:
            raise TaskFileError(problems)
        return replace(entity, file=filled)

    def secret_of(self, entity: Entity) -> Callable[[str], str | None]:
        """What gives the secrets of an entity: its own file, the run file, then the
        environment."""
        own = entity.file.values.get("secrets")
        known = {**self.secrets, **(own if isinstance(own, Mapping) else {})}
        environment = Environment(self.entities.base)

        def secret(name: str) -> str | None:
            found = known.get(name)
            value = found if isinstance(found, str) else environment.get(name)
            learn_secret(value or "")
            return value

        return secret

    def only(self, kind: Kind, near: Path) -> str | None:
        """The key of the only entity of a kind in a folder, ``None`` if there is none,
        or more than one."""
        found = self.entities.all(kind, near)
        return found[0].key if len(found) == 1 else None

    def rows(self, key: str, place: Place) -> Rows:
        """The rows of a dataset.

        Raises:
            TaskFileError: It does not exist, or cannot be read.
        """
        if key in self._open:
            names = " needs ".join((*self._open, key))
            raise TaskFileError([Problem(f"a circle of datasets: {names}", place)])
        dataset = read_dataset(self.entity("dataset", key, place))
        inner = replace(self, _open=(*self._open, key))

        def generate(source: GeneratedSource) -> Rows:
            entity = self.entity("generator", source.generator, source.place)
            secret = self.secret_of(entity)
            return generated(source, self.ruled(entity.file), secret, inner.rows)

        base = Path(self.options.base) if self.options.base else Path.cwd()
        return load_rows(dataset, generate, base, typed=self.options.typed_csv)
