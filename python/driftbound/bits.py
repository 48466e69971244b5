"""Whether two things that functions returned are the same bit for bit."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from .arrays import as_array, is_torch_tensor


def same_bits(one: Any, other: Any) -> bool:
    """Compares tensors and numbers in lists, tuples, dictionaries and dataclasses; other things count as equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same_bits(a, b) for a, b in zip(one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(same_bits(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if is_torch_tensor(one) or hasattr(one, "__array__") or isinstance(one, (int, float)):
        if type(one) is not type(other):
            return False
        first, second = as_array(one), as_array(other)
        same = first.type == second.type and first.shape == second.shape
        return same and first.view_of_bytes() == second.view_of_bytes()
    return type(one) is type(other)
