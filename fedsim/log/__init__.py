"""The participation log: the tables that everything downstream reads, their writer and their reader."""

from fedsim.log.fingerprint import fingerprint
from fedsim.log.tables import CLIENTS, GAUGES, PARTICIPATIONS, ROUNDS, TRANSITIONS, Log, Recorded, StoredLog

__all__ = [
    "CLIENTS",
    "GAUGES",
    "PARTICIPATIONS",
    "ROUNDS",
    "TRANSITIONS",
    "Log",
    "Recorded",
    "StoredLog",
    "fingerprint",
]
