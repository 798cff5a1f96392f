"""What keeps clients out, counted by group and in words."""

import numpy as np

from fedsim.availability.batch import Reasons
from fedsim.common.arrays import Ints
from fedsim.common.reasons import OF_DEVICES, Reason

_WORDS = (
    (Reason.SPENT, "out for good, having taken part as often as they may"),
    (Reason.SEPARATION, "kept out by their separation"),
    (Reason.GONE, "never available again"),
    (Reason.IN_SESSION, "in a session"),
    (Reason.COOLDOWN, "in their wall-clock cool-down"),
    (Reason.SHOCK, "out in a shock or not joined yet"),
    (Reason.NO_CHARGER, "on no charger"),
    (Reason.NO_NETWORK, "with no network"),
    (Reason.IN_USE, "in use"),
    (Reason.UNAVAILABLE, "not available"),
    (Reason.NOT_CONNECTED, "not checked in"),
)
_COUNTED = (
    Reason.NO_CHARGER,
    Reason.NO_NETWORK,
    Reason.IN_USE,
    Reason.UNAVAILABLE,
    Reason.SHOCK,
    Reason.SEPARATION | Reason.COOLDOWN,
    Reason.SPENT,
)
"""Reasons in the order of their columns in the gauges."""
KINDS = 2 + len(_COUNTED)


def count_by_group(reasons: Reasons, group: Ints, groups: int) -> Ints:
    """Count (`KINDS`, groups) clients by group: available ones, eligible ones, and those under each reason.

    `reasons` and `group` (n,) are the mask of `Reason` and the group of each client.
    """
    against = [(reasons & np.uint16(some)) != 0 for some in _COUNTED]
    masks = [(reasons & np.uint16(OF_DEVICES)) == 0, reasons == 0, *against]
    return np.array([np.bincount(group[mask], minlength=groups) for mask in masks])


def explain(reasons: Reasons, due: int, noun: str) -> str:
    """Say in words what keeps the clients (N,) out, each counted once.

    The first separation is over in round `due`; `noun` is what the server counts by, ``round`` or ``version``.
    """
    parts, rest = [], reasons
    for reason, words in _WORDS:
        against = (rest & np.uint16(reason)) != 0
        count, rest = int(against.sum()), rest[~against]
        until = f" (the first of them until {noun} {due:,})" if reason == Reason.SEPARATION else ""
        if count:
            parts.append(f"{count:,} {words}{until}")
    parts.append(f"{len(rest):,} eligible")
    return f"of {len(reasons):,} clients: {', '.join(parts)}"
