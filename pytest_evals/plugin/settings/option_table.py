"""All options of a session: the table from which the command line, the ini file, the
checks and the table of the docs are made.

Standard library only: this is imported in every pytest run.
"""

# ruff: noqa: RUF009 - options are declared by functions
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_evals.plugin.settings import values

if TYPE_CHECKING:
    from pytest_evals.core.gate import Gate, Policy
    from pytest_evals.models.names import NamedModel
    from pytest_evals.run.cached_model import Cache


class Option(NamedTuple):
    """One option.

    ``kind`` is ``text``, ``flag`` (no value) or ``list`` (may be repeated). ``read``
    parses a text and raises ``ValueError``; ``empty`` is the value without a text.
    ``alone`` is the text of an option without one. An option without ini key applies to
    one run only.
    """

    group: str
    metavar: str
    help: str
    kind: Literal["text", "flag", "list"] = "text"
    ini: bool = True
    default: str = ""
    read: Callable[[str], Any] = str
    empty: Any = ""
    alone: str = ""
    name: str = ""

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return f"--evals-{self.name}"

    @property
    def dest(self) -> str:
        """Name of the value, and of the ini key."""
        return "evals_" + self.name.replace("-", "_")


class OptionGroup(NamedTuple):
    """Declares the options of a group in ``--help``."""

    name: str

    def option(self, metavar: str, help: str, **more: Any) -> Any:  # noqa: A002
        """An option with a text; a metavar in lower case lists the valid ones."""
        words = metavar.split("|")
        if metavar.islower() and len(words) > 1:
            more = {"read": values.one_of(*words), **more}
        return field(metadata={"option": Option(self.name, metavar, help, **more)})

    def flag(self, help: str, **more: Any) -> Any:  # noqa: A002
        """An option without a value."""
        return self.option("", help, kind="flag", **more)

    def entries(self, metavar: str, help: str, **more: Any) -> Any:  # noqa: A002
        """An option that may be repeated."""
        return self.option(metavar, help, kind="list", **more)


SELECTION, PROMPTS = OptionGroup("selection"), OptionGroup("prompts")
MODEL, STORE = OptionGroup("model"), OptionGroup("store")
REPORTS, GATES, RUN = OptionGroup("reports"), OptionGroup("gates"), OptionGroup("run")
LATTICEFLOW = OptionGroup("LatticeFlow")

