"""jax-privacy's selection with a minimum separation: Poisson samples without those of the last rounds; numpy alone."""

import argparse
from collections.abc import Iterator

from common import measure
from jax_privacy.batch_selection import BMinSepSampling


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    apart = wanted.separation + 1
    # The expected batch is clients / (apart - 1 + 1 / chance).
    chance = 1.0 / (wanted.clients / wanted.cohort - (apart - 1))
    selection = BMinSepSampling(sampling_prob=chance, iterations=wanted.rounds, min_sep=apart)
    return (len(batch) for batch in selection.batch_iterator(wanted.clients, rng=0))


if __name__ == "__main__":
    measure("jax-privacy", rounds)
