"""The participation log: the tables that everything downstream reads, their writer and their reader."""

from fedsim.log.fingerprint import Fingerprint, fingerprint, says
from fedsim.log.tables import (
    BUFFERED,
    CLIENTS,
    GAUGES,
    PARTICIPATIONS,
    ROUNDS,
    TRANSITIONS,
    Log,
    Recorded,
    StoredLog,
    with_staleness,
)

__all__ = [
    "BUFFERED",
    "CLIENTS",
    "GAUGES",
    "PARTICIPATIONS",
    "ROUNDS",
    "TRANSITIONS",
    "Fingerprint",
    "Log",
    "Recorded",
    "StoredLog",
    "fingerprint",
    "says",
    "with_staleness",
]
