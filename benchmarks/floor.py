"""The floor of large runs: as many cohorts drawn at random, and a table of as many rows written.

Usage: ``python benchmarks/floor.py [ROUNDS] [COHORT] [DEVICES] [FILE]``. No availability, no separation, no metrics, no
page: what no simulator can do without. `combinations.py` times it as a whole process, in turns with large runs.
"""

import sys

import numpy as np
import polars as pl

NUMBERS = [10_000, 1_000, 1_000_000]
AT_ONCE = 500


def main() -> None:
    rounds, cohort, devices = [int(each) for each in sys.argv[1:4]] + NUMBERS[len(sys.argv[1:4]) :]
    rng, parts = np.random.default_rng(1), []
    for first in range(0, rounds, AT_ONCE):
        some = np.arange(first, min(first + AT_ONCE, rounds))
        selected = np.repeat(some * 160.0, cohort)
        columns = {
            "round": np.repeat(some.astype(np.int32), cohort),
            "position": np.tile(np.arange(cohort, dtype=np.int32), len(some)),
            "client": rng.integers(0, devices, len(selected)).astype(np.int32),
            "selected_s": selected,
            "ended_s": selected + rng.lognormal(4.0, 1.0, len(selected)),
            "outcome": np.zeros(len(selected), np.uint8),
            "gap": np.zeros(len(selected), np.int32),
        }
        parts.append(pl.DataFrame(columns))
    file = sys.argv[4] if len(sys.argv) > 4 else "floor.parquet"
    pl.concat(parts).write_parquet(file, compression="zstd")
    np.bincount(pl.read_parquet(file, columns=["client"])["client"].to_numpy(), minlength=devices)


if __name__ == "__main__":
    main()
