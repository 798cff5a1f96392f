"""Many draws of the same clients: the parts of the key that belong to a client or an index are mixed only once."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.persons import LIMIT, Draw, index
from fedsim.keyed import Stream, mixed_index, to_uniforms

_RUN = 4096  # counts whose parts of the key are mixed together


@dataclass(frozen=True)
class Drawer:
    """Draws of some clients; the numbers are those of `fedsim.keyed.Stream`.

    Attributes
    ----------
    words
        (n,) the clients' parts of the key.
    """

    words: NDArray[np.uint64]

    def of(self, some: NDArray[np.intp]) -> "Drawer":
        """Return the drawer for some of the clients."""
        return Drawer(self.words[some])

    def uniforms(self, what: Draw, count: int = 0) -> NDArray[np.float64]:
        """Uniform on (0, 1), one (n,) for each client."""
        return to_uniforms(self.words ^ keys(what, count))

    def table(self, of_indices: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Uniform on (0, 1), (n, m) for each client and each of the indices' parts of the key (m,)."""
        return to_uniforms(self.words[:, None] ^ of_indices)

    def each(self, who: NDArray[np.intp], of_indices: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Uniform on (0, 1), one for each pair of a client and an index's part of the key."""
        return to_uniforms(self.words[who] ^ of_indices)

    def normals(self, what: Draw, count: int = 0) -> NDArray[np.float64]:
        """Standard normal scores."""
        return np.asarray(ndtri(self.uniforms(what, count)), dtype=np.float64)

    def deviation(self, what: Draw, count: int = 0) -> NDArray[np.float64]:
        """Standard normal scores within three standard deviations, as `persons.deviation`."""
        return np.minimum(np.maximum(self.normals(what, count), -LIMIT), LIMIT)


def drawer(clients: NDArray[np.int64], draws: Stream) -> Drawer:
    """Return the drawer for some clients of a stream."""
    return Drawer(draws.of_clients(clients))


@lru_cache(maxsize=4096)
def keys(what: Draw, count: int, numbers: int = 1) -> NDArray[np.uint64]:
    """Return the indices' parts of the key for numbers 0, 1, ... of one count."""
    return mixed_index(index(what, count, np.arange(numbers)))


def keys_of_run(what: Draw, first: int, last: int) -> NDArray[np.uint64]:
    """Return the indices' parts of the key for the counts `first` to `last`, both included."""
    run = first // _RUN
    if last < (run + 1) * _RUN:
        return _run(what, run)[first - run * _RUN : last + 1 - run * _RUN]
    return mixed_index(index(what, np.arange(first, last + 1)))


@lru_cache(maxsize=64)
def _run(what: Draw, run: int) -> NDArray[np.uint64]:
    return mixed_index(index(what, np.arange(run * _RUN, (run + 1) * _RUN)))
