"""Why clients are not eligible, counted and in words."""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Ints


class Reason(IntEnum):
    """Why a client is not eligible, as bits of a mask; a client without any is eligible."""

    OFFLINE = 1
    IN_SESSION = 2
    SEPARATION = 4
    COOLDOWN = 8
    GONE = 16
    SPENT = 32


_WORDS: Iterable[tuple[Reason, str]] = (
    (Reason.SPENT, "out for good, having taken part as often as they may"),
    (Reason.SEPARATION, "kept out by their separation"),
    (Reason.GONE, "never available again"),
    (Reason.IN_SESSION, "in a session"),
    (Reason.COOLDOWN, "in their wall-clock cool-down"),
    (Reason.OFFLINE, "not available"),
)


def count_by_group(reasons: NDArray[np.uint8], group: Ints, groups: int) -> Ints:
    """Count (2, groups) available and eligible clients.

    Parameters
    ----------
    reasons, group
        (n,) mask of reasons, and group, of each client.
    groups
        How many groups there are.
    """
    masks = ((reasons & Reason.OFFLINE) == 0, reasons == 0)
    return np.asarray([np.bincount(group[mask], minlength=groups) for mask in masks])


def explain(reasons: NDArray[np.uint8], due: int, turn: str) -> str:
    """Say in words what everyone is waiting for.

    Parameters
    ----------
    reasons
        (N,) mask of reasons of each client.
    due
        The round in which the first separation is over.
    turn
        What the server counts by: ``round`` or ``version``.
    """
    parts, rest = [], reasons
    for reason, words in _WORDS:
        against = (rest & reason) != 0
        count, rest = int(against.sum()), rest[~against]
        until = f" (the first of them until {turn} {due:,})" if reason == Reason.SEPARATION else ""
        if count:
            parts.append(f"{count:,} {words}{until}")
    parts.append(f"{len(rest):,} eligible")
    return f"of {len(reasons):,} clients: {', '.join(parts)}"
