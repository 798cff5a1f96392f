"""A sweep, and what its settings and each run are judged by: limits, figures that must not drift, the best setting."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fedsim.common.hints import did_you_mean
from fedsim.scenario.learning import MAX_OPTIMIZERS
from fedsim.scenario.strict import Model, SparseModel, each_once, word_as

MAX_POINTS = 100_000
MAX_SEEDS = 100_000
MAX_CHOICES = 1_000

_Seed = Annotated[int, Field(ge=0, lt=2**63)]
Values = Annotated[list[Any], Field(min_length=1)]
WITHOUT_EFFECT: Final = frozenset(
    {"schema_version", "name", "description", "question", "headline", "charts", "replicates"}
    | {"sweep", "choose", "decide", "expect", "drift"}
)
"""Keys of a scenario that change neither the log nor a figure of a run: how it is called, shown, varied and judged."""
_KEPT = WITHOUT_EFFECT | {"seed", "extends"}
Tolerance = Annotated[float, Field(ge=0, le=1e300)]
MetricName = Annotated[str, Field(min_length=1, max_length=300)]
TableName = Literal["rounds", "participations", "clients", "gauges", "learning", "transitions", "convergence"]


class Sweep(SparseModel):
    """Which what-ifs are compared: points, and the same seeds (the same worlds) at every one of them."""

    unwritten = frozenset({"tuned"})

    grid: Annotated[dict[str, Values], Field(max_length=100)] = Field(default_factory=dict)
    """Values by path, such as `population.*.separation: [0, 4, 8]`; every combination is a point."""
    zip: Annotated[dict[str, Values], Field(max_length=100)] = Field(default_factory=dict)
    """Values by path that go together: the first of each, the second of each, ...; combined with the grid."""
    exclude: Annotated[list[dict[str, Any]], Field(max_length=10_000)] = Field(default_factory=list)
    """Points to leave out: all whose values are these; a list stands for any of its values."""
    tuned: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)
    """Paths under `zip` whose values were tuned for the others: they do not name a setting; a table shows them."""
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] | Annotated[list[_Seed], Field(min_length=1)] = 1
    """How many seeds, counted up from the scenario's own; or a list of seeds. At least two give intervals."""

    @property
    def paths(self) -> list[str]:
        """The swept paths in the order of the file, those of the grid first."""
        return [*self.grid, *self.zip]

    @property
    def count(self) -> int:
        """How many points it has before any is excluded."""
        together = max((len(values) for values in self.zip.values()), default=1)
        return math.prod(len(values) for values in self.grid.values()) * together

    @field_validator("grid", "zip")
    @classmethod
    def _each_once(cls, swept: dict[str, list[Any]], info: ValidationInfo) -> dict[str, list[Any]]:
        names = {"name"} if info.field_name == "zip" else set()  # zipped with what differs, they name the settings
        for path, values in swept.items():
            if not _finite(values):
                raise ValueError(f"the values of {path!r} must be finite")
            if path.replace("[", ".").partition(".")[0] in _KEPT - names:
                instead = "; give `seeds` instead" if path == "seed" else ""
                raise ValueError(f"{path!r} cannot be swept{instead}")
        return swept

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list):
            if len(seeds) > MAX_SEEDS:
                raise ValueError(f"has {len(seeds):,} seeds; at most {MAX_SEEDS:,} are possible")
            each_once(seeds)
        return seeds

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        both = [path for path in self.zip if path in self.grid]
        if both:
            raise ValueError(f"{both[0]!r} is in `grid` and in `zip`; it can only be in one")
        lengths = {path: len(values) for path, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{path!r} has {length}" for path, length in lengths.items())
            raise ValueError(f"the lists of `zip` must be equally long, but {listed}")
        self._check_tuned()
        for values in self.exclude:
            unknown = [path for path in values if path not in self.paths]
            if unknown:
                hint = did_you_mean(unknown[0], self.paths, or_known=True)
                raise ValueError(f"`exclude` names {unknown[0]!r}, which is not swept{hint}")
        if self.count > MAX_POINTS:
            raise ValueError(f"has {self.count:,} points; at most {MAX_POINTS:,} are possible")
        return self

    def _check_tuned(self) -> None:
        for path in self.tuned:
            if path not in self.zip:
                hint = did_you_mean(path, self.zip, or_known=True)
                raise ValueError(f"`tuned` names {path!r}, which is not under `zip`{hint}")
        naming = [values for path, values in self.zip.items() if path not in self.tuned]
        rows = [json.dumps(row) for row in zip(*naming, strict=True)]
        if self.tuned and len(set(rows)) < len(next(iter(self.zip.values()))):
            raise ValueError("without what is `tuned`, the rest of `zip` must tell its settings apart")

    def excludes(self, values: Mapping[str, Any]) -> bool:
        """Say whether a point with these values is left out."""
        left_out = [entry for entry in self.exclude if entry]
        return any(all(matches(values[path], value) for path, value in entry.items()) for entry in left_out)


def _finite(value: Any) -> bool:
    """Whether no number in a value is infinite or NaN."""
    if isinstance(value, dict | list):
        return all(_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is the one wanted, or one of those in a list of them; 1 and true differ."""
    if isinstance(wanted, list) and not isinstance(value, list):
        return any(matches(value, each) for each in wanted)
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _checked_choice(chosen: dict[str, list[Any]]) -> dict[str, list[Any]]:
    if (count := math.prod(map(len, chosen.values()))) > MAX_CHOICES:
        raise ValueError(f"has {count:,} settings; at most {MAX_CHOICES:,} are possible")
    for path, values in chosen.items():
        written = Counter(map(json.dumps, values))
        if twice := [each for each, count in written.items() if count > 1]:
            raise ValueError(f"has {twice[0]} twice for {path!r}")
    Sweep(grid=chosen)
    return chosen


_Choices = Annotated[dict[str, Values], Field(max_length=100)]
_OrNone = BeforeValidator(lambda value: {} if value is None else value, json_schema_input_type=_Choices | None)
Choose = Annotated[_Choices, AfterValidator(_checked_choice), _OrNone]


class Expectation(Model):
    """A limit on a named metric."""

    check: Annotated[str, Field(min_length=1, max_length=1000)]
    """Such as ``group.NAME.reported_ratio >= 0.8``, ``rounds.duration.p95 <= 6m``, ``rounds.shortage_share <= 10%`` or
    ``0.4 <= participation.l1_uniform <= 0.5``; `fedsim metrics` lists the names."""
    severity: Literal["error", "warn"] = "error"
    """error: a run that misses the limit fails; warn: it is only shown."""
    why: Annotated[str, Field(max_length=1000)] = ""
    """The reason for the limit, shown when it is missed."""
    over: Literal["every", "mean", "p95"] = "every"
    """Of several replicates: every one must keep the limit, or their mean, or 95 % of them."""


ExpectationItem = Annotated[Expectation, BeforeValidator(word_as("check"), json_schema_input_type=str | Expectation)]


class DriftFigure(Model):
    """A metric whose value is kept in the lock file."""

    name: MetricName
    """As listed by `fedsim metrics`."""
    rel: Tolerance | None = None
    """Tolerance relative to the locked value; that of `drift`, where it is not given."""
    abs: Tolerance | None = None
    """Absolute tolerance; the larger of the two counts."""


DriftItem = Annotated[DriftFigure, BeforeValidator(word_as("name"), json_schema_input_type=str | DriftFigure)]


class Drift(Model):
    """Figures and tables that must stay as they were when the lock file was written."""

    figures: Annotated[list[DriftItem], Field(max_length=10_000)] = Field(default_factory=list)
    """Metrics that may change by no more than their tolerance."""
    rel: Tolerance = 1e-6
    """Tolerance relative to the locked value."""
    abs: Tolerance = 1e-12
    """Absolute tolerance, for values near 0; the larger of the two counts."""
    fingerprint: Annotated[list[TableName], Field(max_length=100)] = Field(default_factory=list)
    """Tables that must be the same to the last bit."""

    def tolerance(self, figure: DriftFigure) -> tuple[float, float]:
        """Return by how much a figure may change: relative to the locked value, and absolutely."""
        return self.rel if figure.rel is None else figure.rel, self.abs if figure.abs is None else figure.abs

    @model_validator(mode="after")
    def _locks_something(self) -> Self:
        if not (self.figures or self.fingerprint):
            raise ValueError("locks nothing: name `figures` such as rounds.per_day, or tables (`fingerprint`)")
        return self


class Decide(SparseModel):
    """Which setting of a sweep is the best: that with the least or most of a metric where all conditions hold."""

    unwritten = frozenset({"tune", "seeds", "tuning_seeds"})

    minimize: MetricName | None = None
    """The metric of which less is better, such as ``participation.l1_uniform``; `fedsim metrics` lists the names."""
    maximize: MetricName | None = None
    """The metric of which more is better, such as ``rounds.per_day``; one of the two, not both."""
    subject_to: Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=100)] = Field(
        default_factory=list
    )
    """Conditions as in `expect`, such as ``rounds.per_day >= 200``: the mean over the seeds must keep them."""
    tune: Annotated[dict[str, Values], Field(max_length=20)] | None = None
    """`fedsim decide` tries these values at every setting, each with each (200 at most): of keys of the optimizer that
    the metric names (``local_step_size``, ``server.step_size``, ``update_clip``, its own), or of whole paths, such as
    ``learning.local_steps``; ``server`` is that of the optimizer. By default five around the scenario's step and, with
    privacy in training, five around its clip. {} tunes nothing."""
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] | None = None
    """With how many seeds `fedsim decide` compares settings at most; 8, where it is not given."""
    tuning_seeds: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """With how many other seeds it tunes each setting; 3, where it is not given."""

    @field_validator("tune")
    @classmethod
    def _few_variants(cls, tune: dict[str, list[Any]] | None) -> dict[str, list[Any]] | None:
        if (count := math.prod(map(len, (tune or {}).values()))) > MAX_OPTIMIZERS:
            raise ValueError(f"has {count:,} variants of the optimizer; at most {MAX_OPTIMIZERS:,} are possible")
        return tune

    @model_validator(mode="after")
    def _one_objective(self) -> Self:
        if (self.minimize is None) == (self.maximize is None):
            which = "it has both" if self.minimize is not None else "it has neither"
            raise ValueError(f"needs either `minimize` or `maximize`, a metric each, and {which}")
        return self

    @property
    def metric(self) -> str:
        """The metric to choose by."""
        return self.minimize or self.maximize or ""
