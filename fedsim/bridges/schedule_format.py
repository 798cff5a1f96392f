"""What a schedule looks like: its name, version, columns, and the words for how a session ended."""

from typing import Final

FORMAT: Final = "fedsim-schedule"
VERSION: Final = 1
COLUMNS: Final = ("round", "opened_s", "position", "client", "outcome", "duration_s", "staleness")
OUTCOMES: Final = ("reported", "dropped", "late", "aborted", "stale")
