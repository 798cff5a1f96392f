"""How sessions and rounds end: the words of the log, with all that follows from each."""

from typing import Final, Literal, NamedTuple


class SessionOutcome(NamedTuple):
    """One way in which sessions end."""

    words: str
    sessions: str
    """Which sessions end so."""
    how: str
    """What the log of a server can tell of it: a whole report in time (reported) or after the limit (late), or that the
    device (dropped) or the server (cut) ended the session before it had sent all."""
    counted: bool = False
    """Whether it has a column in the table of rounds."""

    @property
    def is_cut(self) -> bool:
        """Whether the session ended before it had sent all."""
        return self.how in {"dropped", "cut"}

    @property
    def by_device(self) -> bool:
        """Whether the device, and not the server, is the cause that no report was taken."""
        return self.how in {"dropped", "late"}


class RoundOutcome(NamedTuple):
    """One way in which rounds close."""

    words: str
    remaining: Literal["aborted", "late"] = "aborted"
    """What becomes of the sessions that still run: the server ends them, or their reports come too late."""


SESSION_OUTCOMES: Final = {
    "reported": SessionOutcome("the report was taken", "whose report was taken", "reported", counted=True),
    "dropped": SessionOutcome(
        "the device became unavailable or failed", "whose device became unavailable or failed", "dropped", counted=True
    ),
    "late": SessionOutcome(
        "the report came after the deadline", "that reported after the deadline", "late", counted=True
    ),
    "aborted": SessionOutcome(
        "the round or the run had ended", "that the server ended because the round had closed", "cut"
    ),
    "stale": SessionOutcome(
        "the report was too many versions late",
        "whose report came more than max_staleness versions late and was discarded",
        "reported",
    ),
    "failed": SessionOutcome(
        "the report came, and its round failed", "whose report came in a round that failed", "reported"
    ),
}
"""In the order of their codes in the log. A buffered server discards stale reports."""
CODES: Final = {outcome: code for code, outcome in enumerate(SESSION_OUTCOMES, start=1)}
"""What stands for each in arrays; 0 for a session that has not ended."""
HOWS: Final = tuple(dict.fromkeys(each.how for each in SESSION_OUTCOMES.values()))
"""How sessions end in the log of a server."""
OUTCOME_OF: Final = {how: next(name for name, each in SESSION_OUTCOMES.items() if each.how == how) for how in HOWS}
"""The outcome that stands for each in a run that such a log is made into."""
COUNTED_OUTCOMES: Final = tuple(name for name, each in SESSION_OUTCOMES.items() if each.counted)
"""Those that have a column in the table of rounds."""
ROUND_OUTCOMES: Final = {
    "target": RoundOutcome("enough clients reported"),
    "deadline": RoundOutcome("time was up first", remaining="late"),
    "exhausted": RoundOutcome("nobody was left who could report"),
    "empty": RoundOutcome("the draw chose nobody"),
    "failed": RoundOutcome("fewer reports came than the server needs, and none was taken", remaining="late"),
    "skipped": RoundOutcome("too few clients were eligible"),
    "stopped": RoundOutcome("the run was over"),
}
"""The versions of a buffered server are rounds in this sense."""
