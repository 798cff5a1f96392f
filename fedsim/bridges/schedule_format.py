"""What a schedule looks like: its name, version and columns."""

from typing import Final

FORMAT: Final = "fedsim-schedule"
VERSION: Final = 1
ABOUT: Final = "about"
"""The last column of a CSV file, whose first row says what the schedule was made from."""
COLUMNS: Final = ("round", "opened_s", "position", "client", "outcome", "duration_s", "staleness")
