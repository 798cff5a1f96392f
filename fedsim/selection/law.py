"""What a selection law is: a function from a request and a predicate "eligible now?" to clients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Candidates(Protocol):
    """Answers who is eligible now. Asking about a few costs little; asking about all costs O(N)."""

    def eligible(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each of the clients whether it is eligible."""
        ...

    def all_eligible(self) -> NDArray[np.bool_]:
        """Return the mask (N,) of eligible clients."""
        ...


@dataclass(frozen=True)
class Request:
    """One selection.

    Attributes
    ----------
    round
        Number of the round, or of a buffered server's selection: the key of the draws.
    count
        Clients to choose; at least so many are eligible.
    after
        The client chosen last in the run, -1 before the first: where `cyclic` goes on.
    everyone
        (count,) all who are eligible, in the order of their indices, where there are fewer than there are places: they
        are all chosen, and the law says in which order.
    """

    round: int
    count: int
    after: int = -1
    everyone: NDArray[np.int64] | None = field(default=None, compare=False)


Law: TypeAlias = Callable[[Request, Candidates], NDArray[np.int64]]
"""Returns `count` distinct eligible clients in the order in which they were chosen (``bernoulli``: on average)."""
