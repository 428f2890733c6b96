"""Evals as YAML files: ``prompt`` with ``rows`` or ``dataset``, and ``score``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.reasoning import REFUSALS as WAYS
from pytest_evals.core.request import Message
from pytest_evals.core.task import MOST_REPEATS, Task, TaskOptions
from pytest_evals.data.calls import FieldError
from pytest_evals.data.line_places import row_place
from pytest_evals.data.rows import EncodingError, RowsError, Table
from pytest_evals.data.sources import Source, load, not_utf8
from pytest_evals.dialects.gates_section.entries import metadata_warnings, own_gates
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
    RowPlace,
    checked_first,
)
from pytest_evals.dialects.native.choices import UNUSED, bind_choices, check_way
from pytest_evals.dialects.native.labels import with_labels
from pytest_evals.dialects.native.own_model import read_model
from pytest_evals.dialects.native.remedies import YAML, remedies
from pytest_evals.dialects.native.scorers import as_written, scorer_of_entry
from pytest_evals.dialects.native.task import (
    EvalParts,
    Scorer,
    eval_task,
    sampling_of,
)
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import read_yaml
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    Place,
    Problem,
    TaskFileError,
    suggestion,
    unknown_name,
)
from pytest_evals.prompts.fields import (
    Field,
    Reader,
    bind,
    bind_value,
    comment_warnings,
    compile_template,
    text_itself,
)
from pytest_evals.prompts.generation import Sampling
from pytest_evals.prompts.text_values import text_fault
from pytest_evals.prompts.tools import tools_text
from pytest_evals.scorers.extract import Extraction, extraction_of
from pytest_evals.scorers.rubric import RubricScorer

_BUILDERS = {
    ".arrow": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".parquet": "parquet",
    ".tsv": "csv",
}
_RENAMED = {"choices": "choices_from", "choices_by": "choices"}
"""Keys whose names differ in results files."""
_ROLES = ("assistant", "system", "user")
_NULLS = ("", "~", "null")
"""Texts of values that are missing, for values that cannot be text."""
TURNS = "turns"
"""Column with the turns of a conversation."""
_COMPRESSED = (".bz2", ".gz", ".xz")
_DATASET_KEYS = ("delimiter", "name", "path", "revision", "split")
_OTHER_FORMATS = (".ods", ".txt", ".xls", ".xlsx", ".xml", ".yaml", ".yml")
"""Suffixes of tables that are not read, and cannot end the name of a dataset."""


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task, ...]:
    """The eval of a file, if the options select it.

    Raises:
        TaskFileError: With all problems of the file.
        OptionError: A generation argument of the command line is invalid.
    """
    file = read_yaml(path)
    problems: list[Problem] = []
    top = Section(file, problems)
    name = top.name("task") or path.stem
    tags = _tags(top)
    if not options.takes([name, *tags]):
        return ()
    parts = _Reader(top, options).parts(name, tags)
    top.close("an eval")
    if problems or parts is None:
        raise TaskFileError(dict.fromkeys(problems))
    return (eval_task(parts, options),)


def _tags(top: Section) -> tuple[str, ...]:
    given = top.raw("tags")
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(one, str) and one for one in listed):
        top.problem("tags", "tags must be a list of texts", "tags: [smoke]")
        return ()
    return tuple(listed)


class _Reader:
    """Reads the keys of one file; problems are collected in its section."""

    def __init__(self, top: Section, options: TaskOptions) -> None:
        self._top, self._options = top, options
        path = _dataset_path(top)
        self._is_text = "rows" in top or _format(path) in (".csv", ".tsv")
        """Whether all values of rows are text, but for nested ones."""
        self._nulls: Sequence[str] = ()
        self._comments: list[str] = []

    def parts(self, name: str, tags: tuple[str, ...]) -> EvalParts | None:
        """The parts of the eval; ``None`` if problems were found."""
        top = self._top
        build = self._case_builder()
        source = self._source()
        id_column = top.text("id")
        choices_by = self._choices_by()
        self._places: dict[str, Place] = {}
        scorers = [] if choices_by is not None else self._scorers()
        sampling, warnings = self._sampling()
        version = top.raw("version")
        top.text("description")
        metadata = top.take("metadata", dict, {})
        repeats = top.whole("repeats", 1, 1, MOST_REPEATS)
        refusals = self._refusals()
        extract = self._extract()
        tools = self._tools() if "tools" in top else None
        model = read_model(top)
        system = top.text("system")
        gates = own_gates(top, name, metadata, "eval")
        if top.problems:
            return None
        place = top.place("prompt" if "prompt" in top else None)
        row_place = self._row_place()

        def cases() -> EvalCases:
            table = source()
            if id_column and id_column not in table.columns:
                what = f"id: {unknown_name('column', id_column, table.columns)}"
                raise TaskFileError([Problem(what, top.place("id"))])
            found = EvalCases(table, build, id_column)
            n = len(table) if "rows" in top else 1
            if row_place is not None and "rows" not in top:
                n = min(len(table), MOST_ROWS)
            checked_first(found, place, n, row_place, is_data="rows" not in top)
            return found

        return EvalParts(
            name=name,
            source=top.place("task") if "task" in top else place,
            load=cases,
            scorers=scorers,
            choices_by=choices_by,
            sampling=sampling,
            is_text=self._is_text,
            places=self._places,
            row_place=row_place,
            repeats=repeats,
            refusals=refusals,
            extract=extract,
            tools=tools,
            has_turns="prompt" not in top,
            system=system,
            model=model,
            gates=gates,
            tags=tags,
            version=version if isinstance(version, str | int | float) else None,
            config={
                **{
                    _RENAMED.get(key, key): as_json(value)
                    for key, value in top.values.items()
                    if key != "rows"
                },
                "metadata": {**as_json(without_own(metadata)), "version": version},
            },
            remedies=remedies(scorers, YAML),
            warnings=(
                *top.file.warnings,
                *warnings,
                *self._nulls,
                *self._comments,
                *metadata_warnings(top),
            ),
        )

    def _refusals(self) -> str:
        top = self._top
        given = top.raw("refusals") if "refusals" in top else WAYS[0]
        if fault := refusals_fault(given):
            top.problem("refusals", f"refusals: {fault}", "refusals: answer")
        if REFUSALS in top.take("metadata", dict, {}):  # lm-eval's place
            what = "metadata: refusals has no effect in an eval"
            top.problem("metadata", what, "refusals: answer")
        return str(given)

    def _tools(self) -> Reader:
        """The tools of a row: a list, or a template of one."""
        top = self._top
        given = top.raw("tools")
        if isinstance(given, str):
            field = Field(key="tools", spec=given, place=top.text_place("tools"))
            try:
                return bind_value(field)
            except FieldError as error:
                top.problems.append(error.problem)
        try:
            tools_text(given)
        except DocumentError as error:
            top.problem("tools", str(error))
        return lambda row: given

    def _extract(self) -> Extraction | None:
        given = self._top.raw("extract")
        try:
            return extraction_of(given)
        except EvalsError as error:
            self._top.problem("extract", str(error))
            return None

    # --- cases ---

    def _case_builder(self) -> Callable[[int, Mapping[str, Any]], Case]:
        top = self._top
        prompt = self._prompt() if "prompt" in top else _no_prompt
        target = self._target() if "target" in top else None
        choices = self._choices() if "choices" in top else None

        def build(index: int, row: Mapping[str, Any]) -> Case:
            text = prompt(row)
            value = target(row) if target is not None else row.get("target")
            turns = () if "prompt" in top else row[TURNS]
            listed = None if choices is None else choices(row)
            if choices is not None and listed in (None, *_NULLS):
                listed = []
            try:
                return Case(
                    prompt=text, target=value, row=row, choices=listed, turns=turns
                )
            except DocumentError as error:
                steps = ("rows", index) if "rows" in top else (key,)
                raise FieldError(str(error), top.file.place(*steps)) from None

        key = "prompt" if "prompt" in top else "rows"
        key = key if choices is None else "choices"
        return build

    def _target(self) -> Reader:
        """The target: a column, a template or a constant, which is text as written. A
        template of one list is that list."""
        top = self._top
        text = top.file.written(top.values).get("target")
        given = as_written(top.raw("target"), text, top.file.written)
        return self._reader("target", given)

    def _choices(self) -> Reader:
        top = self._top
        given = as_written(top.raw("choices"), None, top.file.written)
        try:
            return bind_choices(given, top.text_place("choices"))
        except FieldError as error:
            top.problems.append(error.problem)
            return lambda row: None

    def _choices_by(self) -> str | None:
        """How choices are answered; ``None`` without choices."""
        top = self._top
        way, has_choices = top.text("choices_by"), "choices" in top
        try:
            check_way(way, has_choices=has_choices)
        except EvalsError as error:
            top.problem("choices_by", str(error))
        metadata = top.values.get("metadata")
        if isinstance(metadata, Mapping) and CHOICES in metadata:  # lm-eval's place
            what = f"metadata: {CHOICES} has no effect in an eval"
            top.problem("metadata", what, f"choices_by: {metadata[CHOICES]}")
        for key, fix in UNUSED.items():
            if has_choices and key in top:
                top.raw(key)
                top.problem(key, f"{key} has no effect on choices", fix)
        return way if has_choices else None

    def _reader(self, key: str, spec: Any = None, place: Place | None = None) -> Reader:
        top = self._top
        field = Field(
            key=key,
            spec=top.raw(key) if spec is None else spec,
            place=place or top.text_place(key),
        )
        try:
            is_target = key == "target"
            read = bind_value(field) if is_target else bind(field, None, text_itself)
        except FieldError as error:
            top.problems.append(error.problem)
            return lambda row: ""
        text = field.spec
        if not isinstance(text, str):
            return read
        self._comments += comment_warnings(field)
        template = compile_template(text)

        def checked(row: Mapping[str, Any]) -> Any:
            is_template = text not in row
            if is_template and self._is_text:
                fault = text_fault(text, row)
                if fault is not None:
                    raise FieldError(f"{key}: {fault.what}", field.place, fault.fix)
            found = read(row)
            if is_template and isinstance(found, str):
                for name in template.nulls(row, found):
                    what = f"{key}: {name} is missing or null"
                    fix = f"set it, or write {{{{ {name} or '' }}}}"
                    error = FieldError(what, field.place, fix)
                    error.column = name
                    raise error
            return found

        return checked

    def _prompt(self) -> Reader:
        top = self._top
        given = top.raw("prompt")
        if isinstance(given, str) and given:
            return self._reader("prompt")
        if isinstance(given, list) and given:
            return self._messages(given)
        what = "prompt must be text or a list of messages"
        top.problem("prompt", what, 'prompt: "Question: {{question}}"')
        return lambda row: ""

    def _messages(self, given: Sequence[Any]) -> Reader:
        readers: list[tuple[str, Reader]] = []
        for number, one in enumerate(given):
            place = self._top.file.place("prompt", number)
            role = one.get("role") if isinstance(one, Mapping) else None
            content = one.get("content") if isinstance(one, Mapping) else None
            known = isinstance(one, Mapping) and set(one) == {"role", "content"}
            if not known or role not in _ROLES or not isinstance(content, str):
                what = "a message needs role (system, user or assistant) and content"
                fix = '- {role: user, content: "{{question}}"}'
                self._top.problems.append(Problem(f"prompt: {what}", place, fix))
                continue
            readers.append((str(role), self._reader("prompt", content, place)))
        return lambda row: tuple(
            Message(role, read(row))  # type: ignore[arg-type]
            for role, read in readers
        )

    # --- data ---

    def _row_place(self) -> RowPlace | None:
        """Where the rows are; ``None`` if they are not in a text file."""
        top = self._top
        if "rows" in top:
            return lambda number: top.file.place("rows", number)
        if _BUILDERS.get(_format(path := _dataset_path(top))) not in ("csv", "json"):
            return None
        base = Path(self._options.base or Path.cwd())
        files = [folder / path for folder in (top.file.path.parent, base)]
        file = next((one for one in files if one.is_file()), files[0])
        return lambda number: row_place(file, number)

    def _source(self) -> Callable[[], Table]:
        top = self._top
        if "rows" in top and "dataset" in top:
            top.raw("rows"), top.raw("dataset")
            top.problem(
                "dataset", "rows and dataset are both set", "remove one of them"
            )
        if "dataset" in top and "rows" not in top:
            return self._dataset()
        if isinstance(top.values.get("rows"), str):
            file = top.text("rows")
            what = f"rows must be a list, not {file!r}"
            top.problem("rows", what, f"dataset: {file}")
            return lambda: Table([])
        rows = top.take("rows", list, [])
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or not all(isinstance(k, str) for k in row):
                what = "a row must be a mapping of names to values"
                fix = '- {question: "2 + 2", target: "4"}'
                place = top.file.place("rows", number)
                top.problems.append(Problem(what, place, fix))
                return lambda: Table([])
        if not rows and not top.problems:
            top.problem("rows", "rows is empty", 'rows: [{question: "2 + 2"}]')
        self._nulls = [*self._written_nulls(rows)]
        rows = [{**row, **top.file.written(row)} for row in rows]
        self._check_turns(rows)
        if any("id" in row for row in rows):  # the others are called by position
            rows = [{"id": number, **row} for number, row in enumerate(rows)]
        return lambda: Table(rows)

    def _check_turns(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuse turns that are not sent, since the eval has a prompt."""
        top = self._top
        if "prompt" not in top or TURNS in str(top.values["prompt"]):
            return
        for number, row in enumerate(rows):
            if isinstance(row.get(TURNS), list):
                what = (
                    "the row has turns, and the eval has a prompt, so they are not sent"
                )
                fix = "remove prompt, or make it the first turn"
                place = top.file.place("rows", number, TURNS)
                top.problems.append(Problem(what, place, fix))
                return

    def _written_nulls(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a warning for the first ``null`` or ``~`` of each column, which is that
        text."""
        columns = set[str]()
        for number, row in enumerate(rows):
            for name, text in self._top.file.written(row).items():
                if row[name] is None and text and name not in columns:
                    columns.add(name)
                    place = self._top.file.place("rows", number, name)
                    yield (
                        f"{place}: {name!r} is the text {text!r}, not a missing value; "
                        f'leave it empty, or quote it: "{text}"'
                    )

    def _dataset(self) -> Callable[[], Table]:
        """Rows of a file next to the eval, or of a dataset of the Hub."""
        top = self._top
        given = top.raw("dataset")
        entry = {"path": given} if isinstance(given, str) else given
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            fix = "dataset: rows.jsonl, or dataset: {path: org/name, split: test}"
            top.problem("dataset", "dataset must name a file or a dataset", fix)
            return lambda: Table([])
        for key in set(entry) - {*_DATASET_KEYS}:
            hint = suggestion(key, _DATASET_KEYS)
            top.problem("dataset", f"dataset has no key {key!r}{hint}")
        path, split = entry["path"], entry.get("split") or "test"
        place = top.place("dataset")
        _check_format(path, top)
        builder = _BUILDERS.get(_format(path))
        arguments: dict[str, Any] = {}
        if builder:
            arguments["data_files"] = {split: path}
            if _format(path) == ".tsv":
                arguments["sep"] = "\t"
            if "delimiter" in entry:
                arguments["sep"] = str(entry["delimiter"])
        if entry.get("revision") is not None:
            arguments["revision"] = str(entry["revision"])
        options = self._options
        source = Source(
            path=builder or path,
            name=entry.get("name"),
            arguments=arguments,
            place=place,
            data_place=place,
            base=Path(options.base) if options.base else Path.cwd(),
            as_text=True,
        )
        return lambda: _table(source, str(split), place)

    # --- scores ---

    def _scorers(self) -> list[Scorer]:
        top = self._top
        given = top.raw("score")
        listed = given if isinstance(given, list) else [given or "exact"]
        if given is None and "target" not in top and not _rows_have_target(top):
            top.problem(
                None, "score is missing, and there is no target", "score: exact"
            )
        found: list[Scorer] = []
        for number, one in enumerate(listed):
            steps = ("score", number) if isinstance(given, list) else ("score",)
            place = top.file.place(*steps)
            try:
                folder, written = top.file.path.parent, top.file.written
                scorer = scorer_of_entry(one, folder, written)
                if isinstance(scorer, RubricScorer):
                    scorer = with_labels(scorer, place)
            except TaskFileError as error:
                top.problems += error.problems
                continue
            except EvalsError as error:
                top.problems.append(Problem(str(error), place))
                continue
            if scorer.name in [other.name for other in found]:
                what = f"two scorers are called {scorer.name!r}"
                fix = "give one of them a name: {contains: {text: hello, name: greets}}"
                top.problems.append(Problem(what, place, fix))
            self._places.setdefault(scorer.name, place)
            found.append(scorer)
        return found

    def _sampling(self) -> tuple[Sampling, tuple[str, ...]]:
        given = self._top.take("generation", dict, {})
        try:
            result = sampling_of(given, self._options)
        except EvalsError as error:
            self._top.problem("generation", f"generation: {error}")
            return Sampling(), ()
        return result.sampling, result.warnings


def _no_prompt(row: Mapping[str, Any]) -> Any:
    if not row.get(TURNS):
        raise DocumentError(
            "the row has no turns, and the eval has no prompt\n"
            '  fix: add prompt: "{{question}}", or turns to the row'
        )
    return ()


def _dataset_path(top: Section) -> str:
    given = top.values.get("dataset")
    path = given.get("path") if isinstance(given, Mapping) else given
    return path if isinstance(path, str) else ""


def _check_format(path: str, top: Section) -> None:
    if (suffix := _format(path)) in _OTHER_FORMATS:
        what = f"dataset: {suffix} files are not read: {path!r}"
        fix = f"save it as one of {', '.join(sorted(_BUILDERS))}"
        top.problem("dataset", what, fix)


def _format(path: str) -> str:
    """The suffix of a data file, without that of its compression."""
    suffixes = [one.lower() for one in Path(path).suffixes] or [""]
    return (
        suffixes[-2] if suffixes[-1] in _COMPRESSED and suffixes[1:] else suffixes[-1]
    )


def _rows_have_target(top: Section) -> bool:
    rows = top.values.get("rows")
    if not isinstance(rows, list):
        return True  # a dataset: its columns are known later
    return any(isinstance(row, dict) and "target" in row for row in rows)


def _table(source: Source, split: str, place: Place) -> Table:
    splits = load(source, plain=True)
    if split not in splits:
        names = [str(name) for name in splits]
        what = f"the dataset has no split {split!r}{suggestion(split, names)}"
        fix = f"set dataset: {{path: …, split: {names[0]}}}" if names else ""
        raise TaskFileError([Problem(what, place, fix)])
    try:
        return Table(splits[split])
    except EncodingError as error:
        raise not_utf8(source) from error
    except RowsError as error:
        raise TaskFileError([Problem(str(error), place)]) from error
