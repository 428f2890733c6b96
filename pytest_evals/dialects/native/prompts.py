"""Prompts of evals in YAML: templates over a row, in messages and their parts, and
variants: ``variants: {short: "…", long: "…"}`` instead of ``prompt``. Each becomes a
task, with the same rows, scorers and gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pytest_evals.core.content_parts import PlacedFile, split_content
from pytest_evals.core.node_names import is_node_name, unfit_id
from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import DocumentError, Place, Problem
from pytest_evals.prompts.fields import (
    Field,
    Reader,
    bind,
    bind_value,
    compile_template,
    template_warnings,
    text_itself,
)
from pytest_evals.prompts.text_values import text_fault

_ROLES = ("assistant", "system", "user")


class PromptReader:
    """Reads the prompt and other templates of a file; problems are added to its
    section."""

    def __init__(self, top: Section, *, is_text: bool) -> None:
        """Create a reader. ``is_text``: whether all values of rows are text, but for
        nested ones."""
        self._top, self._is_text = top, is_text
        self.warnings: list[str] = []
        """Warnings about templates."""
        self.has_files = False
        """Whether messages have images or text files; known once they are read."""
        self.shows_images = False
        """Whether messages have images."""

    def template(
        self, key: str, spec: Any = None, place: Place | None = None
    ) -> Reader:
        """Return a reader of the value of a key, which is a template or a column.
        ``spec``: the template; by default the value of the key."""
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
        self.warnings += template_warnings(field)
        template = compile_template(text)

        def checked(row: Mapping[str, Any]) -> Any:
            is_template = text not in row
            if is_template and self._is_text:
                fault = text_fault(text, row)
                if fault is not None:
                    raise FieldError(f"{key}: {fault.message}", field.place, fault.fix)
            found = read(row)
            if is_template and isinstance(found, str):
                for name in template.nulls(row, found):
                    message = f"{key}: {name} is missing or null"
                    fix = f"set it, or write {{{{ {name} or '' }}}}"
                    error = FieldError(message, field.place, fix)
                    error.column = name
                    raise error
            return found

        return checked

    def prompt(self) -> Reader:
        """Return a reader of the prompt: text, or messages with text or parts."""
        top = self._top
        given = top.raw("prompt")
        if isinstance(given, str) and given:
            return self.template("prompt")
        if isinstance(given, list) and given:
            return self._messages(given)
        message = "prompt must be text or a list of messages"
        top.problem("prompt", message, 'prompt: "Question: {{question}}"')
        return lambda row: ""

    def turns(self) -> Reader:
        """Return a reader of the turns of a conversation: a column, a template of a
        list, or a list of turns whose texts are templates."""
        top = self._top
        given = top.raw("turns")
        if isinstance(given, str) and given:
            field = Field(key="turns", spec=given, place=top.text_place("turns"))
            with top.collecting("turns"):
                return bind_value(field)
            return lambda row: ()
        if not isinstance(given, list) or not given:
            message = "turns must be a column, or a list of messages of the user"
            top.problem("turns", message, 'turns: "{{questions}}"')
            return lambda row: ()
        readers = [self._turn(one, number) for number, one in enumerate(given)]
        return lambda row: [read(row) for read in readers]

    def _turn(self, given: Any, number: int) -> Reader:
        """The turn of a row, whose text and target are templates."""
        place = self._top.file.place("turns", number)
        if isinstance(given, str):
            return self.template("turns", given, place)
        if not isinstance(given, Mapping):
            return lambda row: given  # an error of the case
        read = {
            name: self.template("turns", one, place)
            for name, one in given.items()
            if name in ("user", "target") and isinstance(one, str)
        }
        if isinstance(given.get("user"), list):
            read["user"] = self._parts_of("turns", given["user"], number, "user")
        return lambda row: {**given, **{name: one(row) for name, one in read.items()}}

    def see_turns(self, rows: Iterable[Any]) -> None:
        """Note files in the turns of rows, which are not checked yet."""
        for row in rows:
            turns = row.get("turns") if isinstance(row, Mapping) else None
            for turn in turns if isinstance(turns, list) else ():
                user = turn.get("user") if isinstance(turn, Mapping) else None
                if isinstance(user, list):
                    with suppress(DocumentError):  # an error of the case
                        self._see(split_content(user, 0)[1])

    def _see(self, files: Sequence[PlacedFile]) -> None:
        self.has_files |= bool(files)
        self.shows_images |= any(one.kind == "image" for one in files)

    def _messages(self, given: Sequence[Any]) -> Reader:
        readers: list[tuple[str, Reader]] = []
        for number, one in enumerate(given):
            place = self._top.file.place("prompt", number)
            role = one.get("role") if isinstance(one, Mapping) else None
            content = one.get("content") if isinstance(one, Mapping) else None
            known = isinstance(one, Mapping) and set(one) == {"role", "content"}
            is_content = isinstance(content, str | list) and bool(content)
            if not known or role not in _ROLES or not is_content:
                message = "a message needs role (system, user or assistant) and content"
                fix = '- {role: user, content: "{{question}}"}'
                self._top.problems.append(Problem(f"prompt: {message}", place, fix))
            elif isinstance(content, list):
                readers.append(
                    (str(role), self._parts_of("prompt", content, number, "content"))
                )
            else:
                readers.append((str(role), self.template("prompt", content, place)))
        return lambda row: [
            {"role": role, "content": read(row)} for role, read in readers
        ]

    def _parts_of(self, key: str, content: Sequence[Any], *steps: int | str) -> Reader:
        """The parts of a message, whose texts, paths and URLs are templates. ``steps``:
        from the key to the content."""
        readers: list[Callable[[Mapping[str, Any]], Any]] = []
        for n, part in enumerate(content):
            place = self._top.file.place(key, *steps, n)
            try:
                self._see(split_content([part], 0)[1])
            except DocumentError as error:
                self._top.problems.append(Problem(f"{key}: {error}", place))
                continue
            readers.append(self._part_reader(key, part, place))
        return lambda row: [read(row) for read in readers]

    def _part_reader(self, key: str, part: Any, place: Place) -> Reader:
        if isinstance(part, str):
            return self.template(key, part, place)
        if isinstance(part, Mapping):
            items = part.items()
            read = {name: self._part_reader(key, one, place) for name, one in items}
            return lambda row: {name: one(row) for name, one in read.items()}
        return lambda row: part


VARIANTS = "variants"
_FIX = 'variants: {short: "{{question}}", long: "Question: {{question}}"}'
_LONGEST = 64  # maximum characters of a name, which is in the id of each document


def variants_of(top: Section) -> Iterator[tuple[str, Section]]:
    """Yield the name of each variant, and the eval with its prompt; without variants,
    the eval itself under an empty name. Problems are added to the section."""
    if VARIANTS not in top:
        yield "", top
        return
    given = top.take(VARIANTS, dict, {})
    if not given and not top.problems:
        top.problem(VARIANTS, "variants is empty", _FIX)
    for key in ("prompt", "turns"):
        if key in top:
            fix = "make it one of the variants"
            top.problem(key, f"{key} and variants are both set", fix)
            return
    for name, prompt in given.items():
        fault = _fault(name)
        if not fault and not (prompt and isinstance(prompt, str | list)):
            fault = f"{name} must be text or a list of messages"
        if fault:
            place = top.file.place(VARIANTS, name)
            top.problems.append(Problem(f"variants: {fault}", place, _FIX))
            continue
        yield str(name), Section(_file_of(top, name), top.problems)


def _fault(name: object) -> str:
    if not isinstance(name, str):
        return f"a variant's name must be text, not {name!r}"
    is_fit = is_node_name(name) and unfit_id([name]) is None
    if not is_fit or not name.strip() or len(name) > _LONGEST or "/" in name:
        return f"{name!r} is not a valid name: use letters, digits and dashes"
    return ""


def _file_of(top: Section, name: str) -> YamlFile:
    """Return the file as if it had this variant as its prompt."""
    file, start = top.file, (VARIANTS, name)
    values = {key: one for key, one in file.values.items() if key != VARIANTS}
    values["prompt"] = file.values[VARIANTS][name]
    if (text := file.written(file.values[VARIANTS]).get(name)) is not None:
        values["prompt"] = text
    unquoted = {**file.unquoted, id(values): (values, file.written(file.values))}
    return replace(
        file,
        values=values,
        lines=_moved(file.lines, start),
        texts=_moved(file.texts, start),
        unquoted=unquoted,
    )


def _moved(
    places: Mapping[tuple[Step, ...], Place], start: tuple[Step, ...]
) -> dict[tuple[Step, ...], Place]:
    """Return the places with those of a variant as those of the prompt."""
    n = len(start)
    moved = {
        ("prompt", *steps[n:]): place
        for steps, place in places.items()
        if steps[:n] == start
    }
    return {**places, **moved}
