"""Samples to train and to test on, and which of the former each client has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints


@dataclass(frozen=True)
class Samples:
    """Inputs and targets, the first axis counting samples; test samples belong to no client.

    Targets are whole numbers 0..C-1 for C classes, or of any other type and shape.
    """

    inputs: Floats
    targets: NDArray[np.generic]
    test_inputs: Floats
    test_targets: NDArray[np.generic]

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(max(self.targets.max(initial=0), self.test_targets.max(initial=0))) + 1

    @property
    def labelled(self) -> bool:
        """Whether targets are classes: one whole number, not negative, for each sample."""
        return self.targets.ndim == 1 and self.targets.dtype.kind in "iu" and self.targets.min(initial=0) >= 0


@dataclass(frozen=True)
class Federated:
    """Samples and their owners.

    Row i of `members`, shape (N, n), holds the indices of the samples of client i: all clients have the same number, so
    the mean over clients is the mean over samples.
    """

    samples: Samples
    members: Ints
