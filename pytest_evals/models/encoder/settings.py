"""Arguments of ``encoder:`` specs. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.models.spec import Arguments, ModelSpec, argument, one_of, whole

POOLING_FILE = "1_Pooling/config.json"  # The pooling of sentence-transformers
POOLINGS = ("mean", "cls", "last")
_REFUSED = {
    "dtype": "encoders compute in float32",
    "tokenizer": "an encoder uses the tokenizer in its folder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """Settings of an encoder; the fields are the arguments.

    Args:
        target: Folder of the model, or its name on the Hub.
        revision: Branch, tag or commit on the Hub; empty for the default branch.
        pooling: How the embeddings of tokens are combined; empty for the model's own
            (``1_Pooling/config.json``), else their mean.
        max_length: Tokens of a text, of which the rest is cut off; 0 for the model's
            own.
        device: Empty for ``cuda`` if there is one, else ``cpu``.
        batch_size: Most texts of a batch.
        trust_remote_code: Whether code that comes with the model may run.
    """

    target: str
    revision: str = argument(Arguments.text, "")
    pooling: str = argument(one_of(POOLINGS), "")
    max_length: int = argument(whole(1), 0)
    device: str = argument(Arguments.text, "")
    batch_size: int = argument(whole(1), 32)
    trust_remote_code: bool = argument(Arguments.flag, False)


def read_settings(spec: ModelSpec) -> EncoderSettings:
    """The settings of a spec, or ``OptionError`` for an unknown or bad argument."""
    given = Arguments("encoder").read(spec, EncoderSettings, _REFUSED)
    return EncoderSettings(target=spec.target, **given)
