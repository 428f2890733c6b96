"""A model that is a user's function from request body to reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.models.adapters import Adapter, ModelInfo
from pytest_evals.guests.latticeflow.models.messages import (
    ModelInput,
    model_input_of,
    response_of,
)

NO_SCORES = "a model of a LatticeFlow file writes texts and gives no log-probabilities"
Run = Callable[[str, Mapping[str, Any] | None], Any]
"""Function from a body and the sample to a reply. Raises ``DocumentError``."""


class FunctionModel(Model):
    """Calls a function for each request; in threads, if several calls may run at the
    same time (``width``)."""

    def __init__(
        self,
        info: ModelInfo,
        adapter: Adapter,
        run: Run,
        fingerprint: Mapping[str, Any],
        width: int = 1,
    ) -> None:
        self.name = info.name
        self.info: dict[str, Any] = {"model": info.name}
        self.fingerprint: Mapping[str, Any] | None = fingerprint
        self._info, self._adapter, self._run, self._width = info, adapter, run, width

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Call the function for each request."""
        if self._width == 1 or len(requests) < 2:
            for place, request in enumerate(requests):
                yield place, self._one(request)
            return
        pool = ThreadPoolExecutor(self._width, thread_name_prefix="evals-latticeflow")
        try:
            futures = {pool.submit(self._one, r): n for n, r in enumerate(requests)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, request: Request) -> Response:
        given = model_input_of(request)
        if given is None:
            return Response(error=NO_SCORES)
        began = time.perf_counter()
        try:
            output = self._output(given)
        except DocumentError as error:
            return Response(error=str(error))
        took_s = time.perf_counter() - began
        return response_of(output, took_s / self._width, took_s)

    def _output(self, given: ModelInput) -> Any:
        body = self._adapter.to_body(given.input, given.kwargs, self._info)
        reply = self._run(body, given.sample)
        if not isinstance(reply, str):
            raise DocumentError(f"run_inference returns a text, not {reply!r:.80}")
        return self._adapter.to_output(reply, 200, self._info)
