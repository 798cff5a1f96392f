"""Small logs and a problem whose training can be followed by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream


def tables(cohorts: Sequence[Sequence[int]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the log's rounds and participations, everyone of each cohort having reported."""
    rounds = pl.DataFrame(
        {"round": range(len(cohorts)), "closed_s": [60.0 * (t + 1) for t in range(len(cohorts))]},
        schema={"round": pl.Int64, "closed_s": pl.Float64},
    )
    rows = [(t, client, k) for t, cohort in enumerate(cohorts) for k, client in enumerate(cohort)]
    participations = pl.DataFrame(
        rows, schema={"round": pl.Int64, "client": pl.Int64, "position": pl.Int64}, orient="row"
    ).with_columns(outcome=pl.lit("reported"))
    return rounds, participations


def drawn_cohorts(rounds: int, clients: int, size: int, seed: int = 0) -> list[list[int]]:
    """Return cohorts of distinct clients, the first ones far more often than the last."""
    draws = stream(seed, 0, Purpose.SELECTION)
    keys = [draws.exponentials(np.arange(clients), t) * (1.0 + np.arange(clients)) ** 2 for t in range(rounds)]
    return [np.argsort(key)[:size].tolist() for key in keys]


@dataclass
class Quadratic:
    """f_i(x) = |x - c_i|^2 / 2: client i wants the model to be its centre c_i."""

    centres: NDArray[np.float64]

    @property
    def clients(self) -> int:
        return len(self.centres)

    @property
    def dimension(self) -> int:
        return int(self.centres.shape[1])

    def initial(self) -> NDArray[np.float64]:
        return np.zeros(self.dimension)

    def gradients(self, clients: NDArray[np.int64], models: NDArray[np.float64]) -> NDArray[np.float64]:
        gradients: NDArray[np.float64] = models - self.centres[clients]
        return gradients

    def evaluate(self, model: NDArray[np.float64]) -> Mapping[str, float]:
        away = model - self.centres
        return {"loss": float((away**2).sum(axis=1).mean() / 2), "grad_norm": float(np.linalg.norm(away.mean(axis=0)))}


def quadratic(clients: int = 6, dimension: int = 3, seed: int = 0) -> Quadratic:
    """Return a quadratic problem with centres drawn at random."""
    draws = stream(seed, 0, Purpose.PROBLEM)
    return Quadratic(draws.normals(np.arange(clients)[:, None], np.arange(dimension)))
