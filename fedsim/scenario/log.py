"""A production log in the place of devices and a server: what happened is measured, and nothing is simulated."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fedsim.common.outcomes import HOWS
from fedsim.scenario.permissions import NameOfFile
from fedsim.scenario.strict import SparseModel
from fedsim.scenario.units import Instant

LOG_ROLES = ("client", "selected", "ended", "outcome", "round", "class", "time_zone", "weight", "staleness")
"""What a column of a log can be; the first four are needed."""
CHECK_IN_ROLES = ("device", "start", "end", "condition", "seen_from", "seen_to", "cycle")
"""What a column of a trace can be; the first three are needed."""
Unit = Literal["s", "ms", "us", "ns"]


def _roles(roles: tuple[str, ...]) -> AfterValidator:
    def check(columns: dict[str, str]) -> dict[str, str]:
        if unknown := columns.keys() - {*roles}:
            raise ValueError(f"has the role {min(unknown)!r}; there are {', '.join(roles)}")
        return columns

    return AfterValidator(check)


def _hows(outcomes: dict[str, str]) -> dict[str, str]:
    if unknown := {*outcomes.values()} - {*HOWS}:
        raise ValueError(f"says {min(unknown)!r}, and a session ends as {', '.join(HOWS)}")
    return outcomes


class ProductionLog(SparseModel):
    """A log of sessions, one in each row: CSV, also gzipped, Parquet or NDJSON."""

    unwritten = frozenset({"columns", "outcomes", "base", "unit", "clients", "rounds", "check_ins", "check_in_columns"})

    file: NameOfFile
    """Path, relative to the folder of the scenario file."""
    columns: Annotated[dict[str, str], _roles(LOG_ROLES)] = Field(default_factory=dict)
    """Names of its columns, where they have others: client, selected, ended, outcome, round, class, time_zone, weight,
    staleness."""
    outcomes: Annotated[dict[str, str], AfterValidator(_hows)] = Field(default_factory=dict)
    """What its words for how a session ended mean: reported, dropped, late (a report after the deadline, whose end is
    true) or cut (the server ended it)."""
    base: Instant | None = None
    """The instant of second 0, where times are relative to one."""
    unit: Unit | None = None
    """Of times that are numbers; by default what fits them."""
    clients: NameOfFile | None = None
    """The roster: a table of all clients, those that never came too. Without it nothing is measured that needs their
    number."""
    rounds: NameOfFile | None = None
    """A table of the rounds, with round, opened_s and closed_s in seconds from the base; by default they follow from
    the sessions."""
    check_ins: NameOfFile | None = None
    """A trace of when devices could take part, by the names of the clients. Without it who was eligible is unknown."""
    check_in_columns: Annotated[dict[str, str], _roles(CHECK_IN_ROLES)] = Field(default_factory=dict)
    """Names of its columns, where they have others: device, start, end, condition, seen_from, seen_to, cycle."""

    @property
    def unknown(self) -> frozenset[str]:
        """What it does not tell: ``clients`` that never came, ``rounds``, when they ``opened``, ``eligible`` ones."""
        lacks = {"clients": self.clients is None, "rounds": "round" not in self.columns, "opened": self.rounds is None}
        lacks |= {"eligible": self.check_ins is None}
        return frozenset(each for each, lacking in lacks.items() if lacking)


def with_placeholders(data: Any) -> Any:
    """Return the data of a scenario so that one with a `log`, which tells them, needs no population, server and stop.

    The roles that the log has are in ``columns`` once it has been read.
    """
    if not isinstance(data, Mapping) or not data.get("log"):
        return data
    server = data.get("server")
    if isinstance(server, Mapping) and server.get("mode") != "buffered":
        data = {**data, "server": {"cohort": 1, **server}}
    return {"population": [{"devices": 1}], "server": {"cohort": 1}, "stop": {"rounds": 1}, **data}
