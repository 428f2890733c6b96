"""Documents of an lm-eval task class, with requests and scores from its own methods.

A document's prompt is built on demand. If a class draws few-shot examples in its own
way, which may depend on earlier draws, prompts are built in document order. Method
calls and arguments equal lm-eval 0.4.13, ``api/task.py`` (``build_all_requests``) and
``evaluator.py``, except that an error affects one document only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.core.doc import Doc, like, read_all
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate, Loglikelihood, Request, Response
from pytest_evals.core.task import Asked, TaskOptions
from pytest_evals.data.rows import Table, document_ids, selection
from pytest_evals.dialects.lm_eval.python.metrics import ExternalMetrics
from pytest_evals.dialects.lm_eval.python.requests import (
    chat_text,
    repeats_of,
    requests_of,
)
from pytest_evals.dialects.lm_eval.python.task_object import PythonObject, ShotStream
from pytest_evals.dialects.lm_eval.scoring.filter_scope import (
    CROSS_DOCUMENT_WARNING,
    FilterScope,
)
from pytest_evals.dialects.lm_eval.scoring.scorer import response_value
from pytest_evals.errors import DocumentError
from pytest_evals.prompts.document_warnings import IdenticalPrompts
from pytest_evals.prompts.images import without_images
from pytest_evals.scorers.choices import NO_CHOICE
from pytest_evals.scorers.metric_value import plain
from pytest_evals.scorers.metrics import MetricSpec, is_accuracy
from pytest_evals.scorers.text import shown
from pytest_evals.scorers.user_code import UserCode


class _BuiltDocument(NamedTuple):
    """The row passed to the class, its instances in the order of the responses, and our
    requests."""

    row: Any
    instances: tuple[Any, ...]
    requests: tuple[Request, ...]


class PythonDocuments:
    """Rows, questions and scores of a task object of lm-eval
    (:class:`~pytest_evals.core.task.Rows`, ``Task.ask`` and ``Task.score``)."""

    def __init__(
        self,
        task_object: PythonObject,
        name: str,
        specs: Mapping[str, MetricSpec],
        options: TaskOptions,
        metrics: ExternalMetrics,
    ) -> None:
        """Read the documents. ``metrics``: metrics that are not the class's own."""
        self._metrics = metrics
        self.generates_choices = False
        """Whether documents with choices are answered by generation."""
        task = task_object.task
        self._task, self._name, self._options = task, name, options
        self._object, self._specs = task_object, specs
        self._accuracies = {each: is_accuracy(spec) for each, spec in specs.items()}
        docs = task.task_docs if hasattr(task, "task_docs") else task.eval_docs
        is_sequence = hasattr(docs, "__len__") and hasattr(docs, "__getitem__")
        self._docs: Any = docs if is_sequence else list(docs)
        self._copies_rows = hasattr(docs, "select_columns")
        self._built: dict[int, _BuiltDocument | DocumentError] = {}
        self._n_shots = task.config.num_fewshot or 0
        sampled = self._n_shots > 0 and task_object.draws_by_sampler
        self._shots: ShotStream | None = None
        if sampled:
            excluded = options.exclude_own_shots
            self._shots = ShotStream(task, self._n_shots, self._row, excluded)
        self._in_order = task_object.depends_on_order
        self._first: tuple[int, tuple[Request, ...]] | None = None
        self._is_same = False
        """Whether several documents were built and all have the same requests."""
        self._differs = False
        self._filter_scope = FilterScope(
            lambda one, other: self._apply_filters([*one, *other])
        )

    def _row(self, index: int) -> Any:
        """A copy of a document; a dataset creates a new row on each access."""
        row = self._docs[index]
        return row if self._copies_rows else deepcopy(row)

    @cached_property
    def _ids(self) -> list[str]:
        return document_ids(self._table).ids

    @cached_property
    def _table(self) -> Table:
        rows = hasattr(self._docs, "select_columns") or all(
            isinstance(doc, Mapping) and all(isinstance(key, str) for key in doc)
            for doc in self._docs
        )
        return Table(self._docs if rows else [{} for _ in self._docs])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the documents that were built so far."""
        rows = document_ids(self._table).warnings
        warning = CROSS_DOCUMENT_WARNING.format(name=self._name)
        return (*rows, warning) if self._filter_scope.differ else rows

    @cached_property
    def _identical(self) -> IdenticalPrompts:
        return IdenticalPrompts(lambda i: self._build(i).requests, self.total)

    @property
    def identical(self) -> str:
        """Message if all documents have identical requests; empty otherwise. Other
        documents are built only if all documents that were requested are identical."""
        return self._identical.text if self._is_same and self._identical.n else ""

    def ids(self) -> Sequence[str]:
        """Unique ids of the documents to run, in order."""
        return [self._ids[i] for i in self.indices()]

    def indices(self) -> Sequence[int]:
        """Positions of these documents in the full dataset."""
        options = self._options
        return selection(self.total(), options.limit, options.sample, options.seed)

    def total(self) -> int:
        """Number of documents before limit or sample."""
        return len(self._docs)

    def ask(self, index: int) -> Asked:
        """The document at a position of the full dataset, with its requests. Raises
        DocumentError if the class fails on it, or its requests are not supported."""
        built = self._build(index)
        if self._first is None:
            self._first = (index, built.requests)
        elif index != self._first[0]:
            self._differs = self._differs or built.requests != self._first[1]
            self._is_same = not self._differs
        row = self._row(index)
        with UserCode("doc_to_target"):
            target = self._task.doc_to_target(row)
        listed = target if isinstance(target, list) else [target]
        texts = [str(item) for item in listed]
        doc = Doc(
            _question(built.requests),
            texts,
            list(range(len(texts))) if isinstance(target, list) else 0,
            id=self._ids[index],
            task_name=self._name,
            row=self._shown(index) if isinstance(row, Mapping) else {},
            target=target,
        )
        if self.generates_choices:
            self._list_choices(doc, row, built.requests)
        return Asked(doc, built.requests)

    def _list_choices(self, doc: Doc, row: Any, requests: tuple[Request, ...]) -> None:
        """Set question and choices for a generated answer: the continuations that the
        class scores."""
        scored = [one for one in requests if isinstance(one, Loglikelihood)]
        if self._n_shots:
            raise DocumentError(
                "the few-shot examples of a task class cannot be lettered\n"
                "  fix: pass --evals-num-fewshot=0 with --evals-choices=generate"
            )
        contexts = [one.context for one in scored]
        if len(scored) < 2 or contexts[0] != contexts[1]:
            raise DocumentError(
                "construct_requests returned no choices with one prompt, so they "
                "cannot be lettered\n  fix: run this task without "
                "--evals-choices=generate"
            )
        with UserCode("doc_to_text"):
            doc.query = str(self._task.doc_to_text(row))
        doc.choices = [
            one.continuation.strip() for one in scored if one.context == contexts[0]
        ]
        target = doc.target
        listed = target if isinstance(target, list) else [target]
        golds = [_position(one, doc.choices) for one in listed]
        doc.gold_index = golds if isinstance(target, list) else golds[0]

    def _shown(self, index: int) -> dict[str, Any]:
        row = dict(self._docs[index])
        if not getattr(self._task, "MULTIMODAL", False):
            return row
        stored: dict[str, Any] = without_images(row)
        return stored

    def score(self, record: Record) -> tuple[Score, ...]:
        """Scores of a document with responses: for each filter, for each metric."""
        built = self._build(record.index)
        instances = self._filtered_instances(built, record)
        # lm-eval reads dataset rows again, but keeps the row objects of a list, in
        # which a class may store a value.
        if self._copies_rows:
            row = like(self._row(record.index), record.doc.row)
        else:
            row = built.row
            read_all(record.doc.row)
        scores: list[Score] = []
        for name in instances[0].filtered_resps:
            filtered = [instance.filtered_resps[name] for instance in instances]
            with UserCode("process_results"):
                values = self._task.process_results(row, list(filtered))
                if not isinstance(values, Mapping):
                    raise DocumentError(f"it must return a mapping, not {values!r:.80}")
            kept = plain(tuple(filtered))
            scores += [
                self._score(str(metric), name, plain(value), kept)
                for metric, value in values.items()
            ]
            scores += self._metrics.scores(record, instances, name)
        if not self._in_order:  # otherwise it can be rebuilt
            self._built.pop(record.index, None)
        return tuple(scores)

    def follow_up(self, record: Record) -> Dialogue[object]:
        """Query the judges about a document with responses."""
        instances = self._filtered_instances(self._build(record.index), record)
        return self._metrics.dialogue(record, instances)

    def _score(
        self, metric: str, name: str, value: Any, filtered: tuple[Any, ...]
    ) -> Score:
        binary = isinstance(value, bool | int | float) and value in (0, 1)
        texts = [each for each in filtered if isinstance(each, str)]
        return Score(
            metric=metric,
            filter=name,
            value=value,
            correct=value == 1 if binary and self._accuracies.get(metric) else None,
            answer=shown(texts[0]) if texts else "",
            filtered=filtered,
            lender=""
            if metric in self._specs
            else self._object.source_metric(metric, self._specs),
        )

    def _filtered_instances(self, built: _BuiltDocument, record: Record) -> list[Any]:
        instances = [copy(each) for each in built.instances]
        responses = iter(zip(record.requests, record.responses, strict=True))
        for instance in instances:
            if self._copies_rows and hasattr(instance, "doc"):
                instance.doc = like(instance.doc, record.doc.row)
            n = repeats_of(instance)
            instance.resps = [_value(*next(responses)) for _ in range(n)]
        filtered = self._apply_filters(instances)
        if not instances[0].filtered_resps:
            raise DocumentError("apply_filters: the class has no filter")
        self._filter_scope.check(list(map(copy, instances)), filtered)
        return instances

    def _apply_filters(self, instances: Sequence[Any]) -> list[dict[str, Any]]:
        for instance in instances:
            instance.filtered_resps = {}
        with UserCode("apply_filters"):
            self._task._instances = list(instances)
            self._task.apply_filters()
        for instance in instances:  # pipeline names may be numbers
            filtered = instance.filtered_resps
            instance.filtered_resps = {str(name): filtered[name] for name in filtered}
        return [dict(instance.filtered_resps) for instance in instances]

    def _build(self, index: int) -> _BuiltDocument:
        first = len(self._built) if self._in_order else index
        for i in range(first, index + 1):
            if i not in self._built:
                self._built[i] = self._build_or_error(i)
        built = self._built[index]
        if isinstance(built, DocumentError):
            raise built
        return built

    def _build_or_error(self, index: int) -> _BuiltDocument | DocumentError:
        if self._shots is not None:
            self._task.sampler = self._shots.of(index)
        try:
            return self._call_class(index)
        except DocumentError as error:
            return error

    def _call_class(self, index: int) -> _BuiltDocument:
        task, options, doc = self._task, self._options, self._row(index)
        template = chat_text if options.chat else None
        with UserCode("fewshot_context"):
            context = task.fewshot_context(
                doc,
                num_fewshot=self._n_shots,
                system_instruction=options.system_instruction or None,
                apply_chat_template=options.chat,
                fewshot_as_multiturn=options.chat and options.fewshot_as_multiturn,
                chat_template=template,
                gen_prefix=task.doc_to_prefix(doc),
            )
        with UserCode("construct_requests"):
            made = task.construct_requests(
                doc=doc,
                ctx=context,
                metadata=(self._name, index, task.config.repeats),
                apply_chat_template=options.chat,
                chat_template=template,
            )
        instances = made if isinstance(made, list) else [made]
        if not instances:
            raise DocumentError("construct_requests returned no requests")
        instances = sorted(instances, key=lambda instance: instance.idx)
        return _BuiltDocument(doc, tuple(instances), requests_of(instances, context))


def _position(target: Any, choices: Sequence[str]) -> int:
    """The position of a target, which is a position or a text, among choices."""
    if isinstance(target, int):
        return target if target < len(choices) else NO_CHOICE
    text = str(target).strip()
    return choices.index(text) if text in choices else NO_CHOICE


def _question(requests: Sequence[Request]) -> str:
    """The first prompt; of a chat, its last message."""
    first = requests[0]
    if isinstance(first, Generate):
        prompt = first.prompt
    else:
        prompt = first.context if isinstance(first, Loglikelihood) else first.text
    return prompt if isinstance(prompt, str) else prompt[-1].content


def _value(request: Request, response: Response) -> Any:
    is_scored = isinstance(request, Loglikelihood)  # its greedy flag may be unknown
    return response_value("multiple_choice" if is_scored else request.kind, response)
