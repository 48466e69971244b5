"""Calls of a function on batches, each with the same random numbers; what the calls change is put back at the end."""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .batches import Batch, Outputs
from .errors import Error


class Calls:
    """Calls ``function`` on copies of batches, in a ``with`` block.

    Before every call the generators of random numbers (of Python, numpy and PyTorch) have the state that they had at
    the beginning of the block. After the block they have it again, and so have the buffers of the modules of PyTorch
    that the function is, is bound to, closes over or names, and those of ``model``.
    """

    def __init__(self, function: Callable[[Any], Any], result_axis: int, model: Any = None):
        if not callable(function):
            raise Error(f"'{type(function).__name__}' is no function; give one that takes the batch")
        self._function = function
        self._axis = result_axis
        self.modules = _modules_of(function, model)

    def __enter__(self) -> Calls:
        self._generators = _Generators()
        self._buffers = [(part._buffers, name, buffer, None if buffer is None else buffer.detach().clone())
                         for module in self.modules for part in module.modules()
                         for name, buffer in part._buffers.items()]
        return self

    def __exit__(self, *error: object) -> None:
        self._generators.put_back()
        if self._buffers:
            with sys.modules["torch"].no_grad():
                for buffers, name, buffer, before in self._buffers:
                    buffers[name] = buffer if buffer is None else buffer.copy_(before)

    def __call__(self, batch: Batch) -> Outputs:
        """What the function returns for this batch."""
        given = batch.build()
        self._generators.put_back()
        with np.errstate(all="ignore"):
            return Outputs(self._function(given), self._axis, batch.rows)


class _Generators:
    """The state of the generators of random numbers that programs share."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()
        torch = sys.modules.get("torch")
        self._torch = torch.get_rng_state() if torch else None
        self._cuda = torch.cuda.get_rng_state_all() if torch and torch.cuda.is_initialized() else None

    def put_back(self) -> None:
        """Gives the generators the state that they had."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        if self._torch is not None:
            sys.modules["torch"].set_rng_state(self._torch)
        if self._cuda is not None:
            sys.modules["torch"].cuda.set_rng_state_all(self._cuda)


def _modules_of(function: Any, model: Any) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    while isinstance(function, functools.partial):
        function = function.func
    found = [model, function, getattr(function, "__self__", None)]
    if inspect.isfunction(inspect.unwrap(function)):
        found += _named_by(inspect.unwrap(function))
    modules: list[Any] = []
    for one in found:
        if isinstance(one, torch.nn.Module) and not any(one is other for other in modules):
            modules.append(one)
    return modules


def _named_by(function: Any) -> list[Any]:
    """What a function closes over, and the globals that it names."""
    try:
        names = inspect.getclosurevars(function)
    except ValueError:  # a variable that has no value yet
        return []
    return [*names.nonlocals.values(), *names.globals.values()]
