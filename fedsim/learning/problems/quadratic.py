"""Quadratic objectives, whose optimum is known, and so is the point to which participation leads an optimizer.

::

    f_i(x) = 1/2 sum_j h_ij (x_j - c_ij)^2
    c_i    = offset + spread Normal(0, I) + cluster_spread Normal(0, I) of the cluster of client i
    h_ij   = exp(curvature_spread Normal(0, 1))
    x*     = sum_i h_i c_i / sum_i h_i,  coordinate by coordinate

Clusters are blocks of consecutive clients of one size (up to one); they stand for groups whose data differ.

*Predicted bias.* K local steps of length alpha s_i bring client i from x to c_i + (1 - alpha s_i h_i)^K (x - c_i), so

    Delta_i(x) = -m_i (x - c_i),    m_i = 1 - (1 - alpha s_i h_i)^K

is linear in x, and an optimizer that in the long run moves by sum_i w_i Delta_i(x; s_i) rests where that is zero:

    x_rest = sum_i w_i m_i c_i / sum_i w_i m_i.

FedAvg has w = pi, s = 1. That is the mean of its models in the long run, exactly if all h_ij are equal, and up to terms
of the order of alpha otherwise, since the model depends on who took part before.

*With samples.* Client i has n samples e_ik = noise Normal(0, I), less their mean, and f_i is the mean over k of
1/2 sum_j h_ij (x_j - c_ij - e_ikj)^2, less what does not depend on x: the same objectives. The gradient over a
minibatch of b, drawn with replacement, has the standard deviation h_ij noise / sqrt(b) in coordinate j.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.learning.problems.problem import Gradients, repeated_cohort

# Where each family of draws begins among a client's indices, and where those of clusters begin among clients.
_CENTRE, _CURVATURE, _SAMPLE = (family << 40 for family in range(3))
_CLUSTER = 2**62
_NUMBERS = 2**14  # of models that take their steps together, and of clients that are drawn together
_kept = dict[tuple[Any, ...], tuple[Any, ...]]()
"""The data that were drawn last: a sweep takes them at every setting. They are never written to."""


@dataclass(eq=False)
class Quadratic:
    """Quadratic objectives with diagonal curvature."""

    clients: int
    seed: int = field(repr=False)
    dimension: Annotated[int, Field(ge=1)] = 10
    """d: coordinates of the model."""
    spread: Annotated[float, Field(ge=0)] = 1.0
    """Standard deviation of a client's centre around that of its cluster, in each coordinate."""
    clusters: Annotated[int, Field(ge=1)] = 1
    """Number of clusters: blocks of consecutive clients whose data are alike."""
    cluster_spread: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the centres of clusters, in each coordinate."""
    offset: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Added to every coordinate of all centres."""
    curvature_spread: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the logarithm of curvatures; 0 gives all clients curvature 1."""
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    """Seed of centres and curvatures; by default the scenario's."""
    centres: Floats = field(init=False, repr=False)
    curvatures: Floats = field(init=False, repr=False)
    optimum: Floats = field(init=False, repr=False)
    _curvature: Floats = field(init=False, repr=False)
    _least: float = field(init=False, repr=False)

    @staticmethod
    def size(clients: int, options: Mapping[str, Any]) -> tuple[int, int]:
        dimension = options.get("dimension", 10)
        return (4 if options.get("curvature_spread") else 2) * 8 * clients * dimension, dimension

    def __post_init__(self) -> None:
        seed, spreads = self.seed if self.data_seed is None else self.data_seed, (self.spread, self.cluster_spread)
        key = (seed, self.clients, self.dimension, self.clusters, self.offset, *spreads, self.curvature_spread)
        if (data := _kept.get(key)) is None:
            _kept.clear()  # before others are drawn, which may need the memory
            self._draw(seed)
            data = self.centres, self.curvatures, self.optimum, self._curvature, self._least
            _kept[key] = data
        self.centres, self.curvatures, self.optimum, self._curvature, self._least = data

    def _draw(self, seed: int) -> None:
        normals, coordinates = stream(seed, 0, Purpose.PROBLEM).normals, np.arange(self.dimension)
        clients = np.arange(self.clients)[:, None]
        cluster, place = np.unique(clients * self.clusters // self.clients, return_inverse=True)
        of_clusters = self.cluster_spread * normals(_CLUSTER + cluster[:, None], coordinates)
        self.centres = np.empty((self.clients, self.dimension))
        self.curvatures = np.empty_like(self.centres) if self.curvature_spread else np.ones((1, self.dimension))
        for part in self._parts():
            self.centres[part] = self.offset + self.spread * normals(clients[part], _CENTRE + coordinates)
            self.centres[part] += of_clusters[place.ravel()[part]]
            if self.curvature_spread:
                drawn = normals(clients[part], _CURVATURE + coordinates)
                self.curvatures[part] = np.exp(self.curvature_spread * drawn)
        self.curvatures = np.broadcast_to(self.curvatures, self.centres.shape)
        self.optimum = np.average(self.centres, axis=0, weights=self.curvatures if self.curvature_spread else None)
        self._curvature = self.curvatures.mean(axis=0)
        self._least = float(self.by_client(self.optimum)["loss"].mean())
        for each in (self.centres, self.optimum):
            each.flags.writeable = False

    def _parts(self) -> Iterator[slice]:
        """Yield slices of clients, whose numbers stay in a processor's cache."""
        size = max(1, _NUMBERS // self.dimension)
        return (slice(first, first + size) for first in range(0, self.clients, size))

    def initial(self) -> Floats:
        return np.zeros(self.dimension)

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        slopes: Floats = self.curvatures[clients] * (models - self.centres[clients])
        return slopes

    def descend(
        self, clients: Ints, models: Floats, step_sizes: Floats, steps: int, _minibatches: Ints | None = None
    ) -> Floats:
        """Take K steps along `gradients`, a few models at a time, which stay in a processor's cache."""
        changes, size = np.empty_like(models), max(1, _NUMBERS // self.dimension)
        for part in (slice(first, first + size) for first in range(0, len(clients), size)):
            members, local, lengths = clients[part], models[part].copy(), step_sizes[part, None]
            centres, curvatures = self.centres[members], self.curvatures[members] if self.curvature_spread else None
            for _ in range(steps):
                slopes = local - centres
                slopes = slopes if curvatures is None else np.multiply(slopes, curvatures, slopes)
                local -= np.multiply(slopes, lengths, slopes)
            np.subtract(local, models[part], changes[part])
        return changes

    def losses(self, clients: Ints, models: Floats) -> Floats:
        away = models - self.centres[clients]
        return np.asarray((self.curvatures[clients] * away**2).sum(axis=1, keepdims=True) / 2)

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        away = model - self.optimum
        return {
            "loss": self._least + float(self._curvature @ away**2) / 2,
            "grad_norm": float(np.linalg.norm(self._curvature * away)),
            "distance": float(np.linalg.norm(away)),
        }

    def by_client(self, model: Floats) -> Mapping[str, Floats]:
        losses = np.empty(self.clients)
        for part in self._parts():
            losses[part] = (self.curvatures[part] * (model - self.centres[part]) ** 2).sum(axis=1)
        return {"loss": losses / 2}

    def affine(self, clients: Ints, step_sizes: Floats, steps: int | Ints) -> tuple[Floats, Floats]:
        pull: Floats = 1.0 - (1.0 - step_sizes[:, None] * self.curvatures[clients]) ** _of_rows(steps)
        return pull, self.centres[clients]

    def rest(self, weights: Floats, scales: Floats, *, local_steps: int | Ints, step_size: float) -> Floats:
        kept = (1.0 - step_size * scales[:, None] * self.curvatures) ** _of_rows(local_steps)
        pull = weights[:, None] * (1.0 - kept)
        total, rest = pull.sum(axis=0), self.initial()
        np.divide((self.centres * pull).sum(axis=0), total, out=rest, where=total != 0.0)
        return rest


def _of_rows(steps: int | Ints) -> int | Ints:
    """Return numbers of steps as powers of the rows of an array."""
    return steps[:, None] if isinstance(steps, np.ndarray) else steps


@dataclass(eq=False)
class SampledQuadratic(Quadratic):
    """The same objectives as means over samples, so that clients can train on minibatches."""

    samples: Annotated[int, Field(ge=1)] = 100
    """Samples of each client."""
    noise: Annotated[float, Field(ge=0)] = 1.0
    """Standard deviation of a sample in each coordinate."""

    @staticmethod
    def size(clients: int, options: Mapping[str, Any]) -> tuple[int, int]:
        base, dimension = Quadratic.size(clients, options)
        return base + 8 * clients * dimension * options.get("samples", 100), dimension

    def __post_init__(self) -> None:
        super().__post_init__()
        normals = stream(self.seed if self.data_seed is None else self.data_seed, 0, Purpose.PROBLEM).normals
        indices = np.arange(self.samples * self.dimension).reshape(self.samples, -1)
        drawn = normals(np.arange(self.clients)[:, None, None], _SAMPLE + indices)
        self._deviations = self.noise * (drawn - drawn.mean(axis=1, keepdims=True))

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        if samples is None:
            return partial(self.gradients, clients)
        members, drawn, cohorts = repeated_cohort(clients, samples)
        aims = self.centres[members] + self._deviations[members[:, None], drawn].mean(axis=1)
        aims, curvatures = np.tile(aims, (cohorts, 1)), self.curvatures[clients]
        return lambda models: curvatures * (models - aims)
