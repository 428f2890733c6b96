"""Detects the dialect of a file.

:func:`dialect_of` runs on every file that pytest visits. It searches raw bytes with
regular expressions and uses the standard library only. Only keys at the start of a line
are considered.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path

YAML_SUFFIXES = (".yaml", ".yml")
GATES_FILES = ("gates.yaml", "gates.yml")  # names of gates files next to a suite
OWN_KEYS = (
    "aggregate_metric_list", "custom_dataset", "doc_to_choice", "doc_to_target",
    "doc_to_text", "fewshot_split", "metric_list", "process_docs", "process_results",
)  # fmt: skip
"""Keys of lm-eval files that are rare in other files."""
EVAL_KEYS = (
    "prompt", "rows", "dataset", "score", "target", "generation", "system", "repeats",
    "task", "description", "id", "model", "gates", "tags", "version", "metadata",
    "choices", "choices_by", "refusals", "extract", "tools",
    "traces", "turns", "user", "variants",
)  # fmt: skip
"""The keys of an eval of our own dialect; the first four are rare elsewhere."""
TASK_KEYS = (
    "task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name",
    "dataset_kwargs", "training_split", "validation_split", "test_split",
    "fewshot_split", "process_docs", "doc_to_text", "doc_to_target", "doc_to_image",
    "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results",
    "use_prompt", "description", "target_delimiter",
    "fewshot_delimiter", "fewshot_config", "num_fewshot", "metric_list", "output_type",
    "generation_kwargs", "repeats", "filter_list", "should_decontaminate",
    "doc_to_decontamination_query", "gen_prefix", "metadata",
)  # fmt: skip
"""The keys of a task, in the order of results files."""

_LARGEST = 4 * 1024 * 1024  # maximum bytes; a larger file is data, not a task
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INDENTED = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]+)[^\s#]")
"""A text whose first key is indented."""
_TASK = re.compile(rb"""^(["']?)task\1[ \t]*:[ \t]+[^\s#\[{|>]""", re.MULTILINE)
"""``task`` with a name on the same line; jobs of build files have a mapping there."""
_TASK_PART = re.compile(
    rb"""^(["']?)(?:dataset_path|custom_dataset|include|output_type|class)\1[ \t]*:""",
    re.MULTILINE,
)
_GROUP = re.compile(rb"""^(["']?)group\1[ \t]*:[ \t]+[^\s#\[{|>]""", re.MULTILINE)
_MEMBERS = re.compile(
    rb"""^(["']?)task\1[ \t]*:[ \t]*(?:\#[^\n]*)?
    (?: [^\s\#{|>] | (?:\r?\n[ \t]*(?:\#[^\n]*)?)+ -[ \t] )""",
    re.MULTILINE | re.VERBOSE,
)
"""``task`` with a name or a list."""

_TABLE = re.compile(
    rb"""^(?: TASKS_TABLE [ \t]* (?: :[^=\r\n]+ )? =
    | from [ \t] [^\r\n]* import [ \t(] [^\r\n]* \b TASKS_TABLE \b )""",
    re.MULTILINE | re.VERBOSE,
)


def dialect_of(path: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """Return the dialect of a file, as named in
    :data:`~pytest_evals.dialects.readers.READERS`, or an empty string. ``read``
    returns its bytes; called only for known suffixes."""
    if path.suffix in YAML_SUFFIXES:
        return dialect(read(path)) or ""
    if path.suffix == ".py":
        return "lighteval" if is_task_module(read(path)) else ""
    return ""


def raw_of(path: Path, most: int = _LARGEST) -> bytes:
    """Return the bytes of a file; empty if unreadable or too large for a task."""
    try:
        return b"" if path.stat().st_size > most else path.read_bytes()
    except OSError:
        return b""


def _lines(raw: bytes) -> bytes:
    """Return a text without byte order mark and without the indentation of all its
    lines, with ``\\n`` for each end of a line."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    raw = re.sub(rb"\r\n?", b"\n", raw) if b"\r" in raw else raw
    indented = _INDENTED.match(raw)
    return re.sub(rb"(?m)^" + indented[1], b"", raw) if indented else raw


def is_task_module(raw: bytes) -> bool:
    """Return whether Python source defines a table of lighteval tasks."""
    return b"TASKS_TABLE" in raw and _TABLE.search(raw) is not None


def _top(*keys: bytes) -> re.Pattern[bytes]:
    names = b"|".join(keys)
    return re.compile(rb"""^(["']?)(?:%s)\1[ \t]*:(?:\s|$)""" % names, re.MULTILINE)


_KEY = _top(rb"key", rb"display_name")
_DEFINITION = _top(rb"definition")
_EVALUATION = _top(rb"task_specifications", rb"evaluation")
_RUN_TASKS = _top(rb"tasks")
_ENTITY = _top(
    rb"definition", rb"source", rb"generator_specification", rb"file_path", rb"config",
    rb"process_input", rb"process_output", rb"rules",
)  # fmt: skip
_RUN_PART = re.compile(rb"""(?:\$ref|task_specifications|display_name)["']?[ \t]*:""")


_PROMPT = _top(rb"prompt")
_VARIANTS = _top(rb"variants")
_TURNS = re.compile(rb"""(?:^|[\s{,"'])turns["']?[ \t]*:""")
_USER = _top(rb"user")
_SCORES = _top(rb"score", rb"gates")
_NATIVE_DATA = _top(rb"rows", rb"dataset")
FOREIGN_KEYS = (
    *OWN_KEYS, "dataset_path", "include", "output_type", "class", "group", "definition",
    "evaluation", "task_specifications", "key",
)  # fmt: skip
"""Keys that only lm-eval's and LatticeFlow's files have."""
_FOREIGN = _top(*(key.encode() for key in FOREIGN_KEYS))


def _is_native(raw: bytes) -> bool:
    """Whether a file is an eval of our own dialect: ``prompt``, ``variants``, or turns
    or a simulated user with ``score`` or ``gates``, with ``rows`` or ``dataset``, and
    no key of another dialect."""
    has_prompt = b"prompt" in raw and _PROMPT.search(raw)
    has_prompt = has_prompt or (b"variants" in raw and _VARIANTS.search(raw))
    is_chat = b"turns" in raw and _TURNS.search(raw) and _SCORES.search(raw)
    is_chat = is_chat or (b"goal" in raw and _USER.search(raw) and _SCORES.search(raw))
    if not has_prompt and not is_chat:
        return False
    return bool(_NATIVE_DATA.search(raw)) and not _FOREIGN.search(raw)


def dialect(raw: bytes) -> str | None:
    """Return the dialect of a YAML file of tasks. Returns ``"lm_eval"`` for tasks and
    groups, ``"latticeflow"`` for tasks and runs, ``"native"`` for a file with
    ``prompt`` and ``rows`` or ``dataset``, else ``None``."""
    raw = _lines(raw)
    if b"task" in raw:
        if _TASK.search(raw) and _TASK_PART.search(raw):
            return "lm_eval"
        if is_group(raw):
            return "lm_eval"
        if _is_run(raw):
            return "latticeflow"
    if _is_task(raw):
        return "latticeflow"
    return "native" if _is_native(raw) else None


_SIGN = re.compile(
    rb"""(?:^|[\s{,"'])(?:%s|\w*gates?\w*|group|definition|scorers|task_specifications)["']?
    [ \t]*:"""
    % "|".join(OWN_KEYS).encode(),
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_TOP_SIGN = re.compile(
    rb"""^(?:[{-][ \t]*)? (?:[!&]\S*[ \t]+)*
    (["']?)(?:task|prompt|rows|dataset|score)\1[ \t]*:(?:\s|$)
    | ^[ \t]*(["'])(?:prompt|rows|dataset|score)\2[ \t]*:(?:\s|$)  # as in JSON
    | ^\?[ \t]+(["']?)(?:task|prompt|rows|dataset|score|gates)\3[ \t]*$""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)


_ANY_SIGN = re.compile(
    rb"""\b(?:rows|dataset|gates|%s)["']?\s*[:=\]]""" % "|".join(OWN_KEYS).encode()
)
"""A key of ours in any format, in lower case."""
_FOREIGN_SIGN = re.compile(
    rb"(?m)^[\"']?(?:accuracy_threshold|metric_threshold|lmeval|lm_eval|test_cases"
    rb"|model_name)[\"']?\s*:|^api_version:.*tokenspeed|^\s+(?:- )?accuracy:\s*[\d.]"
    rb"|^\s+(?:- )?field_spec\s*:|^\s+min_al\s*:"
)
"""Keys of gate files of other projects (``foreign_gates``)."""
_GATES_NAME = re.compile(r"(?<![a-z])gates?(?![a-z])", re.IGNORECASE)
YAML_NAME = re.compile(r"(.+\.ya?ml)(?![a-z])", re.IGNORECASE)
"""A name that was that of a YAML file."""
_OTHER_SUFFIXES = (".json", ".toml", ".txt")
_LARGEST_OTHER = 256 * 1024
"""Maximum bytes of a file with such a suffix; a larger file is data."""


def lookalike_bytes(path: Path) -> bytes:
    """Return the bytes of a file that is not an eval file and may resemble one, by its
    name and single keys: parse it. Empty for any other file."""
    if path.suffix in YAML_SUFFIXES:
        raw = raw_of(path)
        text = _lines(as_utf8(raw))
        signs = (_SIGN, _TOP_SIGN, _FOREIGN_SIGN)
        is_like = is_gates_name(path) or any(sign.search(text) for sign in signs)
        return raw if is_like and dialect(raw) is None else b""
    name = YAML_NAME.match(path.name)
    if name and name[1] != path.name and path.with_name(name[1]).exists():
        return b""  # a copy, as editors make it
    is_other = path.suffix.lower() in _OTHER_SUFFIXES
    is_gates = path.suffix != ".py" and is_gates_name(path)
    if not (name or is_gates or is_other):
        return b""
    raw = raw_of(path, _LARGEST_OTHER if is_other else _LARGEST)
    if is_other and not is_gates and raw.lstrip().startswith(b"["):
        return b""  # rows of data
    has_sign = _ANY_SIGN.search(as_utf8(raw).lower())
    return raw if has_sign or (name and dialect(raw)) else b""


def is_gates_name(path: Path) -> bool:
    """Return whether a name says that a file has gates."""
    return _GATES_NAME.search(path.stem) is not None


def as_utf8(raw: bytes) -> bytes:
    """Return a text as UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace").encode()
    return raw.replace(b"\0", b"")


def is_group(raw: bytes) -> bool:
    """Return whether a file is a group of tasks."""
    raw = _lines(raw)
    return bool(b"task" in raw and _GROUP.search(raw) and _MEMBERS.search(raw))


def may_hold_entities(raw: bytes) -> bool:
    """Return whether a file may contain entities that LatticeFlow tasks refer to: a
    dataset, a model, a run file, and so on."""
    raw = _lines(raw)
    if b"task" in raw and _is_run(raw):
        return True
    return bool(_KEY.search(raw) and _ENTITY.search(raw))


def _is_run(raw: bytes) -> bool:
    if not _EVALUATION.search(raw) and not _RUN_TASKS.search(raw):
        return False
    return bool(_RUN_PART.search(raw))


def _is_task(raw: bytes) -> bool:
    """Return whether a file is a task; generators define synthesizers."""
    if b"definition" not in raw or not _DEFINITION.search(raw):
        return False
    return bool(_KEY.search(raw)) and b"synthesizers" not in raw
