"""Many devices that are always available."""

import numpy as np

from fedsim.availability.batch import Clients, Floats, Mask, Spells


class AlwaysBatch:
    """Devices that are available at every instant."""

    def at(self, clients: Clients, instant: float) -> Mask:  # noqa: ARG002
        """All of them."""
        return np.ones(len(clients), dtype=np.bool_)

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:  # noqa: ARG002
        """Never."""
        return np.full(len(clients), np.inf)

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """One for each."""
        count = len(clients)
        return Spells(np.arange(count), np.full(count, since), np.full(count, until))

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:  # noqa: ARG002
        """Never."""
        return np.full(len(clients), np.inf)
