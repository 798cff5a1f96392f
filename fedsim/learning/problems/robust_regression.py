"""The synthetic problem of the paper: regression with a loss that forgives outliers, unlike at every client.

For client i = 1..N (index i - 1) with n samples in d dimensions::

    f_i(x)  = (1/n) sum_j log(1 + (<A_ij, x> + b_ij)^2 / 2)
    A_i     each entry Normal(0, variance (0.5 i)^-2)
    b_i     = A_i theta_i + e_i,   e_ij ~ Normal(0, variance 0.25)
    theta_i ~ Normal(mu_i, I),   mu_i each element Normal(alpha, 1)
    alpha   ~ Normal(0, variance 100), one number for the whole federation

The paper does not say whether alpha is one number or one for each client, nor which clients form a group. Here it is
one, and a group is of consecutive clients, whose features are on a like scale; `alpha` and `order` choose otherwise.

Clients with a small index have features on a large scale, so that it matters who takes part. The optimum lies
near -alpha in every coordinate. The loss is not convex and its gradient is bounded: when abs(alpha) is large,
the start x = 0 lies on the flat flank of the loss, and a run may spend thousands of rounds on its way.

References
----------
Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*,
ICLR 2025, arXiv:2410.01209, numerical experiments. The data follow Sun and Wei, *A Communication-efficient
Algorithm with Linear Convergence for Federated Minimax Learning*, NeurIPS 2022, arXiv:2206.01132, robust
linear regression.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Gradients
from fedsim.learning.problems.repeated import once

_LIMIT = 4 * 2**30
_BLOCK = 256
_TWO = np.array(2.0)  # beside a short array numpy takes an array without axes faster than a number

# Where each family of draws begins among a client's indices: a longer one never moves the others.
_MU, _THETA, _FEATURES, _NOISE, _ALPHA = (family << 40 for family in range(5))
# One alpha for everyone, and the order, belong to no client; they are kept under an index that no client has.
_FEDERATION = 2**63 - 1


@dataclass(eq=False)
class RobustRegression:
    """The paper's synthetic robust regression.

    Parameters
    ----------
    clients
        N.
    seed
        The scenario's seed.
    dimension
        d, the number of features.
    samples
        n, the samples of each client.
    data_seed
        Draws the data; the scenario's seed where it is None. Set it to keep the data while the seed of the
        scenario, and with it the participation, varies.
    alpha
        ``shared``: one number for everyone; ``per_client``: one for each. With the latter the optima of the clients lie
        far apart, by 10 in every coordinate, and in some draws the loss hardly descends.
    order
        ``index``: client i has features of scale 2/i, so that consecutive clients are alike; ``shuffled``: the same
        objectives, dealt to the clients at random.

    Raises
    ------
    LearningError
        When the features (8 N n d bytes) would take more than 4 GiB.
    """

    clients: int
    seed: int = field(repr=False)
    dimension: Annotated[int, Field(ge=1)] = 20
    samples: Annotated[int, Field(ge=1)] = 100
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    alpha: Literal["shared", "per_client"] = "shared"
    order: Literal["index", "shuffled"] = "index"
    features: Floats = field(init=False, repr=False)
    targets: Floats = field(init=False, repr=False)

    @staticmethod
    def size(clients: int, options: Mapping[str, Any]) -> tuple[int, int]:
        """Return the bytes of features and targets, and d."""
        dimension, samples = options.get("dimension", 20), options.get("samples", 100)
        return 8 * clients * samples * (dimension + 1), dimension

    def __post_init__(self) -> None:
        shape = (self.clients, self.samples, self.dimension)
        if 8 * np.prod(shape, dtype=float) > _LIMIT:
            raise LearningError(
                f"{self.clients} clients with {self.samples} samples in {self.dimension} dimensions take "
                f"{8 * np.prod(shape, dtype=float) / 2**30:.1f} GiB, more than {_LIMIT // 2**30}; "
                f"take fewer clients, `samples` or `dimension`"
            )
        self.features, self.targets = np.empty(shape), np.empty(shape[:2])
        draws = stream(self.seed if self.data_seed is None else self.data_seed, 0, Purpose.PROBLEM)
        owned = np.arange(self.clients)
        if self.order == "shuffled":
            owned = np.argsort(draws.bits(_FEDERATION, 1 + owned))
        for start in range(0, self.clients, _BLOCK):
            block = slice(start, min(start + _BLOCK, self.clients))
            self.features[block], self.targets[block] = self._draw(draws, owned[block])

    def _draw(self, draws: Stream, clients: Ints) -> tuple[Floats, Floats]:
        """Return features and targets of these clients, counted from 0 before the order deals them out."""
        normals = draws.normals
        samples, coordinates, client = np.arange(self.samples), np.arange(self.dimension), clients[:, None]
        alpha = 10.0 * (normals(_FEDERATION, 0) if self.alpha == "shared" else normals(client, _ALPHA))
        mu = alpha + normals(client, _MU + coordinates)
        theta = mu + normals(client, _THETA + coordinates)
        # The index is (sample << 20) + coordinate, so that one more dimension leaves the others alone.
        features = normals(clients[:, None, None], _FEATURES + (samples[:, None] << 20) + coordinates)
        features *= (2.0 / (clients + 1.0))[:, None, None]
        noise = 0.5 * normals(client, _NOISE + samples)
        return features, (features @ theta[..., None])[..., 0] + noise

    def initial(self) -> Floats:
        """Return the origin."""
        return np.zeros(self.dimension)

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        """Return the gradients of `clients`, shape (M,), at `models`, shape (M, d); leading axes broadcast."""
        return self.select(clients)(models)

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        """Return the gradients of these clients, over these samples, as a function of their models.

        grad f_i(x) = (1/n) sum_j r_ij / (1 + r_ij^2 / 2) A_ij with the residual r_ij = <A_ij, x> + b_ij.
        """
        clients, samples, cohorts = once(clients, samples)
        features, targets = self._data(clients, samples)

        def gradients(models: Floats) -> Floats:
            each = models.reshape(cohorts, -1, models.shape[-1]) if cohorts > 1 else models
            residuals = np.matvec(features, each)
            return _means(features, targets, residuals).reshape(models.shape)

        return gradients

    def descend(
        self, clients: Ints, models: Floats, step_sizes: Floats, steps: int, minibatches: Ints | None = None
    ) -> Floats:
        """Return what local steps add to the models, shape (M, d); see `Descending`."""
        clients, minibatches, cohorts = once(clients, minibatches)
        local = models.copy()
        each = local.reshape(cohorts, len(clients), self.dimension)
        lengths, slopes = step_sizes.repeat(self.dimension).reshape(each.shape), np.empty(each.shape)
        for step in range(steps):
            if step == 0 or minibatches is not None:
                features, targets = self._data(clients, None if minibatches is None else minibatches[step])
                targets = np.concatenate([targets] * cohorts).reshape(cohorts, *targets.shape)
                residuals, spare = np.empty(targets.shape), np.empty(targets.shape)
            np.matvec(features, each, residuals)
            _means(features, targets, residuals, spare, slopes)
            np.multiply(slopes, lengths, slopes)
            np.subtract(each, slopes, each)
        local -= models
        return local

    def _data(self, clients: Ints, samples: Ints | None) -> tuple[Floats, Floats]:
        """Return features and targets of these clients, or of some of their samples."""
        if samples is None:
            return self.features.take(clients, axis=0), self.targets.take(clients, axis=0)
        chosen = (clients[:, None], samples)
        return self.features[chosen], self.targets[chosen]

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        """Return ``loss``, F(model), and ``grad_norm``, the norm of its gradient."""
        residuals = self.features @ model + self.targets
        halves = 0.5 * residuals * residuals
        pull = residuals / (1.0 + halves)
        gradient = (pull[:, None, :] @ self.features)[:, 0, :].mean(axis=0) / self.samples
        return {"loss": float(np.log1p(halves).mean()), "grad_norm": float(np.linalg.norm(gradient))}


def _means(
    features: Floats, targets: Floats, residuals: Floats, spare: Floats | None = None, out: Floats | None = None
) -> Floats:
    """Return the means over j of r_ij / (1 + r_ij^2 / 2) A_ij. The residuals, still without b_ij, are overwritten.

    Summed is half of that, r / (2 + r^2), and divided by half their number: one pass less, and the same bits, since
    twice and half of a number are exact as long as nothing over- or underflows.
    """
    np.add(residuals, targets, residuals)
    weights: Floats = np.square(residuals, out=spare)
    np.add(weights, _TWO, weights)
    np.divide(residuals, weights, residuals)
    means: Floats = np.vecmat(residuals, features, out=out)
    means /= 0.5 * targets.shape[-1]
    return means
