"""What a scenario must keep: limits that a person wrote, and figures that must not drift."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

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
