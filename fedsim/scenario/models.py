"""The scenario as pydantic models: what a person can ask for, with units, ranges and defaults."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fedsim.common.arguments import path_of, short_repr, whole
from fedsim.common.errors import KeyPath, Mistake
from fedsim.scenario.component import BuiltIn, Component, Kinds, Named
from fedsim.scenario.document import Document
from fedsim.scenario.habits import Habits
from fedsim.scenario.learning import Learning
from fedsim.scenario.loading import load_document, not_permitted, validate
from fedsim.scenario.model import Model, SparseModel, each_once
from fedsim.scenario.permissions import TRUSTED, Permissions, locate
from fedsim.scenario.privacy import Privacy
from fedsim.scenario.server import COIN_LAWS, MOST_CLIENTS, Server, SyncServer
from fedsim.scenario.shocks import Shock
from fedsim.scenario.sources import ClientTimeSource, NumberSource, Rounds, RoundsSource, TimeSource, ZoneSource
from fedsim.scenario.stop import Stop
from fedsim.scenario.sweep import Choose, Decide, Drift, ExpectationItem, Sweep
from fedsim.scenario.trace import Trace
from fedsim.scenario.units import Instant, PositiveDuration
from fedsim.scenario.work import Prices, Work

MAX_DEVICES = MOST_CLIENTS
_LONGEST_SHOWN = 300  # characters of a value in a notebook

_OwnMetric = Annotated[Component, Named("metric")]
_OwnChart = Annotated[Component, Named("chart")]
Availability = Annotated[BuiltIn | Habits | Trace | Component, Kinds(role="availability model")]


class Session(Model):
    """How long each part of a session takes."""

    download: TimeSource = Field(default="10s", validate_default=True)
    """From selection until the device holds the model."""
    train: TimeSource = Field(default="60s", validate_default=True)
    """Local training."""
    upload: TimeSource = Field(default="20s", validate_default=True)
    """Until the server holds the report."""
    speed: NumberSource = Field(default=1, validate_default=True)
    """How fast each device is: all three lengths are divided by it."""

    @property
    def instant(self) -> bool:
        """Whether a session surely takes no time."""
        return all(part.kind == "constant" and part.value == 0 for part in (self.download, self.train, self.upload))


def _kind_of_session(session: Any) -> str:
    worked = Work.model_fields.keys() if isinstance(session, dict) else ()
    return "work" if isinstance(session, Work) or any(key in session for key in worked) else "times"


AnySession = Annotated[Annotated[Session, Tag("times")] | Annotated[Work, Tag("work")], Discriminator(_kind_of_session)]


class Participations(Model):
    """How often a client may take part."""

    most: RoundsSource
    """A client that has taken part so often is out for good; 1 or more. What counts is what starts a cool-down: being
    selected, or a report that was taken."""


class Group(SparseModel):
    """Some of the devices, alike in law: every number below is drawn or read per client."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = ""
    """How reports call the group; everyone, or group-1, group-2, ..., where it is not given."""
    devices: Annotated[int, Field(ge=1, le=MAX_DEVICES)]
    """How many devices the group has."""
    weight: NumberSource = Field(default=1, validate_default=True)
    """p_i before normalisation over the whole population."""
    separation: RoundsSource = Field(default=0, validate_default=True)
    """R_i: rounds between two participations; round t, then t + 1 + R_i at the earliest."""
    cooldown: ClientTimeSource = Field(default="0s", validate_default=True)
    """Wall-clock time before a client may take part again, beside the separation."""
    participations: Participations | None = None
    """How often each may take part; as often as it is selected, where this is not given."""
    joins: ClientTimeSource | None = None
    """When each device joins, after the run's beginning: of a law such as uniform, the roll-out of an app. All are
    there from the beginning, where this is not given."""
    leaves: ClientTimeSource | None = None
    """How long after it joined each device leaves for good; never, where this is not given."""
    time_zone: ZoneSource = Field(default="UTC", validate_default=True)
    """Whose civil time each device lives by, an IANA name such as Europe/Berlin."""
    availability: Availability = Field(default="always", validate_default=True)
    """When the devices can take part."""
    session: AnySession = Field(default_factory=Session)
    """How long a participation takes: in plain times, or from what there is to transfer and to train."""

    unwritten = frozenset({"participations", "joins", "leaves"})

    @property
    def churns(self) -> bool:
        """Whether devices join or leave during the run."""
        return self.joins is not None or self.leaves is not None


