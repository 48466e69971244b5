"""Parts of values that a program has or gives instead of the whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arrays import Array, as_array
from .errors import Error


class Part:
    """A part of a value, for ``Recorder.add``: what is recorded of a tensor that is not there as a whole.

    Arguments:
        array: the numbers of the part (numpy, PyTorch, JAX).
        shape: of the whole value.
        axes: along each of these axes only these indices, ascending: ``{0: rows}``. ``array`` is the value cut down to
            them.
        elements: the row-major indices of single elements, ascending. ``array`` then has one axis. Either this or
            ``axes``.
        draws: of a result: how many of its elements, or rows, were drawn independently and uniformly from all; ``0``
            says nothing. ``driftbound.sampling`` says what is true of products.

    Raises ``Error`` where array, indices and shape do not fit.
    """

    def __init__(self, array: Any, shape: tuple[int, ...], *, axes: dict[int, Any] | None = None, elements: Any = None,
                 draws: int = 0):
        self.array: Array = as_array(array)
        self.shape = tuple(int(extent) for extent in shape)
        self.draws = int(draws)
        if (axes is None) == (elements is None):
            raise Error("a part of a value has either axes or elements: give one of the two")
        self.axes = None if axes is None else {int(axis): _indices(given, self._extent(axis))
                                               for axis, given in sorted(axes.items())}
        self.elements = None if elements is None else _indices(elements, math.prod(self.shape))
        if self.axes is None:
            expected = (len(self.elements),)
        else:
            expected = tuple(len(self.axes[axis]) if axis in self.axes else extent
                             for axis, extent in enumerate(self.shape))
        if self.array.shape != expected:
            raise Error(f"a part of a value of shape {list(self.shape)} is {list(self.array.shape)}, and its indices "
                        f"make it {list(expected)}")

    @property
    def type(self) -> str | None:
        return self.array.type

    def description(self) -> dict:
        """``part`` of the value in a file."""
        chosen: dict = {"elements": True} if self.axes is None else {"axes": list(self.axes)}
        return {**chosen, "draws": self.draws} if self.draws else chosen

    def indices(self) -> dict[str, np.ndarray]:
        """Arrays of indices, by what their tensors' names end in."""
        if self.axes is None:
            return {"elements": self.elements}
        return {f"axis/{axis}": taken for axis, taken in self.axes.items()}

    def _extent(self, axis: int) -> int:
        if not 0 <= axis < len(self.shape):
            raise Error(f"a value of shape {list(self.shape)} has no axis {axis}")
        return self.shape[axis]


def _indices(given: Any, extent: int) -> np.ndarray:
    indices = np.array(given, np.int64)
    if indices.ndim != 1 or (np.diff(indices) <= 0).any() or (indices < 0).any() or (indices >= extent).any():
        raise Error(f"indices of a part are one list, ascending, each once and below {extent}")
    return indices