NATURAL = values.at_least(0, "0 or a positive whole number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options of a session, read and checked once."""

    model: str = MODEL.entries(
        "SPEC",
        "Model to evaluate, also written --model: hf:PATH_OR_ID, openai:NAME, "
        "python:MODULE:FUNCTION or scripted:FILE, with arguments such as "
        ",dtype=bfloat16. May be repeated: each task runs with each model; "
        "NAME=SPEC names one.",
    )
    models: tuple[NamedModel, ...] = ()
    """All models; ``model`` is the spec of the first one, empty without a model."""
    reference: str = MODEL.option(
        "NAME",
        "The model that the others are compared with, of several. Default: the first.",
    )
    judge: str = MODEL.option(
        "SPEC", "Judge model for tasks that name none, written like --model."
    )
    tasks: tuple[str, ...] = SELECTION.option(
        "NAMES",
        "Run only these tasks: names, groups, tags or globs, separated by commas, or "
        "a text file with one per line.",
    )
    python_files: tuple[str, ...] = SELECTION.option(
        "GLOBS",
        "Names of Python files with a TASKS_TABLE (lighteval) to collect.",
        default="eval_*.py *_eval.py",
        read=lambda text: tuple(text.split()),
    )
    include_path: tuple[Path, ...] = SELECTION.entries(
        "DIR",
        "Additional folder of task files for names in groups and in --evals-tasks, "
        "or an installed package: lm_eval, lighteval (may be repeated). By default, "
        "names of --evals-tasks that nothing else defines are looked up in these two.",
    )
    limit: float | None = SELECTION.option(
        "N|P%",
        "Run only the first N documents, or the first P percent, of each task.",
        read=values.share,
        empty=None,
    )
    sample: float | None = SELECTION.option(
        "N|P%",
        "Run only a random sample of N documents, or of P percent, of each task.",
        read=values.share,
        empty=None,
    )
    shard: str = SELECTION.option(
        "K/N",
        "Run only part K of N of the suite, without judging gates; the command merge "
        "judges them over all parts.",
        read=values.shard,
        ini=False,
    )
    merge: tuple[Path, ...] = SELECTION.entries(
        "DIR",
        "Take the documents from this part of a run instead of running them, and judge "
        "the gates (once for each part; the command merge does it).",
        ini=False,
    )
    num_fewshot: int | None = PROMPTS.option(
        "N",
        "Number of few-shot examples in each prompt, except in tasks with "
        "num_fewshot: 0.",
        read=NATURAL,
        empty=None,
    )
    seed: int = SELECTION.option(
        "N", "Seed of samples and of few-shot examples.", default="1234", read=int
    )
    apply_chat_template: bool = PROMPTS.flag(
        "Send prompts as chats, rendered with the model's chat template."
    )
    exclude_own_shots: bool = PROMPTS.flag(
        "Never use a document as its own few-shot example, even if lm-eval does."
    )
    bootstrap_iters: int = GATES.option(
        "N",
        "Resamples of bootstrapped standard errors; 0 omits all standard errors.",
        default="100000",
        read=NATURAL,
    )
    fewshot_as_multiturn: bool = PROMPTS.flag(
        "With a chat template, put all few-shot examples into one user message.",
        name="fewshot-as-one-turn",
    )
    system_instruction: str = PROMPTS.option(
        "TEXT", "Text before every prompt; in a chat, the system message."
    )
    choices: str = PROMPTS.option(
        "generate|loglikelihood",
        "How documents with choices are answered: with the letter of a choice, for "
        "models without log-probabilities (generate), or by log-probability.",
    )
    gen_kwargs: Mapping[str, Any] = MODEL.option(
        "K=V,…|JSON",
        "Generation arguments that override those of the tasks, such as "
        "temperature=0.7,max_gen_toks=64.",
        read=values.generation,
        empty={},
    )
    reasoning_tags: tuple[tuple[str, str], ...] | None = PROMPTS.option(
        "PAIRS|off",
        "Pairs of tags of reasoning, such as [('<think>', '</think>')], which is "
        "removed from answers before scoring. By default that pair for lighteval "
        "tasks and generated choices only.",
        read=values.tag_pairs,
        empty=None,
    )
    metadata: Mapping[str, Any] = PROMPTS.option(
        "K=V,…|JSON",
        "Entries of every task's metadata, which functions that build a dataset "
        "receive.",
        read=values.mapping,
        empty={},
    )
    device: str = MODEL.option(
        "NAME", "Device of an hf model, such as cpu, cuda or cuda:1."
    )
    batch_tokens: str = MODEL.option(
        "N", "Tokens per batch of an hf model, instead of its automatic size."
    )
    ray: str = MODEL.option(
        "ADDRESS",
        "Replicate the hf model (replicas=N) on a Ray cluster: HOST:6379, "
        "ray://HOST:10001, local or auto (the default without an address).",
        alone="auto",
    )
    dir: Path = STORE.option(
        "DIR",
        "Folder of responses, runs and baselines, relative to the rootdir.",
        default=".evals",
    )
    cache: Cache = STORE.option(
        "use|refresh|off|only",
        "Stored responses: use them, send all requests again (refresh), ignore the "
        "store (off), or open no model (only).",
        default="use",
    )
    cache_info: str = STORE.option(
        "NODEID",
        "Report whether the responses of a document are stored, and if not, what has "
        "changed; send nothing.",
        ini=False,
    )
    only: tuple[str, ...] = SELECTION.option(
        "wrong,error,…",
        "Run only documents that were wrong, error, missing or regressed in the last "
        "run of this model.",
        read=values.statuses,
        empty=(),
        ini=False,
    )
    save_baseline: str = STORE.option(
        "NAME",
        "Save this run as a baseline, if it is complete and did not fail.",
        read=values.baseline_name,
        ini=False,
    )
    save_failed: bool = STORE.flag(
        "With --evals-save-baseline: save the run even if gates failed or documents "
        "could not be scored.",
        ini=False,
    )
    compare: str = STORE.option(
        "NAME|PATH", "Compare with a baseline, or with the run in a folder."
    )
    json: Path | None = REPORTS.option(
        "PATH", "Also write results.json to this file.", ini=False
    )
    html: Path | None = REPORTS.option("PATH", "Write an HTML report to this file.")
    run_dir: Path | None = STORE.option(
        "DIR",
        "Write the run to this folder, which must be new or empty, instead of one in "
        "the results folder.",
        ini=False,
    )
    export: str = REPORTS.option(
        "FORM",
        "Also write the run as lm-eval does (lm-eval), or as results of a model's "
        "repository on the Hub (hub), to the folder export in that of the run.",
        read=values.one_of("lm-eval", "hub"),
    )
    markdown: Path | None = REPORTS.option(
        "PATH",
        "Write a Markdown summary, short enough for a comment on a pull request, to "
        "this file.",
    )
    junit: Literal["gates", "docs"] = REPORTS.option(
        "gates|docs",
        "Test cases of a JUnit file: gates and failed documents, or all documents.",
        default="gates",
    )
    gates: tuple[Gate, ...] = GATES.entries(
        "EXPR",
        "Additional gate: '[TASK/]METRIC[,FILTER] >= NUMBER' (may be repeated).",
        name="gate",
    )
    inconclusive: Policy = GATES.option(
        "warn|fail|pass",
        "Result of an inconclusive gate: pass with a warning, fail, or pass.",
        default="warn",
    )
    min_overlap: float = GATES.option(
        "SHARE",
        "Share of a baseline's documents that a comparison needs; release: 1.",
        default="0.8",
        read=values.percent,
    )
    profile: str = GATES.option(
        "default|release",
        "Settings for a purpose; release: inconclusive gates fail, thresholds default "
        "to over: population, and limits and samples are refused.",
        default="default",
    )
    plan: bool = RUN.flag(
        "Report the requests, stored responses and power of each gate, without "
        "opening a model.",
        ini=False,
    )
    repeatability: int = GATES.option(
        "K",
        "Run every document K times and report how much each metric varies between "
        "runs.",
        read=values.at_least(2, "2 or more runs"),
        empty=0,
        ini=False,
    )
    stop: Literal["off", "curtail", "auto"] = GATES.option(
        "off|curtail|auto",
        "Stop a task once its gates are decided: when no document can change them "
        "(curtail), or is unlikely to (auto).",
        default="off",
    )
    stop_error: float = GATES.option(
        "P%",
        "Probability, over all gates, that --evals-stop=auto changes a verdict.",
        default="1%",
        read=values.percent,
    )
    order_seed: int | None  # the seed, if somebody has typed it
    max_errors: float = MODEL.option(
        "P%",
        "Stop when more than this share of the documents gets no response from the "
        "model.",
        default="5%",
        read=values.percent,
    )
    max_requests: int = MODEL.option(
        "N",
        "Send at most N requests in this run to all served models and applications "
        "together: tested model, judges and simulated users.",
        read=values.at_least(1, "a positive whole number"),
        empty=0,
    )
    max_cost: float = MODEL.option(
        "AMOUNT",
        "Spend at most this much in this run on all served models together, in the "
        "currency of their prices.",
        read=values.amount,
        empty=0.0,
    )
    strict: bool = GATES.flag("Fail a document whose answer is wrong.")
    latticeflow_config: Mapping[str, Any] = LATTICEFLOW.entries(
        "KEY=VALUE",
        "Value of a parameter that LatticeFlow tasks or evaluations declare (may be "
        "repeated).",
    )
    latticeflow_csv_text: bool = LATTICEFLOW.flag(
        "Read all cells of LatticeFlow CSV datasets as text."
    )
    latticeflow_allow_code: tuple[Path, ...] = LATTICEFLOW.entries(
        "PATH",
        "Folder outside of the rootdir whose LatticeFlow files may run their Python "
        "code (may be repeated).",
    )
    latticeflow_snippet_timeout: float = LATTICEFLOW.option(
        "SECONDS",
        "Time limit of one call of Python code in a LatticeFlow file; 0 for none.",
        default="30",
        read=values.seconds,
    )
    allow_unsafe_code: bool = RUN.flag(
        "Run tasks with unsafe_code: true, which execute code written by the model on "
        "this machine with your rights."
    )
    sandbox: str = RUN.option(
        "LEVEL",
        "Isolation of code written by the model: bwrap (bubblewrap), docker or "
        "docker:IMAGE, process (limits only, not a security boundary), off, or auto: "
        "bwrap where it works, else process.",
        default="auto",
        read=values.sandbox_level,
    )
    allow_server_commands: bool = RUN.flag(
        "Start servers by commands of serve: specs in files: evals, ini files and "
        "addopts. Those of the command line are started without it.",
        ini=False,
    )
    validate: bool = RUN.flag(
        "Check task files, data, prompts, scoring and gates without a model.", ini=False
    )
    prefetch: bool = RUN.flag(
        "Download the datasets, models and tokenizers that the suite needs from the "
        "Hub, so that it runs without network, and write evals.lock; with "
        "--collect-only, list them.",
        ini=False,
    )
    locked: bool = RUN.flag(
        "Refuse a suite that differs from evals.lock, before anything is sent: commits "
        "of datasets, models and tokenizers, rows, prompts, settings and code.",
        ini=False,
    )
    write_out: int = PROMPTS.option(
        "N",
        "Show the rendered prompts of the first N documents of each task before the "
        "run.",
        read=values.at_least(1, "a positive whole number"),
        empty=0,
        ini=False,
    )
    fast_path: bool = RUN.option(
        "on|off",
        "off: run every document through pytest's own test protocol, to debug a "
        "conflict with another plugin.",
        default="on",
        read=lambda text: values.one_of("on", "off")(text) == "on",
    )


FIELDS: dict[str, Option] = {
    one.name: spec._replace(name=spec.name or one.name.replace("_", "-"))
    for one in fields(Options)
    if (spec := one.metadata.get("option")) is not None
}
"""Field of :class:`Options` → its option."""

GROUPS: dict[str, tuple[Option, ...]] = {
    f"evals: {group}": tuple(one for one in FIELDS.values() if one.group == group)
    for group in dict.fromkeys(one.group for one in FIELDS.values())
}
"""Group in ``--help`` → its options."""

TABLE = tuple(one for options in GROUPS.values() for one in options)
