"""Devices that are on and off by turns; see `batch.Process`."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedsim.availability.batch import Clients, Mask
from fedsim.availability.place import Place
from fedsim.availability.renewal.batch import FOREVER, Process, RenewalBatch
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
        (starts_on,), (left,) = self.process.starting(np.array([client]), draws)
        state, since = bool(starts_on), 0.0  # since when the device has been in this state
        instant, first = 0.0, 1
        while True:
            u = draws.uniforms(client, np.arange(first, first + _BLOCK))
            lengths = self.process.lengths((np.arange(_BLOCK) % 2 == 0) == starts_on, u)
            if first == 1:
                lengths[0] = left
            ends = np.cumsum([instant, *lengths])[1:].tolist()
            for end in ends:
                if end > since:  # lengths too short for the clock would leave intervals that touch
                    if state:
                        yield since, (end if end < FOREVER else math.inf)
                    if end >= FOREVER:
                        return
                since, state = end, not state
            instant, first = ends[-1], first + _BLOCK

    def available_at(self, clients: Clients, instant: float, place: Place, draws: Stream) -> Mask:  # noqa: ARG002
        """Say of each of many devices whether it is available at one instant, at a cost that grows with the instant."""
        return RenewalBatch(self.process, np.unique(clients), draws).at(clients, instant)

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> list[RenewalBatch]:
        """Return one batch for all: it does not matter where they live."""
        members = np.sort(np.concatenate([members for _, members in homes]))
        return [RenewalBatch(self.process, members, draws)] * len(homes)
