"""Does a larger separation R mean a smaller mixing time? The paper conjectures so. Its own definitions, in numpy.

N = 6 clients of weights 6, 5, 4, 3, 2, 1, one a round (B = 1). The state is the last R clients. tau_mix is the first t
at which the law of the state is within TV distance 1/4 of the stationary law, whatever state it began in.

Beside it, how far counted shares lambda are from their limits pi: in L1 over the first 60 rounds, and t E max (lambda -
pi)^2 over t = 400 rounds, next to what the central limit theorem says: E max of squares of a normal vector whose
covariance comes from Poisson's equation on the same chain. Takes half a minute.
"""

from itertools import permutations

import numpy as np

WEIGHTS = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
LONGEST = 2_000
MANY = 400
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
            matrix[k, row[(i, *window)[:separation]]] += WEIGHTS[i] / WEIGHTS[free].sum()
    return matrix


def stationary(matrix: np.ndarray) -> np.ndarray:
    """Return a stationary law."""
    count = len(matrix)
    equations = np.vstack([matrix.T - np.eye(count), np.ones(count)])
    return np.linalg.lstsq(equations, np.append(np.zeros(count), 1.0), rcond=None)[0]


def covariance(separation: int) -> np.ndarray:
    """Return the limit of t Cov(lambda_i, lambda_j): h is who comes next, and (I - P) g = h - pi."""
    clients = len(WEIGHTS)
    windows = list(permutations(range(clients), separation))
    matrix = transition_matrix(separation)
    limit = stationary(matrix)
    free = np.array([[0.0 if i in window else WEIGHTS[i] for i in range(clients)] for window in windows])
    h = free / free.sum(axis=1, keepdims=True)
    pi = limit @ h
    g = np.linalg.pinv(np.eye(len(matrix)) - matrix + limit) @ (h - pi)
    row = {window: k for k, window in enumerate(windows)}
    follow = np.zeros((clients, clients))
    for window, k in row.items():
        for i in range(clients):
            if h[k, i]:
                follow[i] += limit[k] * h[k, i] * g[row[(i, *window)[:separation]]]
    return np.diag(pi) - np.outer(pi, pi) + follow + follow.T


def largest_square(separation: int) -> float:
    """Return E max_i Z_i^2, Z normal with that covariance."""
    values, vectors = np.linalg.eigh(covariance(separation))
    draws = np.random.default_rng(2).normal(size=(200_000, len(WEIGHTS)))
    return float(np.square(draws * np.sqrt(np.maximum(values, 0.0)) @ vectors.T).max(axis=1).mean())


def mixing_time(matrix: np.ndarray) -> int | None:
    """Return the first t with max over starts of TV(P^t(start, .), stationary) <= 1/4; None if there is none."""
    limit = stationary(matrix)

    def near(power: np.ndarray) -> bool:
        return bool(np.abs(power - limit).sum(axis=1).max() / 2.0 <= 0.25)

    if not near(np.linalg.matrix_power(matrix, 200)):  # the distance never grows
        return None
    power = matrix
    for t in range(1, 201):
        if near(power):
            return t
        power = power @ matrix
    return None


def counted(separation: int) -> tuple[float, float]:
    """Return both distances of counted shares from those of 2,000 rounds of all runs, everyone ready at first."""
    rng = np.random.default_rng(1)
    ready = np.zeros((RUNS, len(WEIGHTS)), dtype=int)
    counts = np.zeros((RUNS, len(WEIGHTS)))
    early = later = counts
    for t in range(LONGEST):
        mass = np.where(ready <= t, WEIGHTS, 0.0).cumsum(axis=1)
        chosen = (mass > rng.random((RUNS, 1)) * mass[:, -1:]).argmax(axis=1)
        counts[np.arange(RUNS), chosen] += 1
        ready[np.arange(RUNS), chosen] = t + 1 + separation
        if t + 1 == ROUNDS:
            early = counts.copy()
        if t + 1 == MANY:
            later = counts.copy()
    shares = counts.sum(axis=0) / counts.sum()
    squares = np.square(later / MANY - shares).max(axis=1)
    return float(np.abs(early / ROUNDS - shares).sum(axis=1).mean()), MANY * float(squares.mean())


def main() -> None:
    """Print them for R = 0 to 5."""
    print(f"R  mixing time  L1 of {ROUNDS} rounds  t E max (lambda - pi)^2  of a normal vector")
    for separation in range(len(WEIGHTS)):
        time = mixing_time(transition_matrix(separation))
        l1, square = counted(separation)
        print(f"{separation}  {time or 'never':>11}  {l1:>15.3f}  {square:>23.4f}  {largest_square(separation):>18.4f}")
    print("The mixing time grows with R, and is infinite where the next client is forced;")
    print("what settles sooner with a larger R are the shares counted over a run.")


if __name__ == "__main__":
    main()
