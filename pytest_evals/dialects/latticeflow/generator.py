"""Generators: the rows of a dataset that is made from others.

Synthesizers form a chain; each makes any number of samples of one. Samples are made in
order until there are as many as the dataset asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from random import Random
from typing import Any

from pytest_evals.dialects.latticeflow.dataset_file import GeneratedSource
from pytest_evals.dialects.latticeflow.header import read_header
from pytest_evals.dialects.latticeflow.parameters import (
    Given,
    read_parameters,
    values_of,
)
from pytest_evals.dialects.latticeflow.prompts.templates import (
    SampleTemplate,
    compile_template,
)
from pytest_evals.dialects.latticeflow.samples import Rows
from pytest_evals.dialects.latticeflow.snippets.return_values import as_json
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.latticeflow.substitution import Values, substituted
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError

Row = Mapping[str, Any]
Synthesizer = Callable[[Row], Iterable[Row]]
Datasets = Callable[[str, Place], Rows]
"""Key of a dataset, and where it is named → its rows; raises ``TaskFileError``."""
ID = "sample_id"
TEXT = "text"
"""The column that a template writes, which is where upstream's synthesizers of
questions look for the text."""
_TYPE = "declarative_dataset_generator"
_REFUSED = (
    "llm",
    "question_answering",
    "claim_extraction",
    "claim_labeling",
    "link_claim_quotes",
)


def generated(
    source: GeneratedSource,
    file: YamlFile,
    secret: Callable[[str], str | None],
    datasets: Datasets,
) -> Rows:
    """The rows that a generator makes.

    Args:
        source: The dataset's entry, with the values of the generator's parameters.
        file: The generator's file.
        secret: Name of a secret of that file → its value.
        datasets: Rows of the datasets that the generator uses.

    Raises:
        TaskFileError: It cannot be used, or fails.
    """
    problems: list[Problem] = []
    definition = _definition(file, secret, source, problems)
    base = _base(definition, datasets) if definition is not None else None
    chain = _chain(definition) if definition is not None else []
    if definition is not None:
        definition.one_of("type", "generator type", (_TYPE,), _TYPE)
        definition.close("the definition of a generator")
    if problems or base is None:
        raise TaskFileError(problems)
    try:
        made = [dict(row) for row in islice(_through(chain, base()), source.n)]
    except DocumentError as error:
        what = f"the generator {source.generator!r} fails: {error}"
        raise TaskFileError([Problem(what, source.place)]) from error
    ids = {str(row.get(ID)) for row in made}
    if len(ids) < len(made):  # several were made of one, and need ids of their own
        made = [{k: v for k, v in row.items() if k != ID} for row in made]
    return made


def _definition(
    file: YamlFile,
    secret: Callable[[str], str | None],
    source: GeneratedSource,
    problems: list[Problem],
) -> Section | None:
    """The definition with its parameters filled in."""
    outer = Section(file, problems)
    read_header(outer, "a generator", ("key", "display_name", "description"))
    parameters = read_parameters(outer)
    outer.take("secrets", dict, {})
    given = {
        str(name): Given(value, source.section.place("dataset_generator_config"))
        for name, value in source.config.items()
    }
    values = values_of(parameters, given, problems, lambda _one: None)
    outer.raw("definition")
    outer.close("a generator")
    holes = Values(values, secret)
    filled = substituted(file, ("definition",), holes, problems)
    return Section(filled, problems).section("definition")


def _through(chain: Sequence[Synthesizer], rows: Iterable[Row]) -> Iterator[Row]:
    for one in chain:
        rows = _each(one, rows)
    return iter(rows)


def _each(one: Synthesizer, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        yield from one(row)


def _base(
    definition: Section, datasets: Datasets
) -> Callable[[], Iterable[Row]] | None:
    """What gives the samples at the start of the chain."""
    section = definition.section("dataset")
    if section is None:
        fix = "dataset: {type: empty}"
        definition.problem("dataset", "a generator has a dataset", fix)
        return None
    if section.values.get("type") == "task_result":
        section.problem(
            "type", "samples of task results are not there without a server"
        )
        return None
    kind = section.one_of("type", "kind of samples", tuple(_READERS), "")
    found = _READERS[kind](section, datasets) if kind else None
    if kind:
        section.close(f"a dataset of type {kind}")
    return found


def _empty(section: Section, datasets: Datasets) -> Callable[[], Iterable[Row]]:
    n = section.whole("num_samples", 1, 1)
    return lambda: [{} for _ in range(n)]


def _inline(section: Section, datasets: Datasets) -> Callable[[], Iterable[Row]]:
    samples = [entry.values for entry in section.entries("samples")]
    if not samples:
        section.problem("samples", "samples are missing", "samples: [{text: …}]")
    return lambda: samples


def _of_dataset(section: Section, datasets: Datasets) -> Callable[[], Iterable[Row]]:
    key = section.name("key")
    if key is None:
        section.problem("key", "key is missing", "key: << config.seeds >>")
    shuffled, place = _order(section), section.place("key")
    return lambda: shuffled(datasets(key or "", place))


def _combined(section: Section, datasets: Datasets) -> Callable[[], Iterable[Row]]:
    keys = section.take("keys", list, [])
    if not keys:
        section.problem("keys", "keys are missing", "keys: [<< config.a >>]")
    shuffled, place = _order(section), section.place("keys")

    def rows() -> Iterable[Row]:
        return shuffled(list(_evenly([datasets(str(key), place) for key in keys])))

    return rows


_READERS: Mapping[str, Callable[[Section, Datasets], Any]] = {
    "empty": _empty,
    "inline_samples": _inline,
    "dataset_samples": _of_dataset,
    "dataset_sample_combinations": _combined,
}


def _order(section: Section) -> Callable[[Sequence[Row]], Sequence[Row]]:
    """As they come, or in an order that is drawn."""
    seed = section.raw("random_seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        section.problem("random_seed", f"random_seed is a whole number, not {seed!r}")

    def order(rows: Sequence[Row]) -> Sequence[Row]:
        if seed is None:
            return rows
        drawn = list(rows)
        Random(seed).shuffle(drawn)
        return drawn

    return order


def _evenly(datasets: Sequence[Sequence[Row]]) -> Iterator[Row]:
    """All combinations of one row each, in an order that uses every row alike often
    from the start: side by side with the shorter one repeated, then with it shifted by
    one, and so on. A later dataset's columns beat those of earlier ones."""
    first, *others = datasets
    found = list(first)
    for other in others:
        longer, shorter = max(len(found), len(other)), min(len(found), len(other))
        pairs = []
        for shift in range(shorter):
            for i in range(longer):
                left, right = (i, i + shift)
                if len(found) < len(other):
                    left, right = (i + shift, i)
                pairs.append((left % len(found), right % len(other)))
        found = [{**found[left], **other[right]} for left, right in pairs]
    yield from found


