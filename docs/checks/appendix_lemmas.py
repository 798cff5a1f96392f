"""Lemmas of the paper's appendices, computed: on total variation, on counting, on local steps, and on products.

1. *Total variation* (appendix on Markov chains), for N = 6 clients of weights 6 to 1, one a round: the distance d(t)
   from stationarity never grows, t_mix(2^-k) <= (k - 1) tau_mix, and the d(t) add up to at most (d(1) + 2) tau_mix.
2. *Counting*: how far the mean of lambda_i(t) is from pi_i, for the same clients, everyone ready at first.
3. *Local steps*: of random quadratics with |grad f_i - grad F| <= G, the largest ratio of |x_k - x|^2 to its bound.
4. *Products*: the lemma that takes E[U1^2 U2] <= (epsilon + delta^2) E[U2] from E[U1^2] <= u and U1 <= u_bar alone.
   A U2 that is large exactly where U1 is contradicts it; in the proof of Theorem 3 both depend on who took part.

Needs numpy; takes seconds.
"""

from fractions import Fraction
from itertools import permutations

import numpy as np

WEIGHTS = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
SEPARATIONS = (1, 2, 3, 4)


def distances(separation: int, rounds: int = 400) -> np.ndarray:
    """Return d(0), d(1), ..., the largest TV distance of the window's law from the stationary one, over all starts."""
    windows = list(permutations(range(len(WEIGHTS)), separation))
    row = {window: k for k, window in enumerate(windows)}
    matrix = np.zeros((len(windows), len(windows)))
    for window, k in row.items():
        free = [i for i in range(len(WEIGHTS)) if i not in window]
        for i in free:
            matrix[k, row[i, *window[:-1]]] = WEIGHTS[i] / WEIGHTS[free].sum()
    limit = np.ones(len(windows)) / len(windows)
    for _ in range(4000):
        limit = limit @ matrix
    power, far = np.eye(len(windows)), []
    for _ in range(rounds):
        far.append(np.abs(power - limit).sum(axis=1).max() / 2.0)
        power = power @ matrix
        if far[-1] < 1e-9:
            break
    return np.array(far)


def reached(far: np.ndarray, epsilon: float) -> int:
    """Return t_mix(epsilon), the first t >= 1 with d(t) <= epsilon."""
    return 1 + int((far[1:] <= epsilon).argmax())


def total_variation(separation: int) -> tuple[bool, bool, float]:
    """Return whether d never grows, whether t_mix(2^-k) <= (k - 1) tau_mix for k = 2 to 12, and sum d / tau_mix."""
    far = distances(separation)
    tau = reached(far, 0.25)
    falls = bool((np.diff(far) <= 1e-9).all())
    times = all(reached(far, 2.0**-k) <= (k - 1) * tau for k in range(2, 13))
    return falls, times, float(far.sum() / tau)


def mean_frequencies(separation: int, rounds: int) -> np.ndarray:
    """Return E lambda(t), t = 1 to `rounds`, everyone ready at first; exact, shape (rounds, N)."""
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    total, means = np.zeros(len(WEIGHTS)), []
    for t in range(1, rounds + 1):
        after: dict[tuple[int, ...], float] = {}
        for window, chance in chances.items():
            mass = WEIGHTS.copy()
            mass[list(window)] = 0.0
            for i in np.flatnonzero(mass):
                share = chance * mass[i] / mass.sum()
                total[i] += share
                following = (int(i), *window)[:separation]
                after[following] = after.get(following, 0.0) + share
        chances = after
        means.append(total / t)
    return np.array(means)


def drift_ratio(cases: int = 300) -> float:
    """Return the largest |x_k - x|^2 / (gamma^2 L^-2 (|grad F|^2 + 4 G^2)) over random federations and steps."""
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(cases):
        smoothness, steps, gamma = rng.uniform(0.5, 4.0), int(rng.integers(1, 9)), rng.uniform(0.01, 1.0 / 3.0)
        centres = rng.normal(size=(int(rng.integers(2, 7)), 3))
        scale, x = rng.uniform(0.2, 10.0), rng.normal(size=3)
        whole = smoothness * (x - centres.mean(axis=0))
        spread = smoothness * np.linalg.norm(centres - centres.mean(axis=0), axis=1).max()
        alpha = gamma / (8 * steps * smoothness * max(1.0, scale))
        local = np.tile(x, (len(centres), 1))
        for _ in range(steps):
            local -= alpha * scale * smoothness * (local - centres)
            moved = ((local - x) ** 2).sum(axis=1).max()
            largest = max(largest, float(moved * smoothness**2 / gamma**2 / (whole @ whole + 4 * spread**2)))
    return largest


def product() -> tuple[Fraction, Fraction]:
    """Return both sides of the lemma on products: U1 = 1 with chance 1/100 and else 0, and U2 = 100 U1."""
    chance, epsilon, delta_squared = Fraction(1, 100), Fraction(1, 10), Fraction(1, 10)
    second_moment, bound, mean = chance, 1, Fraction(1)
    assert second_moment / delta_squared <= epsilon / bound**2, "the condition of the lemma"
    return chance * 1 * 100, (epsilon + delta_squared) * mean


def main() -> None:
    """Print all four."""
    print("R  d never grows  t_mix(2^-k) <= (k - 1) tau_mix  sum of d / tau_mix (at most d(1) + 2 <= 3)")
    for r in SEPARATIONS:
        falls, times, ratio = total_variation(r)
        print(f"{r}  {falls!s:>13}  {times!s:>30}  {ratio:.2f}")
    print("R  max |E lambda_i(t) - pi_i| at t = 10, 100")
    for r in SEPARATIONS:
        mean = mean_frequencies(r, 400)
        limit = 2.0 * mean[399] - mean[199]  # what is left falls like 1/t
        print(f"{r}  " + ", ".join(f"{np.abs(mean[t - 1] - limit).max():.4f}" for t in (10, 100)))
    print(f"local steps: largest ratio of drift to its bound {drift_ratio():.3f}")
    left, right = product()
    print(f"products: E[U1^2 U2] = {left}, and the lemma says at most {right}")


if __name__ == "__main__":
    main()
