"""What one would write in an afternoon: a dense mask in every round, with a cool-down and a day/night rule."""

import argparse
from collections.abc import Iterator

import numpy as np
from common import measure


def rounds(wanted: argparse.Namespace) -> Iterator[int]:
    rng = np.random.default_rng(0)
    plugs_in = (22.75 + rng.normal(0.0, 1.25, wanted.clients)) % 24.0
    hours = np.clip(7.75 + rng.normal(0.0, 1.0, wanted.clients), 0.0, 16.0)
    last = np.full(wanted.clients, -(10**9))

    def run() -> Iterator[int]:
        for number in range(wanted.rounds):
            hour = number * 24.0 / wanted.rounds
            charging = (hour - plugs_in) % 24.0 < hours
            topped_up = rng.random(wanted.clients) < 0.05
            rested = number - last > wanted.separation
            eligible = np.flatnonzero((charging | topped_up) & rested)
            chosen = rng.choice(eligible, min(wanted.cohort, len(eligible)), replace=False)
            last[chosen] = number
            yield len(chosen)

    return run()


if __name__ == "__main__":
    measure("numpy", rounds)
