"""The table of options, for the command line, the ini file and the docs.

Standard library only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Option(NamedTuple):
    """One option.

    ``kind`` is ``text``, ``flag`` (no value) or ``list`` (may be repeated). ``alone``
    is the value of a text option without one. An option without ini key applies to one
    run only.
    """

    name: str
    metavar: str
    help: str
    kind: Literal["text", "flag", "list"] = "text"
    ini: bool = True
    default: str = ""
    alone: str = ""

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return f"--evals-{self.name}"

    @property
    def dest(self) -> str:
        """Name of the value, and of the ini key."""
        return "evals_" + self.name.replace("-", "_")


GROUPS: dict[str, tuple[Option, ...]] = {
    "evals: model": (
        Option(
            "model",
            "SPEC",
            "Model to evaluate, also written --model: hf:PATH_OR_ID, openai:NAME, "
            "python:MODULE:FUNCTION or scripted:FILE, with arguments such as "
            ",dtype=bfloat16.",
        ),
        Option(
            "judge",
            "SPEC",
            "Judge model for tasks that name none, written like --model.",
        ),
        Option("device", "NAME", "Device of an hf model, such as cpu, cuda or cuda:1."),
        Option(
            "batch-tokens",
            "N",
            "Tokens per batch of an hf model, instead of its automatic size.",
        ),
        Option(
            "ray",
            "ADDRESS",
            "Replicate the hf model (replicas=N) on a Ray cluster: HOST:6379, "
            "ray://HOST:10001, local or auto (the default without an address).",
            alone="auto",
        ),
        Option(
            "gen-kwargs",
            "K=V,…|JSON",
            "Generation arguments that override those of the tasks, such as "
            "temperature=0.7,max_gen_toks=64.",
        ),
        Option(
            "max-errors",
            "P%",
            "Stop when more than this share of the documents gets no response from the "
            "model.",
            default="5%",
        ),
    ),
    "evals: selection": (
        Option(
            "tasks",
            "NAMES",
            "Run only these tasks: names, groups, tags or globs, separated by commas, "
            "or a text file with one per line.",
        ),
        Option(
            "include-path",
            "DIR",
            "Additional folder of task files for names in groups and in --evals-tasks "
            "(may be repeated).",
            kind="list",
        ),
        Option(
            "python-files",
            "GLOBS",
            "Names of Python files with a TASKS_TABLE (lighteval) to collect.",
            default="eval_*.py *_eval.py",
        ),
        Option(
            "limit",
            "N|P%",
            "Run only the first N documents, or the first P percent, of each task.",
        ),
        Option(
            "sample",
            "N|P%",
            "Run only a random sample of N documents, or of P percent, of each task.",
        ),
        Option(
            "seed",
            "N",
            "Seed of samples and of few-shot examples.",
            default="1234",
        ),
        Option(
            "only",
            "wrong,error,…",
            "Run only documents that were wrong, error, missing or regressed in the "
            "last run of this model.",
            ini=False,
        ),
    ),
    "evals: prompts": (
        Option(
            "num-fewshot",
            "N",
            "Number of few-shot examples in each prompt, except in tasks with "
            "num_fewshot: 0.",
        ),
        Option(
            "exclude-own-shots",
            "",
            "Never use a document as its own few-shot example, even if lm-eval does.",
            kind="flag",
        ),
        Option(
            "apply-chat-template",
            "",
            "Send prompts as chats, rendered with the model's chat template.",
            kind="flag",
        ),
        Option(
            "fewshot-as-one-turn",
            "",
            "With a chat template, put all few-shot examples into one user message.",
            kind="flag",
        ),
        Option(
            "system-instruction",
            "TEXT",
            "Text before every prompt; in a chat, the system message.",
        ),
        Option(
            "choices",
            "generate|loglikelihood",
            "How documents with choices are answered: with the letter of a choice, for "
            "models without log-probabilities (generate), or by log-probability.",
        ),
        Option(
            "metadata",
            "K=V,…|JSON",
            "Entries of every task's metadata, which functions that build a dataset "
            "receive.",
        ),
        Option(
            "reasoning-tags",
            "PAIRS|off",
            "Pairs of tags of reasoning, such as [('<think>', '</think>')], which is "
            "removed from answers before scoring. By default that pair for lighteval "
            "tasks and generated choices only.",
        ),
        Option(
            "write-out",
            "N",
            "Show the rendered prompts of the first N documents of each task before the"
            " run.",
            ini=False,
        ),
    ),
    "evals: gates": (
        Option(
            "gate",
            "EXPR",
            "Additional gate: '[TASK/]METRIC[,FILTER] >= NUMBER' (may be repeated).",
            kind="list",
        ),
        Option(
            "inconclusive",
            "warn|fail|pass",
            "Result of an inconclusive gate: it passes and is shown, fails, or passes.",
            default="warn",
        ),
        Option(
            "min-overlap",
            "SHARE",
            "Share of a baseline's documents that a comparison needs; release: 1.",
            default="0.8",
        ),
        Option(
            "profile",
            "default|release",
            "Settings for a purpose; release: inconclusive gates fail, thresholds "
            "default to over: population, and limits and samples are refused.",
            default="default",
        ),
        Option("strict", "", "Fail a document whose answer is wrong.", kind="flag"),
        Option(
            "stop",
            "off|curtail|auto",
            "Stop a task once its gates are decided: when no document can change them "
            "(curtail), or is unlikely to (auto).",
            default="off",
        ),
        Option(
            "stop-error",
            "P%",
            "Probability, over all gates, that --evals-stop=auto changes a verdict.",
            default="1%",
        ),
        Option(
            "bootstrap-iters",
            "N",
            "Resamples of bootstrapped standard errors; 0 omits all standard errors.",
            default="100000",
        ),
        Option(
            "repeatability",
            "K",
            "Run every document K times and report how much each metric varies between "
            "runs.",
            ini=False,
        ),
    ),
    "evals: store": (
        Option(
            "dir",
            "DIR",
            "Folder of responses, runs and baselines, relative to the rootdir.",
            default=".evals",
        ),
        Option(
            "cache",
            "use|refresh|off|only",
            "Stored responses: use them, send all requests again (refresh), ignore the "
            "store (off), or open no model (only).",
            default="use",
        ),
        Option(
            "cache-info",
            "NODEID",
            "Report whether the responses of a document are stored, and if not, what "
            "has changed; send nothing.",
            ini=False,
        ),
        Option(
            "save-baseline",
            "NAME",
            "Save this run as a baseline, if it is complete and did not fail.",
            ini=False,
        ),
        Option(
            "save-failed",
            "",
            "With --evals-save-baseline: save the run even if gates failed or documents"
            " could not be scored.",
            kind="flag",
            ini=False,
        ),
        Option(
            "compare",
            "NAME|PATH",
            "Compare with a baseline, or with the run in a folder.",
        ),
    ),
    "evals: reports": (
        Option("json", "PATH", "Also write results.json to this file.", ini=False),
        Option("html", "PATH", "Write an HTML report to this file."),
        Option(
            "markdown",
            "PATH",
            "Write a Markdown summary, short enough for a comment on a pull request, to"
            " this file.",
        ),
        Option(
            "junit",
            "gates|docs",
            "Test cases of a JUnit file: gates and failed documents, or all documents.",
            default="gates",
        ),
    ),
    "evals: run": (
        Option(
            "plan",
            "",
            "Report the requests, stored responses and power of each gate, without "
            "opening a model.",
            kind="flag",
            ini=False,
        ),
        Option(
            "validate",
            "",
            "Check task files, data, prompts, scoring and gates without a model.",
            kind="flag",
            ini=False,
        ),
        Option(
            "allow-unsafe-code",
            "",
            "Run tasks with unsafe_code: true, which execute code written by the model "
            "on this machine with your rights.",
            kind="flag",
        ),
        Option(
            "fast-path",
            "on|off",
            "off: run every document through pytest's own test protocol, to debug a "
            "conflict with another plugin.",
            default="on",
        ),
    ),
    "evals: LatticeFlow": (
        Option(
            "latticeflow-config",
            "KEY=VALUE",
            "Value of a parameter that LatticeFlow tasks or evaluations declare (may be"
            " repeated).",
            kind="list",
        ),
        Option(
            "latticeflow-csv-text",
            "",
            "Read all cells of LatticeFlow CSV datasets as text.",
            kind="flag",
        ),
        Option(
            "latticeflow-allow-code",
            "PATH",
            "Folder outside of the rootdir whose LatticeFlow files may run their Python"
            " code (may be repeated).",
            kind="list",
        ),
        Option(
            "latticeflow-snippet-timeout",
            "SECONDS",
            "Time limit of one call of Python code in a LatticeFlow file; 0 for none.",
            default="30",
        ),
    ),
}
"""Group in ``--help`` → its options."""

TABLE = tuple(option for options in GROUPS.values() for option in options)
