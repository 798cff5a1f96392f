"""What a selection law may see of the clients: who is eligible, and a few numbers of each."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.population import Population


class Eligibility(Protocol):
    """Who is eligible now. Asking about a few costs little; asking about all costs O(N)."""

    def eligible(self, clients: Ints, /) -> Bools:
        """Say of each of the clients whether it is eligible."""
        ...

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients, an array of the caller's own."""
        ...

    def barred(self) -> Bits | None:
        """Return clients who are surely not eligible, as bits; None where nothing is known without asking.

        It makes no difference to who is chosen, only to how many are asked about; the next one may write over it.
        """
        ...


class Candidates:
    """The clients as a selection law sees them; ``len(candidates)`` is N, their number, eligible or not.

    Clients are given as their indices, an integer array (n,) with values from 0 to N - 1; others raise a ValueError.
    Every answer is an array of the caller's own: writing to it changes nothing.

    Parameters
    ----------
    now
        Who is eligible.
    population
        Whose numbers are shown.
    last_round
        Answers for some clients in which round each was selected last.
    checked
        Whether clients are checked to be there; the laws that come with the package ask about no others.
    """

    def __init__(
        self, now: Eligibility, population: Population, last_round: Callable[[Ints], Ints], *, checked: bool = True
    ) -> None:
        self._eligibility, self._population, self._last_round, self._checked = now, population, last_round, checked

    def __len__(self) -> int:
        return len(self._population)

    def eligible(self, clients: Ints) -> Bools:
        """Say of each of some clients whether it is eligible: (n,). Costs O(n)."""
        return self._eligibility.eligible(self._known(clients))

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients; costs O(N)."""
        return self._eligibility.all_eligible()

    def barred(self) -> Bits | None:
        """Return clients who are surely not eligible, as `Eligibility` has it."""
        return self._eligibility.barred()

    def weight(self, clients: Ints) -> Floats:
        """Return p_i (n,): positive; of all clients they sum to 1."""
        return self._population.weight[self._known(clients)]

    def last_round(self, clients: Ints) -> Ints:
        """Return the round (n,) in which each was last selected, of a buffered server the version; -1 for never."""
        return self._last_round(self._known(clients))

    def speed(self, clients: Ints) -> Floats:
        """Return how fast the devices are (n,): a session takes the scenario's lengths divided by it."""
        return self._population.speed[self._known(clients)]

    def group(self, clients: Ints) -> Ints:
        """Return the clients' groups (n,), counted from 0 in the order of the scenario's ``population``."""
        return self._population.group[self._known(clients)]

    def _known(self, clients: Ints) -> Ints:
        if not self._checked:
            return clients
        asked = np.asarray(clients)
        # As numbers without a sign, negative ones are too large.
        if asked.size and (asked.dtype.kind not in "iu" or asked.astype(np.uint64, copy=False).max() >= len(self)):
            raise ValueError(f"clients are whole numbers from 0 to {len(self) - 1:,}, and these are {asked}")
        return asked if asked.size else asked.astype(np.int64)
