"""Models that training leaves behind, as arrays of d numbers by name in an .npz file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.learning.data.samples import as_numbers, read_arrays
from fedsim.learning.failures import LearningError
from fedsim.learning.trajectory import End


def models_of(ends: Mapping[str, End]) -> dict[str, Floats]:
    """Return ``NAME.last`` and ``NAME.average``, the mean over the last half, of optimizers that did not diverge."""
    kept = {name: end for name, end in ends.items() if np.isfinite(end.average).all()}
    return {f"{name}.{which}": getattr(end, which) for name, end in kept.items() for which in ("last", "average")}


def read_models(path: Path) -> dict[str, Floats]:
    """Return the models of a file; a `LearningError` says why it cannot be read."""
    arrays: Mapping[str, NDArray[Any]] = read_arrays(path, "models")
    return {name: array.astype(np.float64) if array.dtype.kind in "biuf" else array for name, array in arrays.items()}


def model_named(models: Mapping[str, Floats], name: str, where: object, dimension: int | None = None) -> Floats:
    """Return one of the models, shape (d,); a `LearningError` says which there are if not this one, or its own shape.

    d is the `dimension`, if that is known.
    """
    if name not in models:
        raise LearningError(f"{where} has no model {name!r}; it has {', '.join(models) or 'none'}")
    as_numbers(where, name, models[name])
    if models[name].ndim != 1 or dimension not in {None, len(models[name])}:
        wanted = "one number for each parameter" if dimension is None else f"({dimension},)"
        raise LearningError(f"{where}: {name} has the shape {models[name].shape}, expected {wanted}")
    return models[name]
