"""``pytest.mark.parametrize`` on evals in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from _pytest.compat import NOTSET
from _pytest.python import FunctionDefinition, Metafunc

from pytest_evals.core.node_names import document_id
from pytest_evals.dialects.native.cases import ONE_SET, ParameterSet
from pytest_evals.dialects.native.python import Eval

Refuse = Callable[..., None]  # raises a problem of the eval: what, and the fix
_NOT_IN_NAMES = str.maketrans("[]/", "()_")


def parameter_sets(
    node: pytest.Collector, found: Eval, refuse: Refuse
) -> Sequence[ParameterSet]:
    """The parameter sets of an eval, its variants, with pytest's ids; one without
    parameters if it has no marker. Ids that are equal once they are as short as those
    of documents are numbered.

    Raises:
        TaskFileError: The marker is invalid, or uses what evals do not support.
    """
    marks = [mark for mark in node.own_markers if mark.name == "parametrize"]
    if not marks:
        return (ONE_SET,)
    if any(mark.kwargs.get("indirect") for mark in marks):
        refuse(
            "parametrize with indirect=True is not supported",
            "yield a case for each parameter",
        )
    sets = []
    for call in _calls(node, found, refuse, marks):
        if NOTSET in call.params.values():
            refuse("parametrize has no values")
        if call.marks:
            refuse(
                f"pytest.param(…, marks=…) is not supported (parameter set {call.id})",
                "remove the marks, or mark the eval",
            )
        sets.append(ParameterSet(call.id, dict(call.params)))
    names = [document_id(one.id).translate(_NOT_IN_NAMES) for one in sets]
    if not all(names) or len({*names}) < len(names):
        names = [f"{'-'.join(one.values)}{n}" for n, one in enumerate(sets)]
    return [one._replace(id=name) for one, name in zip(sets, names, strict=True)]


def _calls(
    node: pytest.Collector, found: Eval, refuse: Refuse, marks: Sequence[pytest.Mark]
) -> Sequence[Any]:
    """pytest's calls of the function of cases.

    There is no public way to get them without a test function.
    """
    module = cast("pytest.Module", node.parent)
    function = found.cases
    try:
        name = found.name
        definition = FunctionDefinition.from_parent(module, name=name, callobj=function)
        metafunc = Metafunc(
            definition,
            definition._fixtureinfo,
            node.config,
            module=module.obj,
            _ispytest=True,
        )
        for mark in marks:
            metafunc.parametrize(*mark.args, **mark.kwargs, _param_mark=mark)
    except (pytest.fail.Exception, pytest.Collector.CollectError, TypeError) as error:
        refuse(str(error).partition("\n")[0])
    return metafunc._calls
