"""Modules that are loaded when something of them is first used: that takes longer than a small run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _Later:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


torch: Any = _Later("torch")
if TYPE_CHECKING:
    from scipy import fft, optimize, sparse, special, stats
else:
    fft, optimize, sparse = _Later("scipy.fft"), _Later("scipy.optimize"), _Later("scipy.sparse")
    special, stats = _Later("scipy.special"), _Later("scipy.stats")

__all__ = ["fft", "optimize", "sparse", "special", "stats", "torch"]
