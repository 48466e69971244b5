"""Which module of PyTorch calls an op, by the names of ``named_modules``."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks


class ModulePaths:
    """Follows the calls of modules by global hooks. The outermost module called is the root, unless one is given."""

    def __init__(self, model: nn.Module | None):
        self.active = True
        self.compiled: set[str] = set()
        self._names: dict[nn.Module, str] = {}
        self._weights: dict[int, tuple[Tensor, str]] = {}
        self._stack: list[tuple[nn.Module, str]] = []
        self._handles: list[Any] = []
        if model is not None:
            self._name(model)

    def start(self) -> None:
        """Begins to follow calls."""
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            _register_for_every_end(self._leave),
        ]

    def stop(self) -> None:
        """Ends following calls."""
        for handle in self._handles:
            handle.remove()
        self._stack.clear()

    def path(self) -> str | None:
        """Dotted path of the module that is being called, ``None`` outside of modules and in the root itself."""
        return (self._stack[-1][1] or None) if self._stack else None

    def name_of_weight(self, tensor: Tensor) -> str | None:
        """Dotted name of a parameter or a buffer, ``None`` for others."""
        weight, name = self._weights.get(id(tensor), (None, None))
        return name if weight is tensor else None

    def _name(self, root: nn.Module) -> None:
        for name, module in root.named_modules():
            self._names.setdefault(module, name.replace("_orig_mod.", "").replace("_orig_mod", ""))
        for name, weight in (*root.named_parameters(), *root.named_buffers()):
            self._weights.setdefault(id(weight), (weight, name.replace("_orig_mod.", "")))

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if not self.active:
            return
        if self._stack and self._stack[0][0] is module:
            self._stack.clear()  # a call that ended by an exception has left its modules
        if not self._stack and module not in self._names:
            self._name(module)
        name = self._names.get(module)
        if name is None:
            name = ".".join(part for part in (self._stack[-1][1], type(module).__name__) if part)
        if type(module).__name__ == "OptimizedModule":
            self.compiled.add(name or type(getattr(module, "_orig_mod", module)).__name__)
        self._stack.append((module, name))

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if self.active and any(entry is module for entry, _ in self._stack):
            while self._stack.pop()[0] is not module:
                pass


def _register_for_every_end(hook: Any) -> Any:
    """A hook for calls that return; where PyTorch can, also for those that raise."""
    try:
        return hooks.register_module_forward_hook(hook, always_call=True)
    except TypeError:
        return hooks.register_module_forward_hook(hook)
