"""Whether a function returns the same bits every time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import as_array, is_torch_tensor
from .batches import leaves_of
from .errors import Error
from .report import Result


class Determinism(Result):
    """What repeated calls gave: ``.deterministic``, ``.calls``, ``.differing_calls``, ``.differing_elements``.

    ``.first`` is the first difference, ``None`` where there is none: ``call`` (from 2 on), ``output``, ``element`` (its
    index along every axis), ``values`` (of the first call and of that one).
    """


def determinism(function: Callable[..., Any], args: Sequence[Any] = (), repeats: int = 10,
                **keywords: Any) -> Determinism:
    """Calls ``function(*args, **keywords)`` so often with the same arguments, and compares all bits with the first call.

    ``driftbound.determinism(torch.cumsum, (x, 0), repeats=100)``. Works for any function of arrays of numpy, PyTorch or
    JAX: sums, scatter-add, index-add, prefix sums, products. Arguments are passed as they are: a function that writes to
    them gets other ones at the next call.

    Arguments:
        function: returns an array, or lists, tuples, dicts and dataclasses of arrays.
        args, keywords: what it is called with.
        repeats: how many calls there are, 2 or more.

    Returns a ``Determinism``; ``.exit_status`` is 0 where all bits are the same, else 1. Exceptions of the function
    reach the caller. Raises ``Error`` for fewer than 2 calls, and where calls return other shapes or no array.
    """
    if repeats < 2:
        raise Error(f"repeats={repeats}: calls are compared from 2 on")
    expected = _outputs(function(*args, **keywords))
    if not expected:
        raise Error("the function returns no array; give one that returns arrays of numpy, PyTorch or JAX")
    differing = {name: np.zeros(one.shape, bool) for name, one in expected.items()}
    differing_calls, first = 0, None
    for call in range(2, repeats + 1):
        found = _outputs(function(*args, **keywords))
        _require_alike(expected, found, call)
        changed = {name: _differ(found[name], expected[name]) for name in expected}
        for name, where in changed.items():
            differing[name] |= where
            if first is None and where.any():
                first = _difference(name, where, expected[name], found[name], call)
        differing_calls += any(where.any() for where in changed.values())
    elements = int(sum(where.sum() for where in differing.values()))
    fields = {"deterministic": differing_calls == 0, "calls": repeats, "differing_calls": differing_calls,
              "differing_elements": elements, "elements": int(sum(one.size for one in expected.values())), "first": first}
    return Determinism(fields, int(differing_calls > 0), _text(fields), None)


def _outputs(returned: Any) -> dict[str, np.ndarray]:
    """The arrays that were returned, copied; of types that numpy lacks the bits."""
    outputs = {}
    for name, value in leaves_of(returned):
        if is_torch_tensor(value) and value.is_cuda:
            sys.modules["torch"].cuda.synchronize(value.device)
        if is_torch_tensor(value) or hasattr(value, "__array__"):
            outputs[f"output{name}"] = np.array(as_array(value).whole().data)
    return outputs


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The elements whose bits differ."""
    def octets(array: np.ndarray) -> np.ndarray:
        return np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, array.dtype.itemsize)

    return (octets(one) != octets(other)).any(-1)


def _require_alike(expected: dict[str, np.ndarray], found: dict[str, np.ndarray], call: int) -> None:
    def shapes(outputs: dict[str, np.ndarray]) -> dict[str, tuple]:
        return {name: (one.shape, one.dtype.name) for name, one in outputs.items()}

    if shapes(expected) != shapes(found):
        raise Error(f"call {call} returned {shapes(found)}, the first one {shapes(expected)}")


def _difference(name: str, where: np.ndarray, expected: np.ndarray, found: np.ndarray, call: int) -> dict[str, Any]:
    element = tuple(int(one) for one in np.argwhere(where)[0])
    return {"call": call, "output": name, "element": list(element),
            "values": [expected[element].item(), found[element].item()]}


def _text(fields: dict[str, Any]) -> str:
    if fields["deterministic"]:
        return f"SAME BITS: {fields['calls']} calls, {fields['elements']} elements."
    first = fields["first"]
    return (f"NOT DETERMINISTIC: {fields['differing_calls']} of {fields['calls']} calls differ from the first, in "
            f"{fields['differing_elements']} of {fields['elements']} elements. First: call {first['call']}, "
            f"{first['output']}{first['element']}: {first['values'][1]} in place of {first['values'][0]}.")
