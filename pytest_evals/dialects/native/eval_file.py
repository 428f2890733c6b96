"""Evals as YAML files: ``prompt`` with ``rows`` or ``dataset``, and ``score``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pytest_evals.core.case import Case, UserRole
from pytest_evals.core.dialogue import USER
from pytest_evals.core.reasoning import REFUSALS as WAYS
from pytest_evals.core.task import MOST_REPEATS, Task, TaskOptions
from pytest_evals.data.calls import FieldError, collecting
from pytest_evals.data.source_paths import RowPlaces
from pytest_evals.dialects.gates_section.entries import (
    GATE_FIXES,
    metadata_warnings,
    own_gates,
)
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.metadata_keys import (
    CHOICES,
    REFUSALS,
    refusals_fault,
    without_own,
)
from pytest_evals.dialects.native.cases import (
    MOST_ROWS,
    EvalCases,
    case_folders,
    checked_first,
)
from pytest_evals.dialects.native.choices import UNUSED, bind_choices, check_way
from pytest_evals.dialects.native.conversations import UserSimulator, simulator_of
from pytest_evals.dialects.native.data_keys import TURNS, DataKeys
from pytest_evals.dialects.native.labels import with_labels
from pytest_evals.dialects.native.own_model import read_model
from pytest_evals.dialects.native.parts import (
    YAML,
    EvalParts,
    Scorer,
    remedies,
    sampling_of,
)
from pytest_evals.dialects.native.prompts import VARIANTS, PromptReader, variants_of
from pytest_evals.dialects.native.scorers import SCORERS, as_written, scorer_of_entry
from pytest_evals.dialects.native.task import eval_task
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import (
    DocumentError,
    Place,
    Problem,
    TaskFileError,
    unknown_name,
)
from pytest_evals.prompts.case_files import CaseFileError
from pytest_evals.prompts.fields import Reader, Row
from pytest_evals.prompts.generation import Sampling, SamplingResult
from pytest_evals.prompts.tools import tools_reader
from pytest_evals.scorers.extract import extraction_of

T = TypeVar("T")
_FIXES = {
    **GATE_FIXES,
    **{
        key: f"move it below generation: generation: {{{key}: …}}"
        for key in ("max_new_tokens", "max_tokens", "seed", "stop", "temperature")
    },
    "limit": "run with --evals-limit=N",
    "timeout": "set it for the model: --model=KIND:NAME,timeout=SECONDS",
    **{name: f"move it below score: score: {{{name}: …}}" for name in SCORERS},
    **dict.fromkeys(("assert", "metric", "metrics", "scorers"), "score: [exact]"),
    **dict.fromkeys(("answer", "expected", "expected_output"), "target: COLUMN"),
}
"""Keys that users expect, and that an eval has under another name or elsewhere."""
_RENAMED = {"choices": "choices_from", "choices_by": "choices"}
"""Keys whose names differ in results files."""
_NULLS = ("", "~", "null")
"""Texts of values that are missing, for values that cannot be text."""


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task, ...]:
    """The eval of a file, if the options select it: a task for each variant. Raises
    TaskFileError with all problems of the file. Raises OptionError if a generation
    argument of the command line is invalid."""
    file = read_yaml(path)
    problems: list[Problem] = []
    top = Section(file, problems)
    name = top.name("task") or path.stem
    tags = _tags(top)
    if not options.takes([name, *tags]):
        return ()
    found = []
    for variant, one in variants_of(top):
        named = f"{name}[{variant}]" if variant else name
        parts = _Reader(one, options).parts(named, tags)
        one.raw("tags"), one.raw("task")
        one.close("an eval", _FIXES)
        if parts is not None:
            found.append(replace(eval_task(parts, options), variant=variant))
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    return tuple(found)


def _tags(top: Section) -> tuple[str, ...]:
    given = top.raw("tags")
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(one, str) and one for one in listed):
        top.problem("tags", "tags must be a list of texts", "tags: [smoke]")
        return ()
    return tuple(listed)


class _Reader:
    def __init__(self, top: Section, options: TaskOptions) -> None:
        self._top, self._options = top, options
        self._data = DataKeys(top, options)
        self._prompts = PromptReader(top, is_text=self._data.is_text)
        self._folders = case_folders(top.file.path, options, self._data.path)
        self._places = {USER: top.text_place(USER)}
        self._user = self._read(USER, simulator_of) if USER in top else None
        self._tools = self._read_tools()

    def parts(self, name: str, tags: tuple[str, ...]) -> EvalParts | None:
        """The parts of the eval; ``None`` if problems were found."""
        top = self._top
        place = top.place(next((k for k in ("prompt", TURNS) if k in top), None))
        row_place = self._data.row_places()
        load = self._cases(place, row_place)
        choices_by = self._choices_by()
        scorers = [] if choices_by is not None else self._scorers()
        sampling, version = self._sampling(), top.raw("version")
        top.text("description")
        metadata = top.take("metadata", dict, {})
        parts = EvalParts(
            name=name,
            source=top.place("task") if "task" in top else place,
            load=load,
            scorers=scorers,
            choices_by=choices_by,
            sampling=sampling.sampling,
            is_text=self._data.is_text,
            places=self._places,
            row_place=row_place,
            repeats=top.whole("repeats", 1, 1, MOST_REPEATS),
            refusals=self._refusals(),
            extract=self._read("extract", extraction_of),
            tools=self._tools,
            traces=top.take("traces", bool, False),
            has_turns="prompt" not in top,
            shows_images=self._prompts.shows_images,
            user=self._user,
            model=read_model(top),
            system=top.text("system"),
            gates=own_gates(top, name, metadata, "eval"),
            tags=tags,
            version=version if isinstance(version, str | int | float) else None,
            config=self._config(metadata, version),
            remedies=remedies(scorers, YAML),
            warnings=(
                *top.file.warnings,
                *sampling.warnings,
                *self._data.warnings,
                *self._prompts.warnings,
                *metadata_warnings(top),
            ),
        )
        return None if top.problems else parts

    def _config(self, metadata: Mapping[str, Any], version: Any) -> dict[str, Any]:
        """The keys of the file, but for its rows, for results files."""
        values = self._top.values.items()
        hidden = ("rows", VARIANTS)
        keys = {_RENAMED.get(k, k): as_json(v) for k, v in values if k not in hidden}
        given = {**as_json(without_own(metadata)), "version": version}
        return {**keys, "metadata": given}

    def _refusals(self) -> str:
        top = self._top
        given = top.raw("refusals") if "refusals" in top else WAYS[0]
        if fault := refusals_fault(given):
            top.problem("refusals", f"refusals: {fault}", "refusals: answer")
        if REFUSALS in top.take("metadata", dict, {}):  # lm-eval's place
            message = "metadata: refusals has no effect in an eval"
            top.problem("metadata", message, "refusals: answer")
        return str(given)

    def _read_tools(self) -> Callable[[Row], str] | None:
        top = self._top
        with top.collecting("tools"):
            if "tools" in top:
                return tools_reader(top.raw("tools"), top.text_place("tools"))
        return None

    def _read(self, key: str, read: Callable[[Any], T]) -> T | None:
        """A key by a function that raises ``EvalsError`` for an invalid value."""
        with self._top.collecting(key):
            return read(self._top.raw(key))
        return None

    def _role(self, user: UserSimulator, row: Mapping[str, Any]) -> UserRole:
        try:
            return user.role(row.get(USER), row)
        except DocumentError as error:
            raise FieldError(str(error), self._top.text_place(USER)) from None

    # --- cases ---

    def _cases(
        self, place: Place, row_place: RowPlaces | None
    ) -> Callable[[], EvalCases]:
        """A function that reads the cases and renders the first ones, with their tools.
        ``place``: that of the prompt."""
        top, has_rows = self._top, "rows" in self._top
        build = self._case_builder()
        source = self._data.source()
        id_column = top.text("id")

        def with_tools(case: Case) -> Case:
            if self._tools is not None:
                self._tools(case.row)
            return case

        def cases() -> EvalCases:
            table = source()
            if id_column and id_column not in table.columns:
                message = f"id: {unknown_name('column', id_column, table.columns)}"
                raise TaskFileError([Problem(message, top.place("id"))])
            found = EvalCases(table, build, id_column)
            n = 1 if row_place is None else min(len(table), MOST_ROWS)
            n = len(table) if has_rows or self._prompts.has_files else n
            checked_first(
                found.mapped(with_tools), place, n, row_place, is_data=not has_rows
            )
            return found

        return cases

    def _case_builder(self) -> Callable[[int, Mapping[str, Any]], Case]:
        top = self._top
        user = self._user
        prompt: Reader = _no_prompt
        if "prompt" in top:
            prompt = self._prompts.prompt()
        elif user is not None or TURNS in top:
            prompt = _nothing
        turns = self._turns()
        target = self._target() if "target" in top else None
        choices = self._choices() if "choices" in top else None

        def build(index: int, row: Mapping[str, Any]) -> Case:
            text = prompt(row)
            value = target(row) if target is not None else row.get("target")
            said = turns(row)
            role = None if user is None else self._role(user, row)
            listed = None if choices is None else choices(row)
            if choices is not None and listed in (None, *_NULLS):
                listed = []
            try:
                return self._folders.case(
                    Case(
                        prompt=text,
                        target=value,
                        row=row,
                        choices=listed,
                        turns=said,
                        user=role,
                    )
                )
            except CaseFileError:
                raise
            except DocumentError as error:
                steps = ("rows", index) if "rows" in top else (key,)
                raise FieldError(str(error), top.file.place(*steps)) from None

        key = next((one for one in ("prompt", TURNS) if one in top), "rows")
        key = key if choices is None else "choices"
        return build

    def _turns(self) -> Reader:
        top = self._top
        if TURNS not in top:
            rows = top.values.get("rows")
            self._prompts.see_turns(rows if isinstance(rows, list) else [])
            is_column = "prompt" not in top
            return lambda row: (row.get(TURNS) or ()) if is_column else ()
        if "prompt" in top:
            message = "turns and prompt are both set"
            top.problem(TURNS, message, "remove prompt, or make it the first turn")
        return self._prompts.turns()

    def _target(self) -> Reader:
        """The target: a column, a template or a constant, which is text as written. A
        template of one list is that list."""
        top = self._top
        text = top.file.written(top.values).get("target")
        given = as_written(top.raw("target"), text, top.file.written)
        return self._prompts.template("target", given)

    def _choices(self) -> Reader:
        top = self._top
        given = as_written(top.raw("choices"), None, top.file.written)
        with top.collecting("choices"):
            return bind_choices(given, top.text_place("choices"))
        return lambda row: None

    def _choices_by(self) -> str | None:
        """How choices are answered; ``None`` without choices."""
        top = self._top
        way, has_choices = top.text("choices_by"), "choices" in top
        with top.collecting("choices_by"):
            check_way(way, has_choices=has_choices)
        metadata = top.values.get("metadata")
        if isinstance(metadata, Mapping) and CHOICES in metadata:  # lm-eval's place
            message = f"metadata: {CHOICES} has no effect in an eval"
            top.problem("metadata", message, f"choices_by: {metadata[CHOICES]}")
        for key, fix in UNUSED.items():
            if has_choices and key in top:
                top.raw(key)
                top.problem(key, f"{key} has no effect on choices", fix)
        return way if has_choices else None

    # --- scores ---

    def _scorers(self) -> list[Scorer]:
        top = self._top
        given = top.raw("score")
        listed = given if isinstance(given, list) else [given or "exact"]
        if given is None and "target" not in top and not self._data.has_target:
            top.problem(
                None, "score is missing, and there is no target", "score: exact"
            )
        found: list[Scorer] = []
        for number, one in enumerate(listed):
            steps = ("score", number) if isinstance(given, list) else ("score",)
            place = top.file.place(*steps)
            with collecting(top.problems, place):
                folder, written = top.file.path.parent, top.file.written
                scorer = scorer_of_entry(one, folder, written)
                scorer = with_labels(scorer, place)
                if scorer.name in [other.name for other in found]:
                    message = f"two scorers are called {scorer.name!r}"
                    fix = "give one of them a name: "
                    fix += "{contains: {text: hello, name: greets}}"
                    top.problems.append(Problem(message, place, fix))
                self._places.setdefault(scorer.name, place)
                found.append(scorer)
        return found

    def _sampling(self) -> SamplingResult:
        given = self._top.take("generation", dict, {})
        with self._top.collecting("generation", "generation: "):
            return sampling_of(given, self._options)
        return SamplingResult(Sampling(), ())


def _nothing(row: Mapping[str, Any]) -> Any:
    return ()


def _no_prompt(row: Mapping[str, Any]) -> Any:
    if not row.get(TURNS):
        raise DocumentError(
            "the row has no turns, and the eval has no prompt\n"
            '  fix: add prompt: "{{question}}", or turns to the row'
        )
    return ()
