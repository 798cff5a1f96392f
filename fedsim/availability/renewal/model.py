"""Devices that are on and off by turns; see `batch.Process`."""

import math
from collections.abc import Sequence

import numpy as np

from fedsim.availability.batch import Clients
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.place import Place
from fedsim.availability.renewal.batch import LONGEST, Process, RenewalBatch
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream
from fedsim.common.registry import OptionError
from fedsim.population.distributions import distribution
from fedsim.scenario.availability import Length

_BLOCK = 64  # drawn at once: drawing one by one costs ten times as much
_LEAST_CYCLE = 1.001  # milliseconds; in less, every length may be rounded to 0, and means may be slightly inexact


class RenewalAvailability(ExactModel):
    """An alternating renewal process for each device.

    Parameters
    ----------
    on, off
        The laws of the lengths, as the scenario has them.

    Raises
    ------
    OptionError
        If a mean is not above 0 and finite, or both together are no more than a millisecond.
    """

    def __init__(self, on: Length, off: Length) -> None:
        self.process = Process(distribution(on), distribution(off))
        for name, law in (("on", self.process.on), ("off", self.process.off)):
            if not 0 < law.mean < math.inf:
                raise OptionError(name, f"must be a law with a mean above 0 and finite, not {law.mean:g}")
        if self.process.cycle < _LEAST_CYCLE:
            raise OptionError(
                "on",
                "on and off together must last longer than a millisecond on average, the step of simulated time, not "
                f"{self.process.cycle:g} ms",
            )

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:  # noqa: ARG002
        """Return the intervals on of one device; they depend on its key alone."""
        (starts_on,), (left,) = self.process.starting(np.array([client]), draws)
        on, since, first = bool(starts_on), 0, 1  # since when the device has been in this state
        while True:
            u = draws.uniforms(client, np.arange(first, first + _BLOCK))
            lengths = self.process.lengths((np.arange(_BLOCK) % 2 == 0) == starts_on, u)
            if first == 1:
                lengths[0] = left
            for length in lengths.tolist():
                end = since + length if since + length < LONGEST else FOREVER
                if on and length:
                    yield since, end
                if end == FOREVER:
                    return
                since, on = end, not on
            first += _BLOCK

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> list[RenewalBatch]:
        """Return one batch for all: it does not matter where they live."""
        members = np.sort(np.concatenate([members for _, members in homes]))
        return [RenewalBatch(self.process, members, draws)] * len(homes)
