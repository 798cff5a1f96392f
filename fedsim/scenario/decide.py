"""What a sweep is to choose by: a metric to make small or large, and what must be kept."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from fedsim.scenario.expect import MetricName
from fedsim.scenario.model import Model


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
        metric = self.minimize if self.minimize is not None else self.maximize
        assert metric is not None
        return metric
