"""A selection law that somebody brought: what it answers is checked before it is believed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Ints
from fedsim.common.errors import PluginError
from fedsim.selection.candidates import Candidates
from fedsim.selection.law import Law, Memory, Remembering, Request


class CheckedLaw:
    """A law whose failures and wrong answers are told as its own.

    Parameters
    ----------
    law, kind
        The law, and how the scenario names it.
    """

    def __init__(self, law: Law, kind: str) -> None:
        self._law, self._kind = law, kind
        self.finds_shortage = bool(getattr(law, "finds_shortage", False)) and not isinstance(law, Remembering)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return what the law selects.

        Raises
        ------
        PluginError
            If it fails, or returns anything but `request.count` distinct eligible clients; all who are eligible, where
            they are fewer.
        """
        try:
            chosen = np.array(self._law.select(request, candidates))
        except Exception as error:
            raise self._failure(request, f"{type(error).__name__}: {error}") from error
        if wrong := _wrong(chosen, request.count, candidates):
            raise self._failure(request, wrong)
        return chosen.astype(np.int64)

    def state(self) -> Memory:
        """Return what the law remembers; nothing, where it does not say so."""
        return self._law.state() if isinstance(self._law, Remembering) else {}

    def restore(self, state: Memory) -> None:
        """Hand back what it remembered."""
        if isinstance(self._law, Remembering):
            self._law.restore(state)

    def _failure(self, request: Request, what: str) -> PluginError:
        return PluginError(f"selection law {self._kind!r}, round {request.round:,}: {what}")


def _wrong(chosen: NDArray[Any], count: int, candidates: Candidates) -> str | None:
    """Say what is wrong with the clients that a law returned, if anything is."""
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        found = f"an array of {chosen.dtype} and shape {chosen.shape}" if chosen.ndim else repr(chosen.item())
        return f"must return the indices of clients, a list or array of whole numbers, not {found}"
    outside = chosen[(chosen < 0) | (chosen >= len(candidates))]
    if outside.size:
        return f"returned client {outside[0]}, and clients are numbered from 0 to {len(candidates) - 1:,}"
    clients, times = np.unique(chosen.astype(np.int64), return_counts=True)
    if len(clients) < len(chosen):
        return f"returned client {clients[times > 1][0]} more than once"
    barred = clients[~candidates.eligible(clients)]
    if barred.size:
        return f"returned client {barred[0]}, which is not eligible"
    if len(clients) != count:
        eligible = int(candidates.all_eligible().sum())
        if len(clients) != min(count, eligible):
            return f"returned {len(clients):,} clients; {count:,} are wanted, and {eligible:,} are eligible"
    return None
