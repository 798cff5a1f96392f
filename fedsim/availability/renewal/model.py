"""Devices that are on and off by turns; see `process`."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Floats, Mask
from fedsim.availability.place import Place
from fedsim.availability.renewal.batch import RenewalBatch
from fedsim.availability.renewal.process import FOREVER, Process
from fedsim.common.keyed import Stream
from fedsim.common.registry import OptionError
from fedsim.population.distributions import distribution
from fedsim.scenario.availability import Length

_BLOCK = 64  # drawn at once: drawing one by one costs ten times as much


class RenewalAvailability:
    """An alternating renewal process for each device.

    Parameters
    ----------
    on, off
        The laws of the lengths, as the scenario has them.
    """

    def __init__(self, on: Length, off: Length) -> None:
        self.process = Process(distribution(on), distribution(off))
        for name, law in (("on", self.process.on), ("off", self.process.off)):
            if not 0 < law.mean < math.inf:
                raise OptionError(name, f"must be a law with a mean above 0 and finite, not {law.mean:g}")

    def intervals(self, client: int, place: Place, draws: Stream) -> Iterator[tuple[float, float]]:  # noqa: ARG002
        """Return the available intervals of one device; they depend on its key alone."""
        clients = np.array([client])
        starts_on, left = self.process.starting(clients, draws)
        state, since = bool(starts_on[0]), 0.0  # since when the device has been in this state
        instant, first = np.zeros(1), 1
        while True:
            ends = self._ends(clients, instant, first, starts_on, left, draws)
            for end in ends[0].tolist():
                if end > since:  # lengths too short for the clock would leave intervals that touch
                    if state:
                        yield since, (end if end < FOREVER else math.inf)
                    if end >= FOREVER:
                        return
                since, state = end, not state
            instant, first = ends[:, -1], first + _BLOCK

    def available_at(self, clients: Clients, instant: float, place: Place, draws: Stream) -> Mask:  # noqa: ARG002
        """Say of each of many devices whether it is available at one instant.

        A device has changed its state once for each of its ends up to and including that instant. Its lengths are added
        up from time 0, all devices at once, so the cost grows with the instant.
        """
        answer, left = self.process.starting(clients, draws)
        starts_on, following = answer.copy(), np.arange(len(clients))
        now, first = np.zeros(len(clients)), 1
        while len(following):
            ends = self._ends(clients[following], now, first, starts_on[following], left[following], draws)
            answer[following] ^= (np.sum(ends <= instant, axis=1) % 2).astype(np.bool_)
            further = ends[:, -1] <= instant
            following, now, first = following[further], ends[further, -1], first + _BLOCK
        return answer

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> list[RenewalBatch]:
        """Return one batch for all: it does not matter where they live."""
        members = np.sort(np.concatenate([members for _, members in homes]))
        return [RenewalBatch(self.process, members, draws)] * len(homes)

    def _ends(
        self, clients: Clients, instant: Floats, first: int, starts_on: Mask, left: Floats, draws: Stream
    ) -> NDArray[np.float64]:
        """Return the ends (n, block) of the lengths numbered from `first`, which is odd; they begin at `instant`."""
        u = draws.uniforms(clients[:, None], np.arange(first, first + _BLOCK))
        block = self.process.lengths((np.arange(_BLOCK) % 2 == 0) == starts_on[:, None], u)
        if first == 1:
            block[:, 0] = left
        ends: NDArray[np.float64] = np.cumsum(np.column_stack([instant, block]), axis=1)[:, 1:]
        return ends