class Records(Model):
    """What is recorded beside the rounds and participations."""

    gauges: PositiveDuration | None = Field(default="1h", validate_default=True)
    """Cadence at which the population is counted; null to leave it out."""
    gauge_sample: Annotated[int, Field(ge=1, le=MAX_DEVICES)] | None = 20_000
    """Clients that are looked at each time, where there are more: their counts stand for all of their group and time
    zone; null to count everyone. Sessions are always counted in full."""
    eligible: bool = False
    """Count the eligible clients at every selection."""
    transitions: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] = Field(default_factory=list)
    """Clients whose conditions are recorded each time they change."""


class ConvergenceStudy(Model):
    """How fast the law of the participants approaches its limit (the paper's appendix)."""

    separations: Annotated[list[Rounds], Field(min_length=1, max_length=12), AfterValidator(each_once)]
    """Common separations to compare."""
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 200
    """How many rounds to follow, from a start at which all clients are ready."""
    replicas: Annotated[int, Field(ge=2, le=10**6)] = 4096
    """Independent copies of the chain, where it is too large to be followed exactly."""


class Theory(Model):
    """Studies of the chain that the report shows beside the run."""

    convergence: ConvergenceStudy | None = None
    """Convergence of the participation law; none, where it is not given."""


class Scenario(SparseModel):  # noqa: PLW1641  pydantic hashes frozen models
    """A federation to simulate: its devices, its server, and what is trained over the log."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(min_length=1, max_length=200)] = "scenario"
    """Title of the report; the file's name, where it is not given."""
    description: Annotated[str, Field(max_length=5000)] = ""
    """What the scenario is about, shown in the report."""
    question: Annotated[str, Field(max_length=300)] = ""
    """What the scenario is to answer, in one line; the report shows it above the answer."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Key of every random draw."""
    start: Instant = Field(default="2026-01-05T00:00:00Z", validate_default=True)
    """The instant at which simulated time is 0."""
    stop: Stop
    """When the run ends."""
    engine: Literal["auto", "process", "vectorized"] = "auto"
    """How devices are simulated; process: a process of its own for each; vectorized: in arrays, looked up when a round
    asks for them; auto: by their number. The tables are the same."""
    population: Annotated[list[Group], Field(min_length=1, max_length=100_000)]
    """The groups of devices."""
    server: Server
    """How the server selects clients and takes their reports: in rounds, or by a buffer."""
    shocks: Annotated[list[Shock], Field(max_length=1_000)] = Field(default_factory=list)
    """What takes many devices out at once, or the server down, beside the life of each device; nothing, where it is not
    given."""
    learning: Learning | None = None
    """What is trained over the log; nothing, where it is not given."""
    privacy: Privacy | None = None
    """What is promised to each client, by noise that a matrix mechanism makes; nothing, where it is not given."""
    theory: Theory = Field(default_factory=Theory)
    """Studies of the chain that the report shows beside the run."""
    records: Records = Field(default_factory=Records)
    """What is recorded beside the rounds and participations."""
    prices: Prices | None = None
    """Prices of what sessions from work take; no money is counted, where they are not given."""
    sweep: Sweep | None = None
    """What-ifs that `fedsim sweep` runs and compares; a single run takes no notice of it."""
    choose: Choose = Field(default_factory=dict)
    """Values by path, such as `population.*.separation: [0, 10, 20]`, of which `fedsim decide` chooses one each."""
    decide: Decide | None = None
    """What makes one setting better than another, to `fedsim sweep` and `decide`; a single run takes no notice."""
    expect: Annotated[list[ExpectationItem], Field(max_length=10_000)] = Field(default_factory=list)
    """Limits that each run must keep."""
    drift: Drift | None = None
    """Figures and tables that must stay as the lock file beside the scenario says."""
    replicates: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many repetitions `fedsim replay` runs, with other draws each, to judge the limits."""
    metrics: Annotated[list[_OwnMetric], Field(max_length=1_000)] = Field(default_factory=list)
    """Metrics of your own, as my_package.my_module:MyClass, measured beside the built-in ones."""
    charts: Annotated[list[_OwnChart], Field(max_length=100)] = Field(default_factory=list)
    """Charts of your own, as my_package.my_module:MyClass, drawn on the report beside the built-in ones."""

    @field_validator("question")
    @classmethod
    def _is_one_line(cls, question: str) -> str:
        if len(question.splitlines()) > 1:
            raise ValueError("must be one line; `description` takes more")
        return question

    @field_validator("population", "shocks")
    @classmethod
    def _named(cls, parts: list[Any], info: ValidationInfo) -> list[Any]:
        what, alone = ("shock", "shock-1") if info.field_name == "shocks" else ("group", "everyone")
        named: dict[str, Any] = {}
        for index, part in enumerate(parts, start=1):
            name = part.name or (alone if len(parts) == 1 else f"{what}-{index}")
            if name in named:
                raise ValueError(f"two {what}s are called {name!r}: give one a name of its own")
            named[name] = part if part.name else part.model_copy(update={"name": name})
        return list(named.values())

    _document: Document = PrivateAttr(default_factory=Document)

    unwritten = frozenset({"question", "metrics", "charts", "choose", "decide", "privacy", "shocks", "prices"})

    @property
    def devices(self) -> int:
        """N: devices in all groups."""
        return sum(group.devices for group in self.population)

    @property
    def divisor(self) -> int | None:
        """By what the server divides the sum of a step's changes; None: by their number, so that it takes the mean."""
        fixed = self.privacy is not None and self.privacy.training != "none"
        return (self.server.cohort if self.server.selects_once else self.server.buffer) if fixed else None

    @property
    def always_available(self) -> bool:
        """Whether every device is available at every instant."""
        return not self.absences

    @property
    def absences(self) -> str:
        """What keeps devices from being always available, as sentences call it: empty where nothing does."""
        habits = any(group.availability.kind != "always" for group in self.population)
        churn = any(group.churns for group in self.population)
        checks = self.server.check_ins is not None
        said = {"availability": habits, "shocks": bool(self.shocks), "churn": churn, "check-ins": checks}
        return " and ".join(each for each, is_so in said.items() if is_so)

    @property
    def sync_server(self) -> SyncServer:
        """The server, if it runs synchronous rounds; otherwise a `TypeError` is raised."""
        if self.server.selects_once:
            return self.server
        raise TypeError("a buffered server runs no rounds")

    @property
    def folder(self) -> Path:
        """Folder against which the scenario's file names are resolved."""
        return self._document.folder

    @property
    def permissions(self) -> Permissions:
        """What the scenario may ask for; everything, if it was not read from a file."""
        return self._document.permissions

    @property
    def written(self) -> int:
        """How many keys and values its files have."""
        return len(self._document.places)

    def locate(self, name: str) -> Path:
        """Return the file that the scenario calls `name`; a `ValueError` says why it cannot be used."""
        return locate(self.folder, name, self.permissions)

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.devices > MAX_DEVICES:
            raise ValueError(f"the groups have {self.devices:,} devices; at most {MAX_DEVICES:,} are possible")
        unknown = [client for client in self.records.transitions if client >= self.devices]
        if unknown:
            last = self.devices - 1
            raise ValueError(f"records.transitions names client {unknown[0]}; clients are numbered 0 to {last}")
        server, works = self.server, any(isinstance(group.session, Work) for group in self.population)
        for which, given in (("prices are", self.prices), ("server.uplink is", server.uplink)):
            if given is not None and not works:
                raise ValueError(f"{which} of sessions from work, and no group has one (session.model, samples, ...)")
        if self.stop.rounds is not None or server.pause:
            return self
        if all(group.session.instant for group in self.population):
            or_pause = " or server.pause" if server.selects_once else ""
            raise ValueError(f"rounds take no time, so stop.duration is never reached: give stop.rounds{or_pause}")
        skips = server.shortage == "skip"
        if skips or server.selection.kind in COIN_LAWS:
            setting, rounds = (
                ("shortage: skip", "skipped") if skips else (f"selection: {server.selection.kind}", "empty")
            )
            remedy = "give stop.rounds or server.pause"
            raise ValueError(f"with {setting} and no pause, {rounds} rounds take no time: {remedy}")
        return self

    @classmethod
    def load(
        cls,
        path: str | Path,
        overrides: Sequence[str] = (),
        seed: int | None = None,
        *,
        allow_plugins: bool = False,
        allow_outside: bool = False,
    ) -> Self:
        """Read and validate a scenario file, in YAML.

        `overrides` are ``path=value`` each, as after ``--set`` on the command line; `seed` replaces that of the file.
        `allow_plugins` lets it name problems, optimizers and modules of your own (``kind: my_module:MyClass``), which
        are imported, and `allow_outside` files outside its folder. A `ScenarioError` has every mistake as
        ``FILE:LINE:COLUMN: error: PATH: ...``.
        """
        file = path_of("path", path, "the name of a scenario file")
        listed = isinstance(overrides, Sequence) and not isinstance(overrides, str)
        if not listed or not all(isinstance(each, str) for each in overrides):
            raise TypeError(f"overrides must be a list of PATH=VALUE, not {short_repr(overrides)}")
        seed = None if seed is None else whole("seed", seed)
        document, mistakes = load_document(file, overrides, seed, Permissions(allow_plugins, allow_outside))
        return cls.of_document(document, mistakes)

    @classmethod
    def of_document(cls, document: Document, mistakes: Sequence[Mistake] = ()) -> Self:
        """Return the scenario that plain data mean; `mistakes` were found while they were read."""
        scenario = validate(cls, document, mistakes)
        scenario._document = document
        return scenario

    def with_values(self, values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> Self:
        """Return the scenario with other values at some paths, written as after ``--set``.

        Such as ``{"population.*.separation": 8}``; a duration may also be a number of seconds or a
        `datetime.timedelta`. `places` says by path where mistakes in a value are shown, for values that were written in
        a file. A `ScenarioError` has every mistake, as from `load`.
        """
        if not isinstance(values, Mapping) or not all(isinstance(path, str) for path in values):
            raise TypeError(f"values must be a mapping such as {{'server.cohort': 20}}, not {short_repr(values)}")
        document = self._as_document().copy_without(values)
        document.in_a_file = document.in_a_file and places is not None
        for path, value in values.items():
            document.put(path, copy.deepcopy(value), path if places is None else places.get(path, path))
        return type(self).of_document(document)

    def not_permitted(self) -> list[Mistake]:
        """Return what the scenario asks for and may not have; nothing, if it was read as a scenario file."""
        return [] if self.permissions == TRUSTED else list(not_permitted(self._as_document()))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values of some fields, which are not checked; see `with_values`."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            copied._document = replace(self._document, data=None)
        return copied

    def __eq__(self, other: object) -> bool:
        # Where it was read from makes no difference.
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"<Scenario {short_repr(self.name)}: {self._size()}>"

    def _size(self) -> str:
        groups, server = len(self.population), self.server
        size = f"{self.devices:,} devices in {groups:,} group{'s' if groups > 1 else ''}"
        cohort = f"{server.mode} server, {server.wanted:,} selected at a time"
        return f"{size}, {cohort}, {self.stop.in_words()}"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Show the scenario in a notebook: what it is about, and what it sets."""
        from fedsim.common.markup import fragment

        rows: list[tuple[str, str]] = []
        for key, value in self.model_dump(mode="json", exclude_unset=True).items():
            if key == "population":
                rows += [(f"population[{at}]", _in_one_line(group)) for at, group in enumerate(value)]
            elif key not in {"name", "question", "description"}:
                rows.append((key, _in_one_line(value)))
        notes = [text for text in (self.question, self.description) if text]
        return fragment(f"{self.name}: {self._size()}", (), rows, words=2, notes=notes)

    def _as_document(self) -> Document:
        """Return what was written; for a scenario that was made in Python, what would have been."""
        own = self._document
        written = self.model_dump(mode="json", exclude_unset=True) if own.data is None else own.data
        return replace(own, data=written)

    @property
    def as_written(self) -> dict[str, Any]:
        """What was written, as plain data: files that are extended are merged, defaults left out."""
        written: dict[str, Any] = copy.deepcopy(self._as_document().data)
        return written

    def mistake(self, path: KeyPath, message: str) -> Mistake:
        """Say what is wrong at `path`, with its place in the file that the scenario was read from."""
        return Mistake(self._document.place(path), path, message)


def _in_one_line(value: Any) -> str:
    """Write a value on one line, about as YAML does; of a long one the beginning."""
    text = _flow(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file."""
    schema = Scenario.model_json_schema()
    names = {"type": "string", "minLength": 1}
    schema["properties"]["extends"] = {
        "anyOf": [names, {"type": "array", "items": names}],
        "description": "Scenario files that this one is merged over, key by key; this file wins.",
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "fedsim scenario"}
