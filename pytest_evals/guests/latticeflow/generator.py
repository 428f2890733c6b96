"""Generates the rows of a dataset from other datasets.

Synthesizers form a chain; each turns one sample into any number of samples. Samples are
generated in order until the requested number is reached. ``_READERS`` has all types of
samples at the start of the chain, ``_SYNTHESIZERS`` all synthesizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from random import Random
from typing import Any

from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import DocumentError, Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.dataset_file import GeneratedSource
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.parameters import (
    ParameterValue,
    read_parameters,
    resolve_values,
)
from pytest_evals.guests.latticeflow.reader import Values, substitute
from pytest_evals.guests.latticeflow.snippets import snippet_of, to_json
from pytest_evals.guests.latticeflow.tables import ID, Rows

Row = Mapping[str, Any]
Start = Callable[[], Iterable[Row]]  # Returns the samples at the start of the chain
Synthesizer = Callable[[Row], Iterable[Row]]
Datasets = Callable[[str, Place], Rows]
"""Key of a dataset, and place of the reference → its rows; raises ``TaskFileError``."""
TEXT = "text"
"""Column that a template writes; LatticeFlow's question synthesizers read the text from
it."""
_TYPE = "declarative_dataset_generator"
_REFUSED = (
    "llm",
    "question_answering",
    "claim_extraction",
    "claim_labeling",
    "link_claim_quotes",
)


def generate_rows(
    source: GeneratedSource,
    file: YamlFile,
    secret: Callable[[str], str | None],
    datasets: Datasets,
) -> Rows:
    """Return the rows that a generator's file produces for a dataset. ``secret``: name
    of a secret of that file → its value."""
    outer = Keys(file, [])
    outer.header("a generator", ("key", "display_name", "description"))
    parameters = read_parameters(outer)
    outer.take("secrets", dict, {})
    place = source.section.place("dataset_generator_config")
    given = {str(k): ParameterValue(v, place) for k, v in source.config.items()}
    values = resolve_values(parameters, given, outer.problems, lambda _one: None)
    outer.raw("definition")
    outer.close("a generator")
    filled = substitute(file, "definition", Values(values, secret), outer.problems)
    filled_keys = Keys(filled, outer.problems)
    definition = filled_keys.required_section("definition", "{dataset: …}")
    start, synthesizers = _start(definition, datasets), _synthesizers(definition)
    definition.one_of("type", "generator type", (_TYPE,), _TYPE)
    definition.close("the definition of a generator")
    if outer.problems:
        raise TaskFileError(outer.problems)
    try:
        rows: Iterable[Row] = start()
        for one in synthesizers:
            rows = chain.from_iterable(map(one, rows))
        found = [dict(row) for row in islice(rows, source.n)]
    except DocumentError as error:
        message = f"the generator {source.generator!r} fails: {error}"
        raise TaskFileError([Problem(message, source.place)]) from error
    if len({str(row.get(ID)) for row in found}) < len(found):
        # Several rows of one sample share its id; drop it to number them.
        found = [{k: v for k, v in row.items() if k != ID} for row in found]
    return found


def _start(definition: Keys, datasets: Datasets) -> Start:
    message, fix = "a generator needs a dataset", "{type: empty}"
    section = definition.required_section("dataset", fix, message)
    if section.values.get("type") == "task_result":
        section.problem("type", "task_result samples require LatticeFlow's server")
        section = Keys(section.file, [], {"type": "empty"}, section.steps)
    return section.typed("kind of samples", "a dataset", _READERS, datasets)


def _empty(section: Keys, datasets: Datasets) -> Start:
    n = section.whole("num_samples", 1, 1)
    return lambda: [{} for _ in range(n)]


def _inline(section: Keys, datasets: Datasets) -> Start:
    message = "samples are missing"
    entries = section.required_entries("samples", "[{text: …}]", message)
    samples = [entry.values for entry in entries]
    return lambda: samples


def _dataset(section: Keys, datasets: Datasets) -> Start:
    key = section.required_name("key", "<< config.seeds >>")
    ordered, place = _order(section), section.place("key")
    return lambda: ordered(datasets(key, place))


def _combinations(section: Keys, datasets: Datasets) -> Start:
    keys = section.take("keys", list, [])
    if not keys:
        section.problem("keys", "keys are missing", "keys: [<< config.a >>]")
    ordered, place = _order(section), section.place("keys")

    def rows() -> Iterable[Row]:
        tables = [datasets(str(key), place) for key in keys]
        return ordered(_balanced_product(tables))

    return rows


_READERS: Mapping[str, Callable[[Keys, Datasets], Start]] = {
    "empty": _empty,
    "inline_samples": _inline,
    "dataset_samples": _dataset,
    "dataset_sample_combinations": _combinations,
}


def _order(section: Keys) -> Callable[[Sequence[Row]], Sequence[Row]]:
    """Return a function that keeps or, with ``random_seed``, shuffles the rows."""
    seed = section.raw("random_seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        section.problem("random_seed", f"random_seed must be an integer, not {seed!r}")

    def order(rows: Sequence[Row]) -> Sequence[Row]:
        if seed is None:
            return rows
        drawn = list(rows)
        Random(seed).shuffle(drawn)
        return drawn

    return order


def _balanced_product(datasets: Sequence[Sequence[Row]]) -> list[Row]:
    """Return all combinations of one row of each dataset, ordered so that every prefix
    uses all rows about equally often. First the datasets are paired row by row with the
    shorter one repeated, then with the shorter one shifted by one row, and so on.
    Columns of later datasets override those of earlier ones."""
    first, *others = datasets
    found = list(first)
    for other in others:
        n, n_other = len(found), len(other)
        pairs = [
            (i + shift, i) if n < n_other else (i, i + shift)
            for shift in range(min(n, n_other))
            for i in range(max(n, n_other))
        ]
        found = [{**found[i % n], **other[j % n_other]} for i, j in pairs]
    return found


def _synthesizers(definition: Keys) -> list[Synthesizer]:
    message, found = "a generator needs synthesizers", []
    for entry in definition.required_entries(
        "synthesizers", "[{type: empty}]", message
    ):
        kind = entry.values.get("type")
        if kind in _REFUSED:
            message = (
                f"the synthesizer {kind!r} requires a model, which is not supported"
            )
            fix = "generate the dataset once and use the file"
            entry.problem("type", f"{message} here", fix)
            continue
        found.append(entry.typed("synthesizer", "a synthesizer", _SYNTHESIZERS))
    return found


def _drop(entry: Keys) -> Synthesizer:
    columns = {str(name) for name in entry.take("columns", list, [])}
    if not columns:
        entry.problem("columns", "columns are missing", "columns: [hint]")
    return lambda row: [{k: v for k, v in row.items() if k not in columns}]


def _python(entry: Keys) -> Synthesizer:
    names = [key for key in entry.values if str(key).endswith("_snippet")]
    key = names[0] if len(names) == 1 else "synthesize_snippet"
    function = snippet_of(entry, key, "synthesize")

    def read(rows: Any) -> list[dict[str, Any]]:
        is_list = isinstance(rows, list) and all(isinstance(x, Mapping) for x in rows)
        function.expect(is_list, "a list of samples", rows)
        return [to_json(one, lambda value: value) for one in rows]

    return lambda row: function.read(read, dict(row))


def _template(entry: Keys) -> Synthesizer:
    given: Any = entry.take("template", (str, list), "")
    texts = [str(one) for one in given] if isinstance(given, list) else [given]
    fields = entry.take("fields", dict, {})
    for name, values in fields.items():
        if not isinstance(values, list) or not values:
            entry.problem(
                "fields", f"the field {name!r} must be a non-empty list of values"
            )
    if not any(texts):
        entry.problem("template", "template is missing", 'template: "Is {what} red?"')
    place = entry.text_place("template")
    templates = [entry.text_template("template", text, place) for text in texts]

    def fill(row: Row) -> Iterator[Row]:
        for template in templates:
            text = template.render({"source": row})
            for values in product(*fields.values()):
                filled = text
                for name, value in zip(fields, values, strict=True):
                    filled = filled.replace(f"{{{name}}}", str(value))
                yield {**row, TEXT: filled}

    return fill


_SYNTHESIZERS: Mapping[str, Callable[[Keys], Synthesizer]] = {
    "empty": lambda _entry: lambda row: [row],
    "template": _template,
    "python": _python,
    "drop_columns": _drop,
}
