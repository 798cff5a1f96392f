"""Models that training leaves behind, as arrays of d numbers by name in an .npz file."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.memory import free_bytes
from fedsim.common.regular_files import open_regular
from fedsim.learning.failures import LearningError
from fedsim.learning.trajectory import End


def models_of(ends: Mapping[str, End]) -> dict[str, Floats]:
    """Return ``NAME.last`` and ``NAME.average``, the mean over the last half, of optimizers that did not diverge."""
    kept = {name: end for name, end in ends.items() if np.isfinite(end.average).all()}
    return {f"{name}.{which}": getattr(end, which) for name, end in kept.items() for which in ("last", "average")}


def read_models(path: Path) -> dict[str, Floats]:
    """Return the models of a file; a `LearningError` says why it cannot be read."""
    try:
        with open_regular(path, free_bytes()) as file, np.load(file, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name], dtype=np.float64) for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise LearningError(
            f"{path} is not an .npz file of models: {getattr(error, 'strerror', '') or error}"
        ) from None


def model_named(models: Mapping[str, Floats], name: str, where: object) -> Floats:
    """Return one of the models, shape (d,); a `LearningError` says which there are if not this one."""
    if name not in models:
        raise LearningError(f"{where} has no model {name!r}; it has {', '.join(models) or 'none'}")
    return models[name]
