"""How sessions and rounds end: the words of the log, with what each means."""

from typing import Final

SESSION_OUTCOMES: Final = {
    "reported": "the report was taken",
    "dropped": "the device became unavailable",
    "late": "the report came after the deadline",
    "aborted": "the round had closed, or the run was over",
    "stale": "the report was too many versions late",
    "failed": "the report came, and its round failed",
}
"""In the order of their codes in the log. A buffered server discards stale reports."""
COUNTED_OUTCOMES: Final = ("reported", "dropped", "late")
"""Those that have a column in the table of rounds."""
ROUND_OUTCOMES: Final = {
    "target": "enough clients reported",
    "deadline": "time was up first",
    "exhausted": "nobody was left who could report",
    "empty": "the draw chose nobody",
    "failed": "fewer reports came than the server needs, and none was taken",
    "skipped": "too few clients were eligible",
    "stopped": "the run was over",
}
"""The versions of a buffered server are rounds in this sense."""
