"""A model with a response cache: only requests that are not stored reach the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from pytest_evals.core.key import RequestKey, request_keys
from pytest_evals.core.model import Model
from pytest_evals.core.request import UNSENT, Prompt, Render, Request, Response
from pytest_evals.core.response_contract import checked_response, responses_of
from pytest_evals.core.result import Reuse
from pytest_evals.errors import DocumentError
from pytest_evals.store.responses import Responses

SENT_S = 30.0  # Seconds that a run waits for requests in flight when it ends early
Read = Callable[[Response], object]
"""Raises ``DocumentError`` if a response cannot be read."""
_Keys = list[RequestKey | None]
_Found = dict[RequestKey, Response]
_OF_A_RUN = ("first_tokens", "usage")
"""Fields of a model's info that describe a run and not the model."""
NOT_STORED = (
    "not in the store: this model has not answered this request before\n"
    "  fix: run once without --evals-cache=only"
)


def _is_readable(response: Response, read: Read | None) -> bool:
    """Whether a response is a refusal or has no error, and can be read."""
    if response.error and not response.is_refusal:
        return False
    try:
        if read is not None:
            read(response)
    except (DocumentError, LookupError, TypeError, ValueError):
        return False
    return True


class StoredModel(Model):
    """A model with a response store in front of it.

    Stored responses are returned first. The model is opened for the first request that
    is not stored, and its responses are stored as they arrive.
    """

    def __init__(
        self,
        name: str,
        responses: Responses,
        open_model: Callable[[], Model] | None,
        open_render: Callable[[], Render] = lambda: lambda prompt: prompt,
        *,
        reads: bool = True,
        is_deterministic: bool = False,
    ) -> None:
        """Set up the cache without opening the model. ``open_model``: ``None`` if it
        must not be opened, so that requests without a stored response are errors.
        ``open_render``: opens a renderer of chats that does not need the model."""
        self.name = name
        self.is_deterministic: bool = is_deterministic
        self._responses = responses
        self._open_model = open_model
        self._open_render = open_render
        self._render: Render | None = None
        self._reads = reads
        self._model: Model | None = None
        self._n_asked = self._n_reused = self._n_tokens = 0
        self._elapsed_s = 0.0
        self._stored_info = responses.info
        self._expected: Sequence[Request] = ()
        self._has_waited = False
        self._lock = Lock()  # a model may pass responses on in its own thread
        self._sent: Mapping[Request, RequestKey | None] = {}
        """Keys of the requests of the last batch, whose prompts are hashed once."""
        self._arrived: set[RequestKey | None] = set()
        """Requests whose responses are stored and not yielded."""
        self._readers: Mapping[Request, Read] = {}
        self._tasks: Sequence[str] = ()

    def asked_by(self, tasks: Sequence[str]) -> None:
        """Set the tasks of the next requests, one each, for the sizes and the age of
        stored responses."""
        self._tasks = tasks

    def read_by(self, readers: Mapping[Request, Read]) -> None:
        """Set how responses to the next requests are read. Those that cannot be read
        are not stored; if they are stored, the requests are sent again."""
        self._readers = readers

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Answer all requests, stored responses first."""
        self._expected = ()
        keys, found = self._look_up(requests)
        tasks, self._tasks = self._tasks, ()
        self._responses.use(keys, tasks if len(tasks) == len(keys) else ())
        missing: list[int] = []
        for position, (request, key) in enumerate(zip(requests, keys, strict=True)):
            response = found.get(key) if key is not None else None
            if response is not None:
                # Earlier versions stored responses without checking them.
                response = checked_response(request, response, self)
            read = None if self._open_model is None else self._readers.get(request)
            if response is None or not _is_readable(response, read):
                missing.append(position)
                continue
            self._n_reused += 1
            self._elapsed_s += response.elapsed_s
            yield position, response
        if missing and self._open_model is None:
            for position in missing:
                yield position, Response(error=NOT_STORED)
        elif missing:
            yield from self._ask(requests, keys, missing)

    def end(self, requests: Sequence[Request], /) -> None:
        """Pass the requests of a complete document to an open model."""
        if self._model is not None:
            self._model.end(requests)

    def expect(self, requests: Sequence[Request], /) -> None:
        """Announce further requests, passed on once the model has started its own."""
        if self._model is not None:
            self._expected = requests

    def _pass_on(self) -> None:
        requests, self._expected = self._expected, ()
        keys, found = self._look_up(requests)
        missing = [
            request
            for request, key in zip(requests, keys, strict=True)
            if key is None or key not in found
        ]
        if missing:
            self.opened().expect(missing)

    def _look_up(self, requests: Sequence[Request]) -> tuple[_Keys, _Found]:
        keys = list(request_keys(requests))
        known = [key for key in keys if key is not None] if self._reads else []
        return keys, self._responses.read(known)

    def _ask(
        self,
        requests: Sequence[Request],
        keys: Sequence[RequestKey | None],
        missing: Sequence[int],
    ) -> Iterator[tuple[int, Response]]:
        """Yield the model's responses; store those that the model has not passed to
        :meth:`_received`."""
        asked = [requests[i] for i in missing]
        self._sent = {requests[i]: keys[i] for i in missing}
        self._has_waited = False
        for place, response in responses_of(asked, self.opened()):
            if self._expected:
                self._pass_on()
            position = missing[place]
            key = keys[position]
            with self._lock:
                is_stored = key in self._arrived
                self._arrived.discard(key)
            if not is_stored:
                self._keep(key, asked[place], response)
            yield position, response

    def _received(self, request: Request, response: Response) -> None:
        """Store a response, in the thread of the model that has received it."""
        key = self._sent.get(request) or next(request_keys([request]))
        if key is not None:
            response = checked_response(request, response, self.opened())
            self._keep(key, request, response)
            with self._lock:
                self._arrived.add(key)

    def _keep(
        self, key: RequestKey | None, request: Request, response: Response
    ) -> None:
        with self._lock:
            self._n_asked += response.finish != UNSENT
            self._n_tokens += response.n_prompt_tokens + response.n_tokens
        read = self._readers.get(request)
        if key is not None and _is_readable(response, read):
            self._responses.add(key, response)

    def opened(self) -> Model:
        """Return the underlying model; open it if necessary. Raises ``RuntimeError`` if
        it must not be opened."""
        if self._model is None:
            if self._open_model is None:
                raise RuntimeError(f"{self.name} must not be opened")
            self._model = self._open_model()
            self._model.on_response = self._received
            self._responses.keep_info(self.info)
        return self._model

    @property
    def is_open(self) -> bool:
        """Return whether the underlying model is open."""
        return self._model is not None

    def unopened(self) -> StoredModel:
        """Return a copy without the model: missing responses are errors."""
        return StoredModel(
            self.name,
            self._responses,
            None,
            lambda: self.render,
            reads=self._reads,
            is_deterministic=self.is_deterministic,
        )

    @property
    def works_ahead(self) -> bool:
        """Return whether the open model computes between two responses."""
        return self._model is not None and self._model.works_ahead

    @property
    def replicas(self) -> int:
        """Return the number of the open model's replicas."""
        return 1 if self._model is None else self._model.replicas

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Return the fingerprint that identifies the model."""
        return self._responses.fingerprint

    @property
    def is_known(self) -> bool:
        """Return whether the model has ever been opened with this store."""
        return self._model is not None or self._stored_info is not None

    @property
    def info(self) -> Mapping[str, Any]:
        """Return the model's info; if it is not open, what is stored of it."""
        if self._model is not None:
            return self._model.info
        stored = self._stored_info or {}
        return {name: value for name, value in stored.items() if name not in _OF_A_RUN}

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of the model and of the store."""
        of_model = () if self._model is None else self._model.notes
        return (*of_model, *self._responses.notes, *self._responses.secret_notes)

    def render(self, prompt: Prompt) -> Prompt:
        """Return the rendered chat; the model need not be open."""
        if self._model is not None:
            return self._model.render(prompt)
        if self._render is None:
            self._render = self._open_render()
        return self._render(prompt)

    @property
    def reuse(self) -> Reuse:
        """Return the counts of stored and new responses so far."""
        return Reuse(
            n_asked=self._n_asked,
            n_reused=self._n_reused,
            n_tokens=self._n_tokens,
            elapsed_s=self._elapsed_s,
        )

    def stop_sending(self) -> None:
        """Send no further requests."""
        self._has_waited = False
        if self._model is not None:
            self._model.stop_sending()

    def wait_for_sent(self, limit_s: float, /) -> int:
        """Wait for the requests in flight, and commit all responses."""
        self._has_waited = True
        try:
            return 0 if self._model is None else self._model.wait_for_sent(limit_s)
        finally:
            self.flush()

    def flush(self) -> None:
        """Commit all responses."""
        self._responses.flush()

    def close(self) -> None:
        """Commit all responses, update the info, and close an open model. Requests in
        flight are answered before, unless the run has waited for them already."""
        if not self._has_waited:
            self.stop_sending()
            self.wait_for_sent(SENT_S)
        if self._model is not None:
            self._model.on_response = None
            self._responses.keep_info(self.info)
        self._responses.close()
        if self._model is not None:
            self._model.close()
