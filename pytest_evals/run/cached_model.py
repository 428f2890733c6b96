"""Models that are opened, with the store of responses in front of them: which responses
are kept, and which are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_evals.core.model import NO_FINGERPRINT, Model
from pytest_evals.core.request import Render
from pytest_evals.core.response_contract import as_model, described
from pytest_evals.core.result import Reuse
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.models.registry import (
    ModelHook,
    answering,
    check_ready,
    fingerprint_of,
    open_cutter,
    open_model,
    parse_spec,
)
from pytest_evals.models.spec import ModelSpec
from pytest_evals.store.hashes import FileHashes
from pytest_evals.store.model import StoredModel
from pytest_evals.store.responses import Responses

Cache: TypeAlias = Literal["use", "refresh", "off", "only"]
"""How stored responses are used: read and written, written only, neither, or read
only."""


class CachedModels:
    """Puts the store in front of a session's models."""

    def __init__(
        self, folder: Path, cache: Cache, hook: ModelHook, *, opens: bool = True
    ) -> None:
        """Nothing is on disk until a model is opened.

        Args:
            folder: The results folder.
            cache: How stored responses are used.
            hook: The users' hook that opens models.
            opens: Whether models are opened; without it only stored responses are used.
        """
        self._folder, self._cache, self._hook = folder, cache, hook
        self._hashes: FileHashes | None = None
        self._stored: list[StoredModel] = []
        self._note = ""
        self._is_closed = not opens

    def named(self, text: str) -> Model:
        """The model that a spec names, with its store in front.

        It is opened at once if it never was while this store was used: what is wrong
        with it is better known before the first document.

        Raises:
            OptionError: The spec has a mistake; or nothing of this model can be stored,
                and only what is stored may be used.
            ModelError: The model cannot be opened.
        """
        hooked = self._hook.open(text)
        if hooked is not None:
            return self.given(hooked)
        spec = parse_spec(text)
        if self._cache == "off":
            return open_model(spec)
        fingerprint = self._fingerprint(spec)
        if fingerprint is None:
            self._refuse_cache_only(text)
            return self.given(open_model(spec))

        def open_same() -> Model:
            model = open_model(spec)
            if self._fingerprint(spec) != fingerprint:
                raise ModelError(
                    f"the files of {spec} changed while the model was opened\n"
                    "  fix: run again"
                )
            return model

        model = StoredModel(
            str(answering(spec)),
            self._responses(fingerprint),
            None if self._is_closed else open_same,
            lambda: _renders(spec),
            reads=self._cache != "refresh",
        )
        self._stored.append(model)
        if not self._is_closed and not model.is_known:
            try:
                model.opened()
            except BaseException:
                model.close()
                raise
        return model

    @property
    def opens_itself(self) -> bool:
        """Whether all models that specs name were opened here, and none by a hook."""
        return not self._hook.has_opened

    def is_hooked(self, text: str) -> bool:
        """Whether a hook opens the model that a spec names, so that nothing is known of
        it before. The hook may be called for that."""
        return self._hook.takes(text)

    @property
    def reuses(self) -> bool:
        """Whether stored responses are used."""
        return self._cache in ("use", "only")

    def unready(self, text: str) -> EvalsError | None:
        """Why the model that a spec names cannot be opened here, as far as it is known
        without opening it; ``None`` if nothing is known against it."""
        if self._is_closed:
            return None
        try:
            check_ready(parse_spec(text))
        except EvalsError as error:
            return None if self.is_hooked(text) else error
        return None

    def without_model(self, text: str) -> StoredModel | None:
        """The stored responses of the model that a spec names; whatever else is asked
        is an error. ``None`` if only the model itself could say which are its own.

        Raises:
            OptionError: The spec has a mistake.
        """
        if self._cache == "off" or self.is_hooked(text):
            return None
        spec = parse_spec(text)
        fingerprint = self._fingerprint(spec)
        if fingerprint is None:
            return None
        responses = Responses(self._folder, fingerprint, writes=False)
        reads = self._cache != "refresh"
        return StoredModel(str(spec), responses, None, reads=reads)

    def given(self, given: object, source: str = "") -> Model:
        """A model that was opened elsewhere, with its store in front if it has a
        fingerprint.

        Args:
            given: What a fixture, a function or a hook returned.
            source: Which one, for messages.

        Raises:
            OptionError: Nothing of it can be stored, and only that may be used.
            ModelError: It is not a model, or a member has the wrong type.
        """
        model = as_model(given, source)
        if self._cache == "off" or isinstance(model, StoredModel):
            return model
        name, fingerprint = model.name, model.fingerprint
        if fingerprint is None or fingerprint is NO_FINGERPRINT:
            if fingerprint is not None:
                self._note = f"{name} has no fingerprint"
            self._refuse_cache_only(name)
            return model
        if not isinstance(fingerprint, Mapping):
            raise ModelError(
                f"the fingerprint of the model {name!r} is {described(fingerprint)}\n"
                "  fix: make it a mapping of JSON values, or None"
            )
        try:
            responses = self._responses({"given": name, **fingerprint})
        except TypeError as error:
            raise OptionError(
                f"the fingerprint of the model {name!r} is no JSON: {error}\n"
                "  fix: make it a mapping of texts, numbers, lists and mappings"
            ) from None
        stored = StoredModel(
            name,
            responses,
            None if self._is_closed else lambda: model,
            lambda: model.render,
            reads=self._cache != "refresh",
        )
        self._stored.append(stored)
        if not self._is_closed:
            stored.opened()  # it is, so that closing the one closes the other
        return stored

    @property
    def reuse(self) -> Reuse:
        """What came from the store so far."""
        found = Reuse(note=self._note)
        for model in self._stored:
            found += model.reuse
        return found

    def close(self) -> None:
        """Write what is to be stored; what models hold is their fixtures' matter."""
        self._hook.close()
        for model in self._stored:
            model.settle()

    def _responses(self, fingerprint: Mapping[str, Any]) -> Responses:
        return Responses(self._folder, fingerprint, writes=not self._is_closed)

    def _fingerprint(self, spec: ModelSpec) -> Mapping[str, Any] | None:
        """What identifies a spec's model; ``None`` if only the model itself can say."""
        if self._hashes is None:
            self._hashes = FileHashes(self._folder)
        return fingerprint_of(spec, self._hashes)

    def _refuse_cache_only(self, name: str) -> None:
        if self._cache == "only":
            raise OptionError(
                f"--evals-cache=only reads stored responses only, and those of {name} "
                "are never stored\n  fix: leave --evals-cache=only out"
            )


def _renders(spec: ModelSpec) -> Render:
    cutter = open_cutter(spec)
    return (lambda prompt: prompt) if cutter is None else cutter.render
