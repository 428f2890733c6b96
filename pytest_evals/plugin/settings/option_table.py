"""The table of options, from which the command line, the ini file and the docs are
made. Standard library only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Option(NamedTuple):
    """One option.

    ``kind`` is what is given: ``text``, ``flag`` (no value) or ``list`` (may be given
    several times). A text with ``alone`` may be left out, and is that then. An option
    without ini twin makes sense for one run only.
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
        """As typed on the command line."""
        return f"--evals-{self.name}"

    @property
    def dest(self) -> str:
        """Name of the value, and of the ini twin."""
        return "evals_" + self.name.replace("-", "_")


TABLE = (
    Option(
        "model",
        "SPEC",
        "The model: hf:PATH_OR_ID[,dtype=…,device=…,revision=…], "
        "openai:NAME[,base_url=…,api=…] or scripted:…",
    ),
    Option(
        "judge",
        "SPEC",
        "The model that judges answers, where a task names none: as --model.",
    ),
    Option(
        "tasks",
        "NAMES",
        "Run only these tasks: names, groups, tags or globs, separated by commas, or a "
        "text file with one a line. NAME|5 has 5 shots; NAME@n=8@k=1|0 gives arguments "
        "to metrics of several answers.",
    ),
    Option(
        "python-files",
        "GLOBS",
        "Names of Python files with a TASKS_TABLE of lighteval's that are collected "
        "without being named.",
        default="eval_*.py *_eval.py",
    ),
    Option(
        "include-path",
        "DIR",
        "A further folder of task files, for names in groups and in --evals-tasks. May "
        "be repeated, or list several with commas; a later one overrides an earlier "
        "one.",
        kind="list",
    ),
    Option(
        "limit",
        "N|P%",
        "Only the first N documents of each task, or the first P percent.",
    ),
    Option(
        "sample",
        "N|P%",
        "Only N documents of each task, drawn by --evals-seed; a smaller sample is "
        "part of a larger one.",
    ),
    Option(
        "num-fewshot",
        "N",
        "Shots in each prompt, except in tasks that say num_fewshot: 0.",
    ),
    Option(
        "exclude-own-shots",
        "",
        "A document is never one of its own shots, also where lm-eval lets it be; "
        "prompts differ from lm-eval's there.",
        kind="flag",
    ),
    Option(
        "bootstrap-iters",
        "N",
        "Resamples of bootstrapped standard errors; 0 leaves all standard errors out.",
        default="100000",
    ),
    Option("seed", "N", "Seed of the draw of shots and of samples.", default="1234"),
    Option(
        "apply-chat-template",
        "",
        "Prompts are chats, rendered with the model's own template.",
        kind="flag",
    ),
    Option(
        "fewshot-as-one-turn",
        "",
        "With a chat template: all shots in one user message instead of a turn each.",
        kind="flag",
    ),
    Option("system-instruction", "TEXT", "Text in front of every prompt."),
    Option(
        "gen-kwargs",
        "K=V,…|JSON",
        "Generation arguments that override those of the tasks: "
        "temperature=0.7,max_gen_toks=64.",
    ),
    Option(
        "reasoning-tags",
        "PAIRS|off",
        "What tasks of lighteval remove from answers before they are scored: text "
        "between these pairs of tags, or nothing (off).",
        default="[('<think>', '</think>')]",
    ),
    Option(
        "metadata",
        "K=V,…|JSON",
        "Entries of every task's metadata, which functions that make a dataset get.",
    ),
    Option("device", "NAME", "Device of an hf model: cpu, cuda, cuda:1, …"),
    Option(
        "batch-tokens",
        "N",
        "Tokens of a batch of an hf model, instead of its own size.",
    ),
    Option(
        "ray",
        "ADDRESS",
        "Replicate the hf model (replicas=N) on a Ray cluster: HOST:6379, "
        "ray://HOST:10001, local, or auto, which is meant without an address.",
        alone="auto",
    ),
    Option(
        "dir",
        "DIR",
        "Where results are kept, relative to the rootdir.",
        default=".evals",
    ),
    Option(
        "cache",
        "use|refresh|off|only",
        "Stored responses. use: send only requests that are not stored; refresh: send "
        "every request again and store the responses; off: neither read nor write the "
        "store; only: open no model, and report each document without a stored "
        "response as an error.",
        default="use",
    ),
    Option(
        "cache-info",
        "NODEID",
        "Send nothing: report whether the responses of this document are stored, and "
        "if they are not, which parts of their keys have changed.",
        ini=False,
    ),
    Option(
        "only",
        "wrong,error,…",
        "Run only documents that were wrong, error, missing or regressed in the last "
        "run of this model. Separate several values with commas.",
        ini=False,
    ),
    Option(
        "save-baseline",
        "NAME",
        "Save this run as the baseline of that name, if it is complete and has not "
        "failed.",
        ini=False,
    ),
    Option(
        "save-failed",
        "",
        "With --evals-save-baseline: save the run even if gates failed or documents "
        "could not be scored.",
        kind="flag",
        ini=False,
    ),
    Option(
        "compare",
        "NAME|PATH",
        "Show what has changed since a baseline, or since the run in a folder.",
    ),
    Option("json", "PATH", "Also write results.json to this file.", ini=False),
    Option(
        "html",
        "PATH",
        "Write the report as a page that a browser opens from the disk.",
    ),
    Option(
        "markdown",
        "PATH",
        "Write a summary in Markdown to this file, short enough for a comment on a "
        "pull request. In GitHub Actions the job's summary has it in any case.",
    ),
    Option(
        "junit",
        "gates|docs",
        "What a JUnit file has: gates and documents that failed, or all documents.",
        default="gates",
    ),
    Option(
        "gate",
        "EXPR",
        "One more gate: '[TASK/]METRIC[,FILTER] >= NUMBER'. May be repeated.",
        kind="list",
    ),
    Option(
        "inconclusive",
        "warn|fail|pass",
        "What becomes of a gate that the noise leaves open: it passes and is shown, it "
        "fails, or it passes.",
        default="warn",
    ),
    Option(
        "profile",
        "default|release",
        "Settings that belong together. release: inconclusive gates fail, thresholds "
        "without 'over' count as over: population, and a limit or sample is refused.",
        default="default",
    ),
    Option(
        "plan",
        "",
        "Run nothing and open no model: say what would be asked, what is stored, and "
        "what each gate can see.",
        kind="flag",
        ini=False,
    ),
    Option(
        "repeatability",
        "K",
        "Run every document K times, report how much each number varies from run to "
        "run and which thresholds that allows, and record it with the baseline.",
        ini=False,
    ),
    Option(
        "stop",
        "off|curtail|auto",
        "Leave a task when its gates are decided: when no document can change them "
        "(curtail), or when the full run would hardly differ (auto).",
        default="off",
    ),
    Option(
        "stop-error",
        "P%",
        "Probability, over all gates, that --evals-stop=auto gives a verdict that the "
        "full run would not.",
        default="1%",
    ),
    Option(
        "validate",
        "",
        "Check task files, their data, prompts, scoring and gates; ask no model.",
        kind="flag",
        ini=False,
    ),
    Option(
        "write-out",
        "N",
        "Show the prompts of the first N documents of each task, cut into tokens if "
        "there is a model, and go on.",
        ini=False,
    ),
    Option(
        "max-errors",
        "P%",
        "Stop when the model leaves more than this share of the documents unanswered.",
        default="5%",
    ),
    Option("strict", "", "A wrong answer fails its document.", kind="flag"),
    Option(
        "latticeflow-config",
        "KEY=VALUE",
        "The value of a parameter that LatticeFlow's tasks or evaluations declare. May "
        "be repeated.",
        kind="list",
    ),
    Option(
        "latticeflow-csv-text",
        "",
        "Read all cells of LatticeFlow's CSV datasets as text, even in columns of "
        "numbers or booleans.",
        kind="flag",
    ),
    Option(
        "latticeflow-allow-code",
        "PATH",
        "A folder outside of the rootdir whose LatticeFlow files may run the Python "
        "code in them. May be repeated.",
        kind="list",
    ),
    Option(
        "latticeflow-snippet-timeout",
        "SECONDS",
        "Time limit of one call of Python code in a LatticeFlow file; 0 for no limit.",
        default="30",
    ),
    Option(
        "allow-unsafe-code",
        "",
        "Run tasks that say unsafe_code: true, which execute code that the model "
        "writes, on this machine and with your rights.",
        kind="flag",
    ),
)
