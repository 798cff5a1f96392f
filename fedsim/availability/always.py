"""Devices that are available at every instant."""

from collections.abc import Sequence

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Spells
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.place import Place
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream


class AlwaysAvailable(ExactModel):
    """One interval, from 0 for ever."""

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:  # noqa: ARG002
        """Return that interval."""
        yield 0, FOREVER

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> list["AlwaysBatch"]:  # noqa: ARG002
        """Return one batch for all."""
        return [AlwaysBatch()] * len(homes)


class AlwaysBatch(Batch):
    """Many of them at once."""

    foreseeable = FOREVER

    def at(self, clients: Clients, instant: int) -> Mask:  # noqa: ARG002
        """Return True for every client."""
        return np.ones(len(clients), dtype=np.bool_)

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Return the whole window for each client."""
        count = len(clients)
        return Spells(np.arange(count), np.full(count, since), np.full(count, until))
