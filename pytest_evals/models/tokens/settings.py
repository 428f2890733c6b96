"""Arguments of model specs about the tokenizer. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.models.registry import TaskRequirements
from pytest_evals.models.spec import Arguments, argument, whole

_THINKS = (
    "enable_thinking=true: the model's reasoning follows the prompt, and a task scores "
    "its continuations there\n  fix: leave enable_thinking out"
)
TOKENIZATIONS = ("lm_eval", "lighteval")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSettings:
    """Where a model's tokenizer is, and its rules; the fields are arguments."""

    target: str  # Folder of the model, or its name on the Hub
    revision: str = argument(Arguments.text, "")
    """Branch, tag or commit on the Hub; empty for the default branch."""
    trust_remote_code: bool = argument(Arguments.flag, False)
    """Whether code that comes with the model may run."""
    tokenizer: str = argument(Arguments.text, "")
    """Folder or name of another tokenizer; empty for the model's own."""
    add_bos_token: bool | None = argument(Arguments.flag, None)
    """Whether texts get the tokenizer's special tokens; ``None`` for the tokenizer's
    default. ``False`` leaves P(BOS | BOS) out of the rolling log-likelihood, which lm-
    eval's contains."""
    tokenization: str = "lm_eval"
    """Rules for special tokens and for the boundary between a context and its
    continuation: those of lm-eval, or of lighteval's transformers backend."""
    prefix_token_id: int | None = argument(whole(0), None)
    """The token before a text without context; ``None`` for BOS, else EOS."""
    chat_template_args: Mapping[str, Any] = argument(Arguments.mapping, {})
    """Arguments of the chat template, such as ``{"enable_thinking": false}``."""
    enable_thinking: bool | None = argument(Arguments.flag, None)
    """The one of them that most want; ``None`` for what the template does by
    default."""
    think_end_token: str = argument(Arguments.text, "")
    """Text, or the id of a token, that ends the model's thinking: the answer is what
    comes after its last occurrence. Empty for none."""

    @property
    def template_args(self) -> Mapping[str, Any]:
        """All arguments of the chat template."""
        if self.enable_thinking is None:
            return self.chat_template_args
        return {**self.chat_template_args, "enable_thinking": self.enable_thinking}


def check_thinking(kind: str, settings: TokenizerSettings) -> None:
    """Check that an answer can be separated from the thinking before it."""
    if settings.enable_thinking and not settings.think_end_token:
        raise OptionError(
            f"the {kind} model's enable_thinking needs think_end_token, the text that "
            "ends the thinking, such as '</think>': the answer begins behind it"
        )


def why_thinking_unfit(settings: TokenizerSettings, needs: TaskRequirements) -> str:
    """Why a model that thinks before it answers cannot run a task; empty if it can."""
    scored = needs.chat and needs.output_type in ("loglikelihood", "multiple_choice")
    return _THINKS if scored and settings.enable_thinking else ""