def _chain(definition: Section) -> list[Synthesizer]:
    entries = definition.entries("synthesizers")
    if not entries:
        fix = "synthesizers: [{type: empty}]"
        definition.problem("synthesizers", "a generator has synthesizers", fix)
    found = []
    for entry in entries:
        given = entry.values.get("type")
        if given in _REFUSED:
            what = f"the synthesizer {given!r} asks a model, which is not done here"
            fix = "generate the dataset once, and use it as a file"
            entry.problem("type", what, fix)
            continue
        kind = entry.one_of("type", "synthesizer", tuple(_SYNTHESIZERS), "")
        one = _SYNTHESIZERS[kind](entry) if kind else None
        if kind:
            entry.close(f"a synthesizer of type {kind}")
        if one is not None:
            found.append(one)
    return found


def _unchanged(entry: Section) -> Synthesizer:
    return lambda row: [row]


def _drop(entry: Section) -> Synthesizer:
    columns = {str(name) for name in entry.take("columns", list, [])}
    if not columns:
        entry.problem("columns", "columns are missing", "columns: [hint]")
    return lambda row: [{k: v for k, v in row.items() if k not in columns}]


def _python(entry: Section) -> Synthesizer | None:
    names = [key for key in entry.values if str(key).endswith("_snippet")]
    key = names[0] if len(names) == 1 else "synthesize_snippet"
    function = snippet_of(entry, key, "synthesize")
    return partial(_synthesized, function) if function is not None else None


def _synthesized(function: SnippetFunction, row: Row) -> Iterable[Row]:
    def read(made: Any) -> list[dict[str, Any]]:
        are_rows = isinstance(made, list) and all(isinstance(x, Mapping) for x in made)
        if not are_rows:
            raise function.refused(f"returns a list of samples, not {made!r:.80}")
        return [as_json(one, lambda value: value) for one in made]

    return function.read(read, dict(row))


def _template(entry: Section) -> Synthesizer | None:
    given: Any = entry.take("template", (str, list), "")
    texts = [str(one) for one in given] if isinstance(given, list) else [given]
    fields = entry.take("fields", dict, {})
    for name, values in fields.items():
        if not isinstance(values, list) or not values:
            entry.problem("fields", f"the field {name!r} is a list of values")
    if not any(texts):
        entry.problem("template", "template is missing", 'template: "Is {what} red?"')
        return None
    place = entry.text_place("template")
    try:
        templates = [compile_template(text, place, "template") for text in texts]
    except TaskFileError as error:
        entry.problems.extend(error.problems)
        return None
    return partial(_written, templates, fields)


def _written(
    templates: Sequence[SampleTemplate], fields: Mapping[str, Sequence[Any]], row: Row
) -> Iterator[Row]:
    """The cross product of all templates and the values of all fields."""
    for template in templates:
        text = template.render({"source": row})
        for values in product(*fields.values()):
            filled = text
            for name, value in zip(fields, values, strict=True):
                filled = filled.replace(f"{{{name}}}", str(value))
            yield {**row, TEXT: filled}


_SYNTHESIZERS: Mapping[str, Callable[[Section], Synthesizer | None]] = {
    "empty": _unchanged,
    "template": _template,
    "python": _python,
    "drop_columns": _drop,
}
