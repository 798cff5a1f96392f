"""Who may be available for some time, of all devices: what the batches say of theirs, put together."""

from collections.abc import Sequence

import numpy as np

from fedsim.availability.batch import Batch, Clients
from fedsim.common.arrays import Bits

_EVERYONE = ~np.uint64(0)


class PossibleClients:
    """The devices that may be available; all others surely are not.

    Parameters
    ----------
    batches, members
        The batches, and the devices of each in ascending order.
    clients
        How many devices there are.
    """

    def __init__(self, batches: Sequence[Batch], members: Sequence[Clients], clients: int) -> None:
        self._batches, self._members = batches, members
        self._bits: Bits = np.full((clients + 63) // 64, _EVERYONE)
        self._masks: dict[int, Bits] = {}
        self._known = [False] * len(batches)  # whether the bits of a batch are what it told last
        self._until = [-np.inf] * len(batches)

    def at(self, instant: float) -> Bits | None:
        """Return the devices that may be available at an instant, not before that of the last call; None: all may."""
        for number, batch in enumerate(self._batches):
            if self._until[number] <= instant:
                found = batch.possible(instant)
                if found is not None or self._known[number]:
                    self._bits = self._with(number, self._bits if found is None else found.bits, found is not None)
                self._known[number] = found is not None
                self._until[number] = instant if found is None else found.until
        return self._bits if any(self._known) else None

    def _with(self, number: int, found: Bits, known: bool) -> Bits:
        """Return the bits with those of one batch; without knowledge all of it are possible."""
        if len(self._batches) == 1:
            return found
        members = self._of_members(number)
        if known:
            own = self._bits[: len(found)]
            own ^= (own ^ found) & members[: len(found)]
        else:
            self._bits |= members
        return self._bits

    def _of_members(self, number: int) -> Bits:
        """Return the devices of a batch as bits."""
        bits = self._masks.get(number)
        if bits is None:
            # It takes a compiler along, which only those shall load who need it.
            from fedsim.common.bits import with_numbers

            bits = self._masks[number] = with_numbers(np.zeros_like(self._bits), self._members[number])
        return bits
