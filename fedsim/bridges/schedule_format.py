"""What a schedule looks like: its name, version and columns."""

from typing import Final

FORMAT: Final = "fedsim-schedule"
VERSION: Final = 1
COLUMNS: Final = ("round", "opened_s", "position", "client", "outcome", "duration_s", "staleness")
