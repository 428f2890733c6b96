"""``vllm.sampling_params``."""

from enum import Enum
from types import SimpleNamespace

RequestOutputKind = Enum("RequestOutputKind", ["FINAL_ONLY"])


class SamplingParams(SimpleNamespace):
    """Parameters without checks."""

    __struct_fields__ = ("stop", "top_p")
