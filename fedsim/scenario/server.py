"""The server's part of the scenario file, synchronous rounds or a buffer of reports."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from fedsim.common.hints import did_you_mean
from fedsim.scenario.component import BuiltIn, Choice, Component, Kinds
from fedsim.scenario.strict import Model, SparseModel
from fedsim.scenario.units import BitRate, Duration, PositiveDuration

MOST_CLIENTS = 100_000_000
COIN_LAWS = ("poisson", "cyclic_poisson")
"""Laws by which each client is drawn or not by itself, so that a round may be empty."""
_MODES = ("sync", "buffered")

Selection = Annotated[BuiltIn | Component, Kinds(role="selection law")]
"""Who is chosen among the eligible clients."""
CooldownFrom = Literal["selected", "reported"]


def has_random_size(selection: Choice) -> bool:
    """Say whether a law that comes with fedsim chooses a random number of clients."""
    return getattr(getattr(selection, "implementation", None), "random_size", False)


def _known_mode(mode: Any) -> Any:
    if mode not in _MODES:
        raise ValueError(f"must be one of 'sync' or 'buffered', not {mode!r}{did_you_mean(mode, _MODES)}")
    return mode


class SecureAggregation(Model):
    """What a round needs after its last report: enough of those that reported, to unmask the sum of their reports."""

    threshold: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    """Clients that reported and are still there when the sum is unmasked; with fewer the round has failed."""
    unmasking: Duration = Field(default="0s", validate_default=True)
    """How long that takes, from the last report that is waited for: those whose device becomes unavailable until then
    drop out, and the round closes only then."""
    drop_out: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Chance that a client drops out meanwhile for any other reason, each for itself."""


class CheckIns(SparseModel):
    """Devices come to the server, again and again, and only those that are connected can be selected."""

    unwritten = frozenset({"every", "wanted"})

    every: PositiveDuration | None = None
    """Time from one check-in of a device to the next, as the server tells it; each begins at a random time."""
    wanted: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] | None = None
    """Check-ins (a number of devices) that the server wants in a window, instead of `every`: from those that it sees
    each hour it tells every device when to come back."""
    window: PositiveDuration
    """Time that a device stays connected at each check-in, so that a round can be filled from those who came."""

    @property
    def few(self) -> bool:
        """Whether so few are connected at once that a draw looks at all of them."""
        return self.every is None or 8 * self.window < self.every

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.every is None) == (self.wanted is None):
            raise ValueError("give either every, the same time for all devices, or wanted, check-ins in a window")
        if self.every is not None and self.window > self.every:
            raise ValueError("window is longer than every: a device would come again before it has gone")
        return self


