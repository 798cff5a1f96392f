"""The scenario: what a person can ask for, with units, ranges and defaults."""

import copy
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedsim.common.arguments import path_of, short_repr, whole
from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.common.hints import did_you_mean
from fedsim.scenario.component import Component, Named
from fedsim.scenario.document import Document
from fedsim.scenario.group import Group
from fedsim.scenario.jobs import MOST_JOBS, JobName, Matching, ServerOrJobs, SharedJob, document_of_job, server_in_jobs
from fedsim.scenario.learning import Learning
from fedsim.scenario.loading import load_document, not_permitted, not_permitted_in, validate
from fedsim.scenario.log import ProductionLog, with_placeholders
from fedsim.scenario.permissions import TRUSTED, Permissions
from fedsim.scenario.privacy import Privacy
from fedsim.scenario.records import Records
from fedsim.scenario.server import COIN_LAWS, MOST_CLIENTS, SyncServer
from fedsim.scenario.shocks import Shock
from fedsim.scenario.sources import ByDeadline
from fedsim.scenario.stop import Stop
from fedsim.scenario.studies import Theory
from fedsim.scenario.sweep import Choose, Decide, Drift, ExpectationItem, Sweep
from fedsim.scenario.units import Duration, Instant
from fedsim.scenario.work import Prices, Work
from fedsim.scenario.written import Written, in_one_line

_OwnMetric = Annotated[Component, Named("metric")]
_OwnChart = Annotated[Component, Named("chart")]


