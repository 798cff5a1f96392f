"""Studies of the chain that stand beside a run: how fast participation approaches its limit."""

from typing import Annotated

from pydantic import AfterValidator, Field

from fedsim.scenario.sources import Rounds
from fedsim.scenario.strict import Model, each_once


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