class SyncServer(SparseModel):
    """Rounds, one after the other."""

    unwritten = frozenset({"secure_aggregation", "check_ins", "uplink", "partial", "grace", "overtime"})

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("concurrency", "buffer", "max_staleness"), "is for mode: buffered; this server runs rounds of one cohort each"
    )

    noun: ClassVar[str] = "round"
    """What the server counts by."""
    selects_once: ClassVar[Literal[True]] = True
    """Whether it selects at the beginning of each round alone, and takes the reports of that selection alone."""
    sizes: ClassVar[tuple[str, ...]] = ("cohort",)
    """Settings that grow with the population."""
    concurrency: ClassVar[None] = None
    """Sessions that run at once, at most: as many as are selected."""
    buffer: ClassVar[None] = None
    """Reports of any round that make a step; here those of one round do."""
    max_staleness: ClassVar[None] = None
    """Versions by which a report may be late."""
    staleness: ClassVar[int | None] = 0
    """Staleness of every report, which the log leaves out; None where the log tells that of each."""

    mode: Annotated[Literal["sync"], BeforeValidator(_known_mode)] = "sync"
    """sync: rounds, one after the other."""
    cohort: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    """B: reports wanted in a round."""
    over_select: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Clients selected for each report wanted, rounded up in total; at `cohort` reports the round closes and aborts the
    other sessions."""
    minimum_reports: Annotated[int, Field(ge=0, le=MOST_CLIENTS)] = 0
    """A round that closes with fewer reports fails, and the server takes none of them, as secure aggregation needs."""
    secure_aggregation: SecureAggregation | None = None
    """A gate that a round has to pass before its reports are taken; none, where it is not given."""
    deadline: PositiveDuration | None = None
    """Longest time from selection to close; sessions that are not over by then are late."""
    partial: bool = False
    """Sessions that the deadline, or their device's leave, would cut report as many local steps as can be done and sent
    by then, as if devices foresaw it. A session with no time for a single step ends without a report."""
    grace: Duration = Field(default="0s", validate_default=True)
    """For how long after the last report that a round wants (`cohort`) it still takes others, with `over_select` above
    1; until the deadline at most."""
    overtime: Duration = Field(default="0s", validate_default=True)
    """For how long beyond its deadline, at most, a round waits until `minimum_reports` have come."""
    pause: Duration = Field(default="0s", validate_default=True)
    """From the close of a round until the next one opens."""
    selection: Selection = Field(default="midzuno", validate_default=True)
    """The law of one round."""
    check_ins: CheckIns | None = None
    """When devices come to the server; it sees every device at any time, where this is not given."""
    uplink: BitRate | None = None
    """Bits a second that the server can receive; the uploads of a round share them, and slow each other. No limit,
    where this is not given."""
    shortage: Literal["wait", "proceed", "skip"] = "wait"
    """Fewer eligible clients than the round wants: wait for them, proceed with those there are (one, or
    `minimum_reports`, at least), or skip the round."""
    cooldown_from: CooldownFrom = "selected"
    """What starts a cool-down: being selected, or only a report that the server took."""
    patience: PositiveDuration = Field(default="30d", validate_default=True)
    """A round that waits this long for eligible clients (or for reports, without `deadline` and `stop.duration`) ends
    the run with an error; the log is kept."""

    @property
    def wanted(self) -> int:
        """Clients selected in a full round: cohort times over_select, rounded up."""
        return -int(-round(self.cohort * self.over_select, 9) // 1)

    @property
    def block(self) -> int:
        """Clients that can be selected only together: consecutive ones, of a selection group."""
        return self.cohort if self.selection.kind == "groups" else 1

    @property
    def least(self) -> int:
        """Fewest clients with which a round can start."""
        if self.selection.kind in COIN_LAWS:
            return 0
        gate = self.secure_aggregation
        needed = max(1, self.minimum_reports, 0 if gate is None else gate.threshold)
        return needed if self.shortage == "proceed" else self.wanted

    @property
    def fixed_size(self) -> bool:
        """Whether a cohort has as many clients as are asked for."""
        return not has_random_size(self.selection)

    @property
    def closes_early(self) -> bool:
        """Whether a round closes with the last report that it wants, though more clients were selected."""
        return self.fixed_size and self.wanted > self.cohort and not self.grace

    def round_s(self, session_s: float, _clients: int) -> float:
        """Return how long a round takes whose sessions take `session_s` seconds, without waiting for clients."""
        return self.pause + session_s

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.selection.kind == "groups" and self.wanted != self.cohort:
            raise ValueError("selection by groups takes exactly one group a round: leave over_select at 1")
        if self.selection.kind == "groups" and self.check_ins is not None:
            raise ValueError("selection by groups takes whole groups, whose devices do not check in together")
        if self.selection.kind == "groups" and self.shortage == "proceed":
            raise ValueError("selection by groups takes a whole group or none: shortage must be wait or skip")
        if self.partial and self.uplink is not None:
            raise ValueError(
                "partial reports are those that can be sent in time, which is not known where uploads slow each other: "
                "leave out partial or uplink"
            )
        if self.minimum_reports > self.cohort:
            raise ValueError(
                f"minimum_reports is {self.minimum_reports:,}, and a round closes at {self.cohort:,} reports (cohort), "
                "so every round would fail"
            )
        if self.grace and not (self.fixed_size and self.wanted > self.cohort):
            raise ValueError("grace is for over_select above 1: other rounds take all reports until their deadline")
        if self.overtime and not (self.deadline and self.minimum_reports):
            raise ValueError("overtime is the time beyond a deadline for minimum_reports, at least 1: give both")
        if self.secure_aggregation is not None and self.secure_aggregation.threshold > self.cohort:
            raise ValueError(
                f"secure_aggregation.threshold is {self.secure_aggregation.threshold:,}, and a round closes at "
                f"{self.cohort:,} reports (cohort), so every round would fail"
            )
        return self


class BufferedServer(SparseModel):
    """No rounds: a new model version after every `buffer` reports, and a replacement for every session that ends."""

    unwritten = frozenset({"check_ins", "partial"})

    elsewhere: ClassVar[Mapping[str, str]] = {
        "cohort": "is for mode: sync; a buffered server has no rounds: `concurrency` says how many sessions may run at "
        "once, `buffer` how many reports make a step",
        "over_select": "is for mode: sync; a buffered server replaces every session that ends, and aborts none",
        "minimum_reports": "is for mode: sync; a buffered server makes a step of exactly `buffer` reports",
        "secure_aggregation": "is for mode: sync; a buffered server makes a step of exactly `buffer` reports",
        **dict.fromkeys(("grace", "overtime"), "is for mode: sync; a buffered server takes reports at any time"),
        "pause": "is for mode: sync; a buffered server has no rounds to pause between",
        "uplink": "is for mode: sync; the uploads of a buffered server would slow those of sessions that begin later",
        "shortage": "is for mode: sync; a buffered server fills a free place as soon as somebody is eligible",
    }

    noun: ClassVar[str] = "version"
    selects_once: ClassVar[Literal[False]] = False
    sizes: ClassVar[tuple[str, ...]] = ("concurrency", "buffer")
    staleness: ClassVar[int | None] = None
    pause: ClassVar[float] = 0.0
    """From one version to the next."""
    overtime: ClassVar[float] = 0.0
    """No round waits for a minimum."""
    shortage: ClassVar[None] = None
    """A place stays free until somebody is eligible."""
    uplink: ClassVar[None] = None
    """Uploads do not slow each other."""
    block: ClassVar[int] = 1
    fixed_size: ClassVar[bool] = True
    closes_early: ClassVar[bool] = False

    mode: Annotated[Literal["buffered"], BeforeValidator(_known_mode)]
    """buffered: sessions run side by side, and the server steps after every `buffer` reports (FedBuff)."""
    concurrency: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    """Sessions that run at once, at most: when one ends, another client is selected in its place."""
    buffer: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    """Reports that make a step of the server, from one version of the model to the next."""
    max_staleness: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Versions by which a report may be late; those that are later are discarded. Any, where it is not given."""
    deadline: PositiveDuration | None = None
    """Longest time of a session; a longer one is late, and its place is free."""
    partial: bool = False
    """Sessions that the deadline, or their device's leave, would cut report as many local steps as can be done and sent
    by then, as if devices foresaw it. A session with no time for a single step ends without a report."""
    selection: Selection = Field(default="midzuno", validate_default=True)
    """The law of one selection, of as many clients as there are free places."""
    check_ins: CheckIns | None = None
    """When devices come to the server; it sees every device at any time, where this is not given."""
    cooldown_from: CooldownFrom = "selected"
    """What starts a cool-down: being selected, or only a report that the server took."""
    patience: PositiveDuration = Field(default="30d", validate_default=True)
    """End the run with an error if a version is not completed within this time."""

    @property
    def wanted(self) -> int:
        """Sessions that run when every place is taken."""
        return self.concurrency

    def round_s(self, session_s: float, clients: int) -> float:
        """Return how long a version takes: until the places that `clients` fill have given the reports of a step."""
        return session_s * self.buffer / min(self.concurrency, clients)

    @field_validator("selection")
    @classmethod
    def _one_by_one(cls, selection: Choice) -> Choice:
        if selection.kind == "groups":
            raise ValueError(
                "'groups' takes whole groups, and a buffered server fills places one by one as they come free"
            )
        if has_random_size(selection):
            raise ValueError(
                f"{selection.kind!r} chooses a random number of clients, and a buffered server wants one for each free "
                "place"
            )
        return selection


def _mode_of(server: Any) -> str:
    mode = server.get("mode") if isinstance(server, dict) else getattr(server, "mode", "sync")
    return "buffered" if mode == "buffered" else "sync"


Server = Annotated[
    Annotated[SyncServer, Tag("sync")] | Annotated[BufferedServer, Tag("buffered")], Discriminator(_mode_of)
]
