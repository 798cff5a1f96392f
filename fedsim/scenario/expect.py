"""What a run or a sweep is judged by: limits that a person wrote, figures that must not drift, the best setting."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fedsim.scenario.model import Model, word_as

Tolerance = Annotated[float, Field(ge=0, le=1e300)]
MetricName = Annotated[str, Field(min_length=1, max_length=300)]
TableName = Literal["rounds", "participations", "clients", "gauges", "learning", "transitions", "convergence"]


class Expectation(Model):
    """A limit on a named metric."""

    check: Annotated[str, Field(min_length=1, max_length=1000)]
    """Such as ``participation.l1_chain < 0.05``, ``rounds.duration.p95 <= 6m``, ``rounds.shortage_share <= 10%`` or
    ``0.4 <= participation.l1_uniform <= 0.5``; `fedsim metrics` lists the names."""
    severity: Literal["error", "warn"] = "error"
    """error: a run that misses the limit fails; warn: it is only told."""
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


class Decide(Model):
    """Which setting of a sweep is the best: that with the least or most of a metric where all conditions hold."""

    minimize: MetricName | None = None
    """The metric of which less is better, such as ``participation.l1_uniform``; `fedsim metrics` lists the names."""
    maximize: MetricName | None = None
    """The metric of which more is better, such as ``rounds.per_day``; one of the two, not both."""
    subject_to: Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=100)] = Field(
        default_factory=list
    )
    """Conditions as in `expect`, such as ``rounds.per_day >= 200``: the mean over the seeds must keep them."""

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
