"""How a template puts choices: listed or not, answered by label or by text (lighteval
0.13.0, ``tasks/templates/utils/formulation.py``). Tasks have its name in theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CFFormulation",
    "ChoicePrefix",
    "Formulation",
    "HybridFormulation",
    "MCFFormulation",
]

ChoicePrefix = Literal["Letters", "NativeLetters", "Numbers"]
"""What stands in front of a listed choice."""


@dataclass(frozen=True)
class MCFFormulation:
    """Choices are listed, and the answer is the label of one."""

    choice_prefix: ChoicePrefix = "Letters"
    name: str = "MCF"


@dataclass(frozen=True)
class HybridFormulation:
    """Choices are listed, and the answer is the text of one."""

    choice_prefix: ChoicePrefix = "Letters"
    name: str = "Hybrid"


@dataclass(frozen=True)
class CFFormulation:
    """Choices are not listed, and the answer is the text of one."""

    name: str = "CF"


Formulation = MCFFormulation | HybridFormulation | CFFormulation
