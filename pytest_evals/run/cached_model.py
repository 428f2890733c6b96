"""Open models, with the response cache in front of each: which responses are stored,
and which are reused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.model import NO_FINGERPRINT, Model, ModelOpener
from pytest_evals.core.request import Render
from pytest_evals.core.response_contract import as_model, described
from pytest_evals.core.result import Reuse
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.registry import (
    ModelHook,
    answering,
    check_ready,
    fingerprint_of,
    import_libraries,
    is_deterministic,
    open_model,
    open_tokenizer,
    parse_spec,
)
from pytest_evals.models.spec import ModelSpec, is_command
from pytest_evals.run.verdicts import StoredVerdicts
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.store.cache import EncodedFiles, FileHashes
from pytest_evals.store.model import StoredModel
from pytest_evals.store.responses import Responses

Cache: TypeAlias = Literal["use", "refresh", "off", "only"]
"""Use of the response cache: read and write, write only, neither, or read only."""


class CachedModels:
    """Puts the response cache in front of a session's models."""

    def __init__(
        self,
        folder: Path,
        cache: Cache,
        hook: ModelHook,
        *,
        opens: bool = True,
        commands: Collection[str] | None = None,
    ) -> None:
        """Creates no file until a model is opened. ``opens``: whether models may be
        opened, or only stored responses are used. ``commands``: specs of the user's own
        whose commands may be executed; ``None`` for all."""
        self._folder, self._cache, self._hook = folder, cache, hook
        self._commands = (
            None if commands is None else {parse_spec(c).target for c in commands}
        )
        self._hashes: FileHashes | None = None
        self._stored: list[StoredModel] = []
        self._note = ""
        self._is_closed = not opens
        self._verdicts: StoredVerdicts | None = None
        if opens and cache != "off":
            self._verdicts = StoredVerdicts(folder, reads=cache != "refresh")
            current_sandbox().verdicts = self._verdicts
        self.on_load: Callable[[str], None] = lambda name: None
        """Called with the name of a model before it is loaded."""
        self.importing: Callable[[], AbstractContextManager[None]] = nullcontext
        """Context in which a model's libraries are imported."""

    def named(self, text: str) -> Model:
        """The model of a spec, with the cache in front of it.

        A model that was never opened with this cache is opened at once, so that its
        errors appear before the first document.

        Raises:
            OptionError: The spec is invalid; or the model has no fingerprint, and only
                stored responses may be used.
            ModelError: The model cannot be opened.
        """
        hooked = self._hook.open(text)
        if hooked is not None:
            return self.given(hooked)
        spec = self._parsed(text)
        if self._cache == "off":
            return self._load(spec)
        fingerprint = self._fingerprint(spec)
        if fingerprint is None:
            self._refuse_cache_only(text)
            return self.given(self._load(spec))
        key, opened = fingerprint, None
        if spec.is_command:
            key = self._of_server(fingerprint)
            if key == fingerprint and not self._is_closed:
                opened = self._load(spec)
                key = self._of_server(fingerprint, opened)
        model = StoredModel(
            str(answering(spec)),
            self._responses(key),
            None
            if self._is_closed
            else lambda: opened or self._opened(spec, fingerprint, key),
            lambda: _renders(spec),
            reads=self._cache != "refresh",
            is_deterministic=is_deterministic(spec),
        )
        self._stored.append(model)
        if opened is not None or not (self._is_closed or model.is_known):
            try:
                model.opened()
            except BaseException:
                model.close()
                raise
        return model

    def _opened(
        self, spec: ModelSpec, fingerprint: Mapping[str, Any], key: Mapping[str, Any]
    ) -> Model:
        """Open a model whose responses are stored under these fingerprints: without and
        with the facts of a started server."""
        model = self._load(spec)
        if self._fingerprint(spec) != fingerprint:
            raise ModelError(
                f"the files of {spec} changed while the model was opened\n"
                "  fix: run again"
            )
        if spec.is_command and self._of_server(fingerprint, model) != key:
            model.close()
            raise ModelError(
                f"{spec} is another version or model than the one whose responses are "
                "stored\n  fix: run again: the stored ones are not used then"
            )
        return model

    def _parsed(self, text: str) -> ModelSpec:
        """The spec of a text, whose command may be executed."""
        spec = parse_spec(text)
        allowed = self._commands
        if spec.is_command and allowed is not None and spec.target not in allowed:
            raise OptionError(
                f"{spec} would execute a command that a file names\n"
                "  fix: if you trust the file, add --evals-allow-server-commands; "
                "evaluate() takes commands as model= and judge="
            )
        return spec

    def _load(self, spec: ModelSpec) -> Model:
        self.on_load(masked_text(str(spec)))
        with self.importing():
            import_libraries(spec)
        model = open_model(spec)
        if self._cache != "off":
            reads = self._cache != "refresh"
            model.keep_encoded(EncodedFiles(self._folder, reads=reads))
        return model

    @property
    def opens_itself(self) -> bool:
        """Whether all models of specs were opened here, and none by a hook."""
        return not self._hook.has_opened

    def is_hooked(self, text: str) -> bool:
        """Whether a hook opens the model of a spec, so that its fingerprint is unknown
        before. May call the hook."""
        return self._hook.takes(text)

    @property
    def reuses(self) -> bool:
        """Whether stored responses are reused."""
        return self._cache in ("use", "only")

    def unready(
        self, text: str, check: Callable[[ModelSpec], None] = check_ready
    ) -> EvalsError | None:
        """Why the model of a spec cannot be opened here, determined without opening it;
        ``None`` if no reason is known."""
        if self._is_closed:
            return None
        try:
            check(self._parsed(text))
        except EvalsError as error:
            return None if self.is_hooked(text) else error
        return None

    def without_model(self, source: ModelSource) -> StoredModel | None:
        """The stored responses of a model; other requests get an error. ``None`` if the
        fingerprint is unknown without opening the model."""
        if self._cache == "off":
            return None
        name, fingerprint = "", None
        if isinstance(source, ModelOpener):
            name, fingerprint = source.name, source.fingerprint
            fingerprint = fingerprint and _key(name, fingerprint)
        elif isinstance(source, str) and not self.is_hooked(source):
            spec = parse_spec(source)
            name, fingerprint = str(spec), self._fingerprint(spec)
        if fingerprint is None:
            return None
        if isinstance(source, str) and is_command(source):
            fingerprint = self._of_server(fingerprint)
        responses = Responses(self._folder, fingerprint, writes=False)
        return StoredModel(
            name,
            responses,
            None,
            reads=self._cache != "refresh",
            is_deterministic=self.is_deterministic(source),
        )

    def is_deterministic(self, source: ModelSource) -> bool:
        """Whether a model is known to be deterministic before it is opened."""
        if not isinstance(source, str) or self.is_hooked(source):
            return False
        return is_deterministic(parse_spec(source))

    def given(self, given: object, source: str = "") -> Model:
        """A model that was opened elsewhere, with the cache in front of it if it has a
        fingerprint.

        Raises:
            OptionError: The model has no fingerprint, and only stored responses may be
                used.
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
            responses = self._responses(_key(name, fingerprint))
        except TypeError as error:
            raise OptionError(
                f"the fingerprint of the model {name!r} is not JSON: {error}\n"
                "  fix: make it a mapping of strings, numbers, lists and mappings"
            ) from None
        stored = StoredModel(
            name,
            responses,
            None if self._is_closed else lambda: model,
            lambda: model.render,
            reads=self._cache != "refresh",
            is_deterministic=model.is_deterministic,
        )
        self._stored.append(stored)
        if not self._is_closed:
            stored.opened()  # the inner model is closed with the outer one
        return stored

    @property
    def reuse(self) -> Reuse:
        """Use of the cache so far."""
        total = Reuse(note=self._note)
        for model in self._stored:
            total += model.reuse
        return total

    def close(self) -> None:
        """Write pending responses and close the cache; owners close their models."""
        self._hook.close()
        for model in self._stored:
            model.flush()
        if self._verdicts is not None:
            self._verdicts.close()

    def _responses(self, fingerprint: Mapping[str, Any]) -> Responses:
        return Responses(self._folder, fingerprint, writes=not self._is_closed)

    def _of_server(
        self, fingerprint: Mapping[str, Any], opened: Model | None = None
    ) -> Mapping[str, Any]:
        """The fingerprint with the model and version that a started server has; those
        of the last time unless it is open. Unknown before the first time."""
        responses = Responses(self._folder, fingerprint, writes=not self._is_closed)
        try:
            if opened is not None:
                server = opened.info["server"]
                facts = {name: server[name] for name in ("model", "version")}
                if facts != (responses.info or {}).get("server"):
                    responses.keep_info({"server": facts})
            else:
                facts = (responses.info or {}).get("server", {})
        finally:
            responses.close()
        return {**fingerprint, "server": facts} if facts else fingerprint

    def _fingerprint(self, spec: ModelSpec) -> Mapping[str, Any] | None:
        if self._hashes is None:
            self._hashes = FileHashes(self._folder)
        return fingerprint_of(spec, self._hashes)

    def _refuse_cache_only(self, name: str) -> None:
        if self._cache == "only":
            raise OptionError(
                f"--evals-cache=only reads stored responses only, and those of {name} "
                "are never stored\n  fix: leave --evals-cache=only out"
            )


def _key(name: str, fingerprint: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"given": name, **fingerprint}


def _renders(spec: ModelSpec) -> Render:
    tokenizer = open_tokenizer(spec)
    return (lambda prompt: prompt) if tokenizer is None else tokenizer.render
