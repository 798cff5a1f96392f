"""Differential privacy: which mechanism adds how much noise, and what it is to promise."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.scenario.component import Component, Named
from fedsim.scenario.strict import Model, Positive, SparseModel

UNIT = "one client; adjacency: zero-out (all that it contributes is replaced by zeros)"
SECRET = "with amplification by sampling, which holds only if the schedule stays secret"


def scope_of(secret: bool) -> str:
    """Return what stands beside epsilon: to whom the promise is made, and whether it counts on a secret schedule."""
    return f"{UNIT}; {SECRET}" if secret else UNIT


class AdaptiveClip(Model):
    """A clip that follows a quantile of the norms of updates, by noisy counts of those below it.

    Source: Andrew, Thakkar, McMahan and Ramaswamy, *Differentially Private Learning with Adaptive Clipping*, NeurIPS
    2021, arXiv:1905.03871.
    """

    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Which share of the updates is to be shorter than the clip."""
    rate: Annotated[float, Field(gt=0, le=1)] = 0.2
    """By which power of e the clip changes in a round if all updates, or none, are shorter."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Of the squared sensitivity, what the counts get; the noise on updates is larger by 1 / sqrt(1 - share)."""


class Privacy(SparseModel):
    """What each client is promised, and the noise that keeps it; ``epsilon`` or ``noise_multiplier`` is needed."""

    unwritten = frozenset({"stands_for"})

    mechanism: Annotated[Component, Named("privacy mechanism")] = Field(default="banded", validate_default=True)
    """How the noise of the rounds is correlated."""
    noise_multiplier: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    """Standard deviation of the noise over clip norm and sensitivity; instead of ``epsilon``."""
    epsilon: Annotated[float, Field(ge=1e-3, le=1e3)] | None = None
    """What is promised, at ``delta``; the noise multiplier is the smallest that keeps it."""
    stands_for: Annotated[float, Field(ge=1, le=1e9)] | None = None
    """How many times as large the federation is that this one stands for (`plan --scale`): epsilon is that one's, and
    training has so many times less noise, as much in the mean of a round as there."""
    delta: Annotated[float, Field(ge=1e-100, lt=1)]
    """The delta at which epsilon holds; less than one over the number of clients, or it promises little."""
    clip: Positive | None = None
    """Norm to which each update is clipped; with it the noise is stated in its units too."""
    adaptive_clip: AdaptiveClip | None = None
    """How the clip changes from round to round; not at all where it is not given."""
    amplification: Literal["none", "sampling"] = "none"
    """What epsilon may count on: nothing but separations and caps, or sampling too, by a law that draws each client by
    itself; that holds only while nobody learns who took part in which round."""
    training: Literal["none", "clip", "noise"] = "none"
    """What training does of it; clip: each update is clipped, and their sum divided by the wanted cohort; noise: the
    mechanism's noise is added to that sum too."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.noise_multiplier is None) == (self.epsilon is None):
            which = "and not both" if self.epsilon is not None else "to say how much noise there is"
            raise ValueError(f"needs noise_multiplier or epsilon, {which}")
        if self.training != "none" and self.clip is None:
            raise ValueError(f"training: {self.training} needs clip, the norm to which each update is clipped")
        if self.training == "none" and self.adaptive_clip is not None:
            raise ValueError("adaptive_clip is for training: clip or noise")
        return self