class Scenario(Written):
    """A federation to simulate: its devices, its server, and what is trained over the log."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    name: Annotated[str, Field(min_length=1, max_length=200)] = "scenario"
    """Title of the report; the file's name, where it is not given."""
    description: Annotated[str, Field(max_length=5000)] = ""
    """What the scenario is about, shown in the report."""
    question: Annotated[str, Field(max_length=300)] = ""
    """What the scenario is to answer, in one line; the report shows it above the answer."""
    headline: Annotated[str, Field(max_length=300)] = ""
    """The metric that the report of a run says first, such as `group.india.reported_ratio`; by default it begins with
    what `decide`, `learning` or `prices` ask for, or else with who takes part."""
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
    server: ServerOrJobs
    """How the server selects clients and takes their reports: in rounds, or by a buffer."""
    log: ProductionLog | None = None
    """A log of production that is measured, instead of a simulation: it tells the population, the server and the end,
    as far as they are not given."""
    starts: Duration | None = None
    """When the server opens the first round, from the beginning of the run; at once, where it is not given."""
    jobs: Annotated[dict[JobName, SharedJob], Field(max_length=MOST_JOBS)] = Field(default_factory=dict)
    """Several training jobs that share the devices, by name, instead of `server`, `learning` and `privacy`."""
    matching: Matching | None = None
    """Which job selects first, where several want devices at the same instant; first_come, where it is not given."""
    most_a_day: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Sessions of a device in a day over all jobs, at most: days of 24 hours from the beginning of the run. Any, where
    it is not given."""
    alone: bool = False
    """Whether each of the `jobs` is simulated without the others too, to tell what sharing costs."""
    job: str = ""
    """With `jobs`, the one that is run, alone on the fleet. Without, the job whose part of a run this is: its draws are
    keyed by the name."""
    beside: list[str] = Field(default_factory=list)
    """The other jobs on the fleet, in the scenario that a run of several writes for each."""
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

    @model_validator(mode="before")
    @classmethod
    def _server_in_jobs(cls, data: Any) -> Any:
        return server_in_jobs(with_placeholders(data))

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

    unwritten = frozenset(
        {"question", "headline", "metrics", "charts", "choose", "decide", "privacy", "shocks", "prices", "server"}
        | {"log", "starts", "jobs", "job", "beside", "matching", "most_a_day", "alone"}
    )

    @property
    def devices(self) -> int:
        """N: devices in all groups."""
        return sum(group.devices for group in self.population)

    @property
    def works(self) -> bool:
        """Whether sessions of some group are from work, and not in plain times."""
        return any(isinstance(group.session, Work) for group in self.population)

    @property
    def divisor(self) -> int | None:
        """By what the server divides the sum of a step's changes; None: by their number, so that it takes the mean."""
        fixed = self.privacy is not None and self.privacy.training != "none"
        return (self.server.cohort if self.server.selects_once else self.server.buffer) if fixed else None

    def servers(self) -> dict[str, Self]:
        """Return the scenario of each server by the name of its job; without jobs, itself by an empty name."""
        return {name: self.of_job(name) for name in self.jobs} or {"": self}

    @property
    def always_available(self) -> bool:
        """Whether every device is available at every instant."""
        return not self.absences

    @property
    def absences(self) -> str:
        """What keeps devices from being always available, as sentences call it: empty where nothing does."""
        habits = any(group.availability.kind != "always" for group in self.population)
        churn = any(group.churns for group in self.population)
        servers = [job.server for job in self.jobs.values()] or [self.server]
        checks = any(server.check_ins is not None for server in servers)
        causes = {"what a log does not tell": self.log is not None}
        causes |= {"availability": habits, "shocks": bool(self.shocks), "churn": churn, "check-ins": checks}
        causes["the limit most_a_day"] = self.most_a_day is not None
        causes["other jobs on the fleet"] = bool(self.beside) or len(self.jobs) > 1
        return " and ".join(each for each, is_so in causes.items() if is_so)

    @property
    def losses(self) -> dict[str, str]:
        """In which ways a session may end without a report that is taken: outcomes of sessions, each with its cause.

        Where there is one, rounds with fewer than `minimum_reports` fail, too; and the end of the run aborts sessions.
        """
        server = self.server
        over = server.selects_once and server.wanted > server.cohort
        gated = server.selects_once and server.secure_aggregation is not None
        failures = [group.session.fails.losses for group in self.population if group.session.fails]
        outcomes = {
            **{outcome: (True, cause) for losses in failures for outcome, cause in losses.items()},
            **({} if self.always_available else {"dropped": (True, f"devices are not always there ({self.absences})")}),
            "late": (server.deadline is not None, "server.deadline, after which reports are late"),
            "aborted": (over, "server.over_select above 1, where the slowest reports are not taken"),
            "stale": (server.max_staleness is not None, "server.max_staleness, by which reports are discarded"),
            "failed": (gated, "server.secure_aggregation, by which rounds fail"),
        }
        return {outcome: cause for outcome, (may, cause) in outcomes.items() if may}

    @property
    def untrained(self) -> dict[str, Any] | None:
        """What `learning` becomes where nothing is to be trained: None, or the local steps on which sessions depend."""
        partial = self.server.partial or any(path.rpartition(".")[2] == "partial" for path in self.choose)
        if self.learning is None or not (partial or isinstance(self.learning.local_steps, ByDeadline)):
            return None
        problem = {"kind": "quadratic", "dimension": 1}
        steps = self.as_written["learning"].get("local_steps", self.learning.local_steps)
        return {"problem": problem, "optimizers": ["fedavg"], "step_size": 0.1, "local_steps": steps}

    @property
    def chooses_by_optimum(self) -> bool:
        """Whether `decide` is by the loss above that of the optimum, which training then tells."""
        return self.decide is not None and self.decide.metric.endswith(".above_optimum")

    @property
    def sync_server(self) -> SyncServer:
        """The server, if it runs synchronous rounds; otherwise a `TypeError` is raised."""
        if self.server.selects_once:
            return self.server
        raise TypeError("a buffered server runs no rounds")

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.devices > MOST_CLIENTS:
            raise ValueError(f"the groups have {self.devices:,} devices; at most {MOST_CLIENTS:,} are possible")
        unknown = [client for client in self.records.transitions if client >= self.devices]
        if unknown:
            last = self.devices - 1
            raise ValueError(f"records.transitions names client {unknown[0]}; clients are numbered 0 to {last}")
        if self.jobs:
            self._check_jobs()
            return self
        for key in ("matching", "alone"):
            if getattr(self, key):
                raise ValueError(f"`{key}` is for several jobs on one fleet, and there are no `jobs`")
        if (self.starts or 0) >= self.stop.most_s:
            raise ValueError(f"the server opens its first round (starts) when the run is over ({self.stop.in_words()})")
        server, works = self.server, self.works
        for which, given in (("prices are", self.prices), ("server.uplink is", server.uplink)):
            if given is not None and not works:
                raise ValueError(f"{which} of sessions from work, and no group has one (session.model, samples, ...)")
        if self.stop.most_rounds < math.inf or server.pause:
            return self
        if all(group.session.instant for group in self.population):
            or_pause = " or server.pause" if server.selects_once else ""
            raise ValueError(f"rounds take no time, so stop.duration is never reached: give stop.rounds{or_pause}")
        skips = server.shortage == "skip"
        if skips or server.selection.kind in COIN_LAWS:
            setting = "shortage: skip" if skips else f"selection: {server.selection.kind}"
            message = f"with {setting} and no pause, {'skipped' if skips else 'empty'} rounds take no time"
            raise ValueError(f"{message}: give stop.rounds or server.pause")
        return self

    def _check_jobs(self) -> None:
        groups = [group.name for group in self.population]
        if self.choose:
            raise ValueError("`choose` is about one server, and there are `jobs`: sweep them, or choose one with `job`")
        if self.starts is not None or self.beside:
            raise ValueError(f"`{'beside' if self.beside else 'starts'}` is of one job, and not beside `jobs`")
        if self.job and self.job not in self.jobs:
            hint = did_you_mean(self.job, self.jobs, or_known=True)
            raise ValueError(f"`job` is {self.job!r}, and there is none{hint}")
        for name, job in self.jobs.items():
            if unknown := [each for each in job.groups or () if each not in groups]:
                hint = did_you_mean(unknown[0], groups, or_known=True)
                raise ValueError(f"jobs.{name}.groups names {unknown[0]!r}, and no group is called so{hint}")

    def check_one(self) -> Self:
        """Return it if it has one server; a `ScenarioError` says how to choose one of several jobs."""
        if not self.jobs:
            return self
        message = f"several jobs share this fleet ({', '.join(self.jobs)}), and this is about one: choose it with `job`"
        raise ScenarioError([self.mistake(("jobs",), f"{message}, as by --set job={next(iter(self.jobs))}")])

    def of_job(self, name: str, *, alone: bool = False) -> Self:
        """Return the scenario of one of the `jobs`: its server, learning and privacy on the whole fleet.

        Others are `beside` it, unless it is `alone`. A `ScenarioError` has every mistake in it.
        """
        groups = [group.name for group in self.population]
        try:
            written = document_of_job(self._as_document(), name, self.jobs, groups, self.stop, alone=alone)
            return type(self).of_document(written)
        except ScenarioError as error:
            raise error.in_job(name) from None

    @property
    def own_seed(self) -> int:
        """Key of the draws that jobs on one fleet do not share: who is selected, how long sessions take, training."""
        if not self.job:
            return self.seed
        return int.from_bytes(hashlib.sha256(f"{self.seed} {self.job}".encode()).digest()[:8]) >> 1

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        overrides: Sequence[str] = (),
        seed: int | None = None,
        *,
        allow_plugins: bool = False,
        allow_outside: bool = False,
    ) -> Self:
        """Return the scenario of a file, after validating it.

        Parameters
        ----------
        path
            A scenario file, in YAML, or one that comes with fedsim, such as ``paper/synthetic``.
        overrides
            ``path=value`` each, as after ``--set`` on the command line.
        seed
            In place of the file's own.
        allow_plugins, allow_outside
            Let it name modules of your own (``kind: my_module:MyClass``), which are imported, and files outside its
            folder.

        Raises
        ------
        ScenarioError
            With every mistake as ``FILE:LINE:COLUMN: error: PATH: ...``; if there is no such file, it is a
            `FileNotFoundError` too.

        >>> Scenario.load("paper/synthetic", ["stop.rounds=200"]).stop.rounds
        200
        """
        file = path_of("path", path, "the name of a scenario file")
        listed = isinstance(overrides, Sequence) and not isinstance(overrides, str)
        if not listed or not all(isinstance(each, str) for each in overrides):
            raise TypeError(f"overrides must be a list of PATH=VALUE, not {short_repr(overrides)}")
        seed = None if seed is None else whole("seed", seed)
        document, mistakes = load_document(file, overrides, seed, Permissions(allow_plugins, allow_outside))
        scenario = cls.of_document(document, mistakes)
        if scenario.decide is not None and scenario.decide.tune and "choose" not in document.data:
            message = "tunes what `fedsim decide` chooses among, and there is no `choose`"
            raise ScenarioError([scenario.mistake(("decide", "tune"), message)])
        return scenario

    @classmethod
    def of_document(cls, document: Document, mistakes: Sequence[Mistake] = ()) -> Self:
        """Return the scenario that plain data mean; `mistakes` were found while they were read."""
        scenario = validate(cls, document, mistakes)
        scenario._document = document
        if refused := [*scenario._refused_in_sweep()]:
            raise ScenarioError(refused)
        if scenario.jobs and (scenario.job or len(scenario.jobs) == 1):
            return scenario.of_job(scenario.job or next(iter(scenario.jobs)), alone=True)
        scenario.servers()  # for the mistakes in each
        return scenario

    def with_values(self, values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> Self:
        """Return the scenario with other values at some paths.

        Parameters
        ----------
        values
            By path, as after ``--set``; a duration may also be a number of seconds or a `datetime.timedelta`.
        places
            By path, where mistakes in a value are shown, for values that were written in a file.

        Raises
        ------
        ScenarioError
            With every mistake, as from `load`.

        >>> Scenario.load("paper/synthetic").with_values({"population.*.separation": 8}).population[0].separation.value
        8
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
        if self.permissions == TRUSTED:
            return []
        return [*not_permitted(self, self._as_document()), *self._refused_in_sweep()]

    def _refused_in_sweep(self) -> Iterator[Mistake]:
        sweep = self.sweep or Sweep()
        listed: list[tuple[KeyPath, dict[str, list[Any]]]] = [(("choose",), self.choose)]
        listed += [(("sweep", "grid"), sweep.grid), (("sweep", "zip"), sweep.zip)]
        lists = (((*at, path), values) for at, by_path in listed for path, values in by_path.items())
        values = (((*at, index), value) for at, values in lists for index, value in enumerate(values))
        return not_permitted_in(values, type(self), self._as_document())

    def __repr__(self) -> str:
        return f"<Scenario {short_repr(self.name)}: {self._size()}>"

    def _size(self) -> str:
        groups = len(self.population)
        size = f"{self.devices:,} devices in {groups:,} group{'s' if groups > 1 else ''}"
        if self.jobs:
            return f"{size}, {len(self.jobs)} jobs ({', '.join(self.jobs)}), {self.stop.in_words()}"
        cohort = f"{self.server.mode} server, {self.server.wanted:,} selected at a time"
        return f"{size}, {cohort}, {self.stop.in_words()}"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Show the scenario in a notebook: what it is about, and what it sets."""
        from fedsim.common.markup import fragment

        rows: list[tuple[str, str]] = []
        for key, value in self.model_dump(mode="json", exclude_unset=True).items():
            if key == "population":
                rows += [(f"population[{at}]", in_one_line(group)) for at, group in enumerate(value)]
            elif key not in {"name", "question", "description"}:
                rows.append((key, in_one_line(value)))
        notes = [text for text in (self.question, self.description) if text]
        return fragment(f"{self.name}: {self._size()}", (), rows, words=2, notes=notes)
