"""What is trained over the log: the scenario's problem, optimizers and steps."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedsim.scenario.component import Component, Kinds, Named
from fedsim.scenario.permissions import NameOfFile
from fedsim.scenario.server import MOST_CLIENTS
from fedsim.scenario.sources import StepsSource
from fedsim.scenario.strict import Model, Positive, SparseModel, value_as

MAX_OPTIMIZERS = 200


class ConstantSchedule(Model):
    """The same step size in every round."""

    kind: Literal["constant"]
    initial: Positive
    """That step size."""

    def __call__(self, _t: int) -> float:
        """Return the local step size of round t = 0, 1, ... of the log."""
        return self.initial


class PowerSchedule(Model):
    """initial * (1 + t / scale) ** -exponent in round t."""

    # With 1/2 < exponent <= 1 the steps are long enough together to get anywhere, and short enough in the end for the
    # noise to die out (Robbins and Monro, 1951).

    kind: Literal["power"]
    initial: Positive
    """Step size of the first round."""
    exponent: Positive = 0.5
    """How fast it falls."""
    scale: Positive = 1.0
    """Rounds after which it has fallen to 2 ** -exponent."""

    def __call__(self, t: int) -> float:
        """Return the local step size of round t = 0, 1, ..."""
        return self.initial * float((1.0 + t / self.scale) ** -self.exponent)


class CosineSchedule(Model):
    """Half a cosine from initial to final."""

    # Loshchilov and Hutter, SGDR, ICLR 2017, arXiv:1608.03983, without restarts.

    kind: Literal["cosine"]
    initial: Positive
    """Step size of the first round."""
    rounds: Annotated[int, Field(ge=1)]
    """After how many rounds it is final."""
    final: Positive
    """Step size from then on."""

    def __call__(self, t: int) -> float:
        """Return the local step size of round t = 0, 1, ..."""
        share = min(1.0, t / self.rounds)
        return self.final + 0.5 * (self.initial - self.final) * (1.0 + math.cos(math.pi * share))


class StagedSchedule(Model):
    """Falls by a factor at each milestone."""

    kind: Literal["stages"]
    initial: Positive
    """Step size of the first round."""
    milestones: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    """Rounds from which on it is smaller."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """By how much."""

    def __call__(self, t: int) -> float:
        """Return the local step size of round t = 0, 1, ..."""
        return self.initial * float(self.factor ** sum(t >= milestone for milestone in self.milestones))


StepSize = Annotated[
    ConstantSchedule | PowerSchedule | CosineSchedule | StagedSchedule, Kinds(value_as("constant", "initial"), Positive)
]


class OptimizerChoice(SparseModel, Component):
    """An optimizer and the name under which results show it."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_-]+$")] | None = None
    """Shown in tables and metrics; the kind, where it is not given."""
    local_step_size: StepSize | None = None
    """Local step size of this optimizer's clients; `learning.step_size`, where it is not given."""
    server: Annotated[Component, Named("server update")] | None = None
    """sgd, momentum, adam, yogi or adagrad: what the server makes of the direction that the optimizer gives; it is
    followed as it is, where this is not given."""
    update_clip: Positive | None = None
    """With privacy in training: the norm to which this optimizer's updates are clipped, instead of `privacy.clip`."""

    unwritten = frozenset({"update_clip", "local_step_size"})

    @property
    def options(self) -> dict[str, Any]:
        """The keys beside `kind` and `name`."""
        return super().options if self.server is None else {**super().options, "server": self.server.model_dump()}

    @property
    def label(self) -> str:
        """The name in tables and metrics."""
        return self.name or self.kind.rpartition(":")[2]

    @property
    def in_words(self) -> str:
        """The kind and what is written of it: ``fedavg with server = adam``."""
        given = {**self.options, **({} if self.server is None else {"server": self.server.kind})}
        return f"{self.kind}{' with ' * bool(given)}{', '.join(f'{key} = {value}' for key, value in given.items())}"


class Start(Model):
    """A model in a file, as a run directory keeps them in models.npz."""

    path: NameOfFile
    """An .npz file, relative to the scenario's folder."""
    model: Annotated[str, Field(min_length=1)] = "model"
    """Which of its arrays, such as fedavg.last."""


class Learning(SparseModel):
    """What is trained over the log, and how."""

    problem: Annotated[Component, Named("problem")]
    """The clients' objectives."""
    optimizers: Annotated[
        list[Annotated[OptimizerChoice, Named("optimizer")]], Field(min_length=1, max_length=MAX_OPTIMIZERS)
    ]
    """Each is trained on the same log."""
    local_steps: StepsSource = 5
    """K: local steps of a participation, a whole number of at least 1 for all clients, or K_i from a source: a law, a
    list or a column for all clients in the order of groups, epochs over the samples of each, or a deadline."""
    step_size: StepSize
    """Local step size: a number, or a schedule over rounds."""
    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Samples of each local step, drawn with replacement; full local gradients, where it is not given."""
    evaluate_every: Annotated[int, Field(ge=1)] = 10
    """Rounds from one evaluation of the global loss to the next; the last round is always evaluated."""
    reference: Literal["uniform", "none"] = "none"
    """uniform: also train the first optimizer on the run's own rounds with other clients, drawn uniformly from all
    whatever their availability, weights and cool-downs (or one group, for selection by groups): what unbiased
    participation would have given. With a buffered server each session gets a client without one."""
    target_loss: float | None = None
    """A loss: metrics say when each optimizer was first seen to reach it, and at what expense of device time."""
    target_above_optimum: Positive | None = None
    """The same, for a loss that is so much above the optimum, where that is known; instead of `target_loss`."""
    stop_at_target: bool = False
    """Train no further once all optimizers have reached the target; the simulation goes on to its end."""
    start: Start | None = None
    """The model at which all optimizers start; the problem's own, where this is not given."""
    held_out: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] | None = None
    """Further clients of the problem, whose data are as those of the devices, and who never train: metrics say how well
    the mean model serves them, and by how much worse than the devices. The optimum and the global loss are of all
    clients. None, where it is not given."""
    loss_parts: bool = False
    """Train each optimizer twice more over the same log, without the noise of privacy and then with what clients send
    on average too: metrics say how much of its loss above the optimum is bias, participation noise and privacy noise.
    For problems whose optimum is known."""

    unwritten = frozenset({"held_out", "loss_parts", "target_above_optimum", "start", "stop_at_target"})

    @property
    def most_steps(self) -> int:
        """The most local steps of a participation, as far as the scenario says it; 1 where that is drawn or read."""
        steps = self.local_steps
        if isinstance(steps, int):
            return steps
        return int(steps.options.get("most", steps.options.get("value", 1)))

    @property
    def twin(self) -> str | None:
        """What results call the first optimizer trained under uniform participation; None without that `reference`."""
        return f"{self.optimizers[0].label}_uniform" if self.reference == "uniform" else None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.target_loss is not None and self.target_above_optimum is not None:
            raise ValueError("has target_loss and target_above_optimum; give one of them")
        if self.stop_at_target and self.target_loss is None and self.target_above_optimum is None:
            raise ValueError("has stop_at_target and no target; give target_loss, or target_above_optimum")
        return self

    @field_validator("optimizers")
    @classmethod
    def _distinct(cls, optimizers: list[OptimizerChoice]) -> list[OptimizerChoice]:
        labels = [optimizer.label for optimizer in optimizers]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                raise ValueError(f"two optimizers are called {label!r}: give one a name of its own")
        return optimizers
