"""Devices that are available at every instant."""

from collections.abc import Sequence

import numpy as np

from fedsim.availability.batch import Batch
from fedsim.availability.civil import Place
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream


class AlwaysAvailable(ExactModel):
    """The device is available at every instant."""

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:  # noqa: ARG002
        yield 0, FOREVER

    def batches(self, homes: Sequence[tuple[Place, Ints]], draws: Stream) -> list["AlwaysBatch"]:  # noqa: ARG002
        return [AlwaysBatch()] * len(homes)


class AlwaysBatch(Batch):
    """Many of them at once."""

    foreseeable = FOREVER

    def at(self, clients: Ints, instant: int) -> Bools:  # noqa: ARG002
        return np.ones(len(clients), dtype=np.bool_)

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        count = len(clients)
        return Spells(np.arange(count), np.full(count, since), np.full(count, until), count)
