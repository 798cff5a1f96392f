"""Cyclic selection: everyone in turn, in the order of their indices."""

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.selection.law import Candidates, Request


class Cyclic:
    """Every client in turn: the next eligible ones after the one that was selected last."""

    theory = "cyclic"
    finds_shortage = True

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients in turn."""
        clients = len(candidates)
        if request.everyone is not None:
            return request.everyone[np.argsort((request.everyone - request.after - 1) % clients)]
        found = np.empty(0, dtype=np.int64)
        offset, size = 0, 4 * request.count
        while len(found) < request.count and offset < clients:
            window = (request.after + 1 + np.arange(offset, min(offset + size, clients))) % clients
            found = np.concatenate([found, window[candidates.eligible(window)]])
            offset, size = offset + size, 2 * size
        return found[: request.count]
