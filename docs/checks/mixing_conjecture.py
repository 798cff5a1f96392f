"""Does a larger separation R mean a smaller mixing time? The paper conjectures so. Its own definitions, in numpy.

N = 6 clients of weights 6, 5, 4, 3, 2, 1, one a round (B = 1). The state is the last R clients. tau_mix is the first t
at which the law of the state is within TV distance 1/4 of the stationary law, whatever state it began in. Beside it:
how far, in L1, the shares counted over the first 60 rounds are on average from those of 2,000. Takes a few seconds.
"""

from itertools import permutations

import numpy as np

WEIGHTS = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
LONGEST = 2_000
ROUNDS = 60
RUNS = 2_000


def transition_matrix(separation: int) -> np.ndarray:
    """Return P over the windows of the last R clients."""
    windows = list(permutations(range(len(WEIGHTS)), separation))
    row = {window: k for k, window in enumerate(windows)}
    matrix = np.zeros((len(windows), len(windows)))
    for window, k in row.items():
        free = [i for i in range(len(WEIGHTS)) if i not in window]
        for i in free:
            matrix[k, row[i, *window[:-1]]] = WEIGHTS[i] / WEIGHTS[free].sum()
    return matrix


def mixing_time(matrix: np.ndarray) -> int | None:
    """Return the first t with max over starts of TV(P^t(start, .), stationary) <= 1/4; None if there is none."""
    count = len(matrix)
    equations = np.vstack([matrix.T - np.eye(count), np.ones(count)])
    law = np.linalg.lstsq(equations, np.append(np.zeros(count), 1.0), rcond=None)[0]

    def near(power: np.ndarray) -> bool:
        return bool(np.abs(power - law).sum(axis=1).max() / 2.0 <= 0.25)

    if not near(np.linalg.matrix_power(matrix, 200)):  # the distance never grows
        return None
    power = matrix
    for t in range(1, 201):
        if near(power):
            return t
        power = power @ matrix
    return None


def counted(separation: int) -> float:
    """Return the mean L1 distance of the shares of 60 rounds from those of 2,000 rounds, everyone ready at first."""
    rng = np.random.default_rng(1)
    ready = np.zeros((RUNS, len(WEIGHTS)), dtype=int)
    counts = np.zeros((RUNS, len(WEIGHTS)))
    early = counts
    for t in range(LONGEST):
        mass = np.where(ready <= t, WEIGHTS, 0.0).cumsum(axis=1)
        chosen = (mass > rng.random((RUNS, 1)) * mass[:, -1:]).argmax(axis=1)
        counts[np.arange(RUNS), chosen] += 1
        ready[np.arange(RUNS), chosen] = t + 1 + separation
        if t + 1 == ROUNDS:
            early = counts.copy()
    shares = counts.sum(axis=0) / counts.sum()
    return float(np.abs(early / ROUNDS - shares).sum(axis=1).mean())


def main() -> None:
    """Print both for R = 1 to 5."""
    print(f"R  mixing time  L1 of the shares of {ROUNDS} rounds")
    for separation in range(1, len(WEIGHTS)):
        time = mixing_time(transition_matrix(separation))
        print(f"{separation}  {time or 'never':>11}  {counted(separation):.3f}")
    print("The mixing time grows with R, and is infinite where the next client is forced;")
    print("what settles sooner with a larger R are the shares counted over a run.")


if __name__ == "__main__":
    main()
