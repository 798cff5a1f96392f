"""The synthetic problem of the paper: regression with a robust loss and data that differ between clients.

For client i = 1..N (index i - 1) with n samples in d dimensions::

    f_i(x)  = (1/n) sum_j log(1 + (<A_ij, x> + b_ij)^2 / 2)
    A_i     each entry Normal(0, variance (0.5 i)^-2)
    b_i     = A_i theta_i + e_i,   e_ij ~ Normal(0, variance 0.25)
    theta_i ~ Normal(mu_i, I),   mu_i each element Normal(alpha, 1)
    alpha   ~ Normal(0, variance 100), one number for the whole federation

The paper does not say whether alpha is one number or one for each client, nor which clients form a group. Here it is
one, and groups are of consecutive clients, whose features have similar scales; `alpha` and `order` choose otherwise.

Clients with a small index have features on a large scale, so it matters who takes part. The optimum lies near -alpha in
every coordinate. The loss is not convex and its gradient is bounded: if abs(alpha) is large, the start x = 0 lies on
the flat flank of the loss, and a run may need thousands of rounds.

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209, numerical experiments. The data follow Sun and Wei, *A Communication-efficient Algorithm with
Linear Convergence for Federated Minimax Learning*, NeurIPS 2022, arXiv:2206.01132, robust linear regression.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Gradients, repeated_cohort

_LIMIT = 4 * 2**30
_BLOCK = 256

# Where each family of draws begins among a client's indices.
_MU, _THETA, _FEATURES, _NOISE, _ALPHA = (family << 40 for family in range(5))
# The index, of no client, for draws of the whole federation: the shared alpha, and the order.
_FEDERATION = 2**63 - 1


@dataclass(eq=False)
class RobustRegression:
    """The paper's synthetic robust regression.

    Raises a `LearningError` if the features (8 N n d bytes) would take more than 4 GiB.
    """

    clients: int
    seed: int = field(repr=False)
    dimension: Annotated[int, Field(ge=1)] = 20
    """d: number of features."""
    samples: Annotated[int, Field(ge=1)] = 100
    """Samples of each client."""
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    """Seed of the data, to keep them while participation varies; by default the scenario's."""
    alpha: Literal["shared", "per_client"] = "shared"
    """`shared`: one centre is drawn for all clients; `per_client`: one for each, so that their optima lie about 10
    apart in every coordinate, and in some draws the loss hardly falls.
    """
    order: Literal["index", "shuffled"] = "index"
    """`index`: features of client i have the scale 2/i, so that consecutive clients are alike; `shuffled`: the same
    objectives, assigned to clients at random.
    """
    features: Floats = field(init=False, repr=False)
    targets: Floats = field(init=False, repr=False)

    @staticmethod
    def size(clients: int, options: Mapping[str, Any]) -> tuple[int, int]:
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
        """Return features and targets of these clients, by their index before `order` shuffles them."""
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
        return np.zeros(self.dimension)

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        return self.select(clients)(models)

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        # grad f_i(x) = (1/n) sum_j r_ij / (1 + r_ij^2 / 2) A_ij with the residual r_ij = <A_ij, x> + b_ij.
        clients, samples, cohorts = repeated_cohort(clients, samples)
        if samples is None:
            features, targets = self.features.take(clients, axis=0), self.targets.take(clients, axis=0)
        else:
            chosen = (clients[:, None], samples)
            features, targets = self.features[chosen], self.targets[chosen]

        def gradients(models: Floats) -> Floats:
            each = models.reshape(cohorts, -1, models.shape[-1]) if cohorts > 1 else models
            residuals = (features @ each[..., None])[..., 0]  # np.matvec, which numpy has from 2.2 on
            residuals += targets
            # Sums of r / (2 + r^2), divided by half the number of samples: one pass less and the same bits.
            residuals /= np.square(residuals) + 2.0
            means: Floats = (residuals[..., None, :] @ features)[..., 0, :] / (0.5 * targets.shape[-1])
            return means.reshape(models.shape)

        return gradients

    def losses(self, clients: Ints, models: Floats) -> Floats:
        residuals = (self.features[clients] @ models[..., None])[..., 0] + self.targets[clients]
        return np.asarray(np.log1p(0.5 * residuals * residuals))

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        residuals = self.features @ model + self.targets
        halves = 0.5 * residuals * residuals
        pull = residuals / (1.0 + halves)
        gradient = (pull[:, None, :] @ self.features)[:, 0, :].mean(axis=0) / self.samples
        return {"loss": float(np.log1p(halves).mean()), "grad_norm": float(np.linalg.norm(gradient))}

    def by_client(self, model: Floats) -> Mapping[str, Floats]:
        return {"loss": np.log1p((self.features @ model + self.targets) ** 2 / 2).mean(axis=1)}
