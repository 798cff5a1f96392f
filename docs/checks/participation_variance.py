"""Is the variance of participation a lower bound for methods that keep O(1) numbers of each client? No.

N = 6 clients of weights 6, 5, 4, 3, 2, 1, one a round; a report of client i is c_i plus noise of variance 1, and the
mean of the c_i is estimated by a sum of weighted reports, unbiased for any c:

1. fixed: each counts 1 / (N pi_i T).
2. counted: t / (N n_i T), with n_i the reports of client i until then, as Debiased FedAvg has it.
3. intervals: each counts the rounds since the client's last report, over N T.
4. capped: each of the first m_i = 0.9 pi_i T reports counts 1 / (N m_i), and no other.

It prints T times the variance by participation, and T times the sum of squared weights, by which noise counts. The
least sum that is unbiased given who took part has weights 1 / (N n_i(T)): sum 1 / (N^2 pi_i) in the limit. Takes
seconds; needs numpy.
"""

import numpy as np

WEIGHTS = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
OPTIMA = np.arange(6.0)
ROUNDS, RUNS, CAP = 4_000, 1_000, 0.9


def participants(weights: np.ndarray, separation: int, rounds: int, runs: int, seed: int) -> np.ndarray:
    """Return who takes part, shape (rounds, runs), after as many rounds again as the longest client may wait."""
    rng, since, who = np.random.default_rng(seed), np.full((runs, len(weights)), separation), []
    for _ in range(rounds + 200):
        clocks = np.where(since >= separation, rng.exponential(size=since.shape) / weights, np.inf)
        who.append(clocks.argmin(axis=1))
        since += 1
        since[np.arange(runs), who[-1]] = 0
    return np.array(who[200:])


def variances(drawn: np.ndarray, pi: np.ndarray, optima: np.ndarray, cap: float = CAP) -> np.ndarray:
    """Return T times the variance by participation, and T times the mean sum of squares, of the four; shape (4, 2)."""
    rounds, runs = drawn.shape
    row, clients = np.arange(runs), len(pi)
    counts, last = np.zeros((runs, clients)), np.zeros((runs, clients))
    total, squares = np.zeros((4, runs)), np.zeros((4, runs))
    for t, who in enumerate(drawn, 1):
        counts[row, who] += 1.0
        least = np.floor(cap * pi[who] * rounds)
        each = (
            np.array(
                [
                    1.0 / (pi[who] * rounds),
                    t / (counts[row, who] * rounds),
                    (t - last[row, who]) / rounds,
                    (counts[row, who] <= least) / least,
                ]
            )
            / clients
        )
        last[row, who] = t
        total += each * optima[who]
        squares += each**2
    return rounds * np.stack([total.var(axis=1), squares.mean(axis=1)], axis=1)


def main() -> None:
    """Print a table."""
    print("R  least noise   fixed: participation, noise   counted   intervals   capped")
    for separation in (0, 1, 2, 3, 4):
        drawn = participants(WEIGHTS, separation, ROUNDS, RUNS, separation)
        pi = np.bincount(drawn.ravel(), minlength=6) / drawn.size
        figures = variances(drawn, pi, OPTIMA)
        print(f"{separation}  {(1 / pi).mean() / 6:.3f}  ", "   ".join(f"{a:.3f} {b:.3f}" for a, b in figures))


if __name__ == "__main__":
    main()
