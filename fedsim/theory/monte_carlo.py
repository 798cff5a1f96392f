"""Monte Carlo: participation counted over many independent replicas, with standard errors."""

import numpy as np
from numpy.typing import ArrayLike

from fedsim.theory.question import ask, per_client, reduced, whole_number
from fedsim.theory.replicas import participations
from fedsim.theory.result import Stationary

REPLICAS = 64

_STEPS = 50_000_000  # replicas x rounds x clients, by default
_CELLS = 1 << 21  # replicas x clients advanced at once


def monte_carlo(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: str = "midzuno",
    *,
    seed: int = 0,
    replicas: int = REPLICAS,
    rounds: int | None = None,
    burn_in: int | None = None,
) -> Stationary:
    """Estimate stationary participation by simulation, for any question.

    Parameters
    ----------
    weights, separation, cohort, law
        As in `fedsim.theory.stationary`.
    seed
        Seed of all draws: the same seed gives the same answer.
    replicas
        Independent chains, at least 2.
    rounds
        Rounds counted in each, at least 1; by default what makes 5e7 steps of one client, within 500 and 20,000.
    burn_in
        Rounds played before counting, from "all ready"; by default a quarter of `rounds`, and at least four
        times the longest separation. What it leaves of the start is not part of the standard error.

    Returns
    -------
    Stationary
        Method ``monte-carlo``. `standard_error` is the spread of the replicas' shares over the square root of
        their number: replicas are independent, so it holds whatever the correlation between rounds. It is
        never below the share of one single participation, which is all that is known of a client that was
        never seen.

    Raises
    ------
    ChainError
        If the question makes no sense, or a replica stalls.

    Notes
    -----
    Cost O(replicas x rounds x N), memory O(N): replicas are advanced in batches.
    """
    question = ask(weights, separation, cohort, law)
    units = reduced(question)
    replicas = whole_number(replicas, "the number of replicas", least=2)
    if rounds is None:
        rounds = int(np.clip(_STEPS // (replicas * units.clients), 500, 20_000))
    rounds = whole_number(rounds, "the number of rounds", least=1)
    longest = int(question.separations.max())
    skip = max(rounds // 4, 4 * (longest + 1)) if burn_in is None else whole_number(burn_in, "the burn-in")

    # Sums over replicas of each client's count, its square and its product with the total; exact, being integers.
    sums, total, total_square = np.zeros((3, units.clients)), 0.0, 0.0
    batch = max(1, _CELLS // units.clients)
    for first in range(0, replicas, batch):
        counts = participations(units, range(first, min(first + batch, replicas)), seed, skip, rounds)
        totals = counts.sum(axis=1)
        sums += [counts.sum(axis=0), (counts**2).sum(axis=0), totals @ counts]
        total, total_square = total + float(totals.sum()), total_square + float(totals @ totals)
    # The ratio of sums, and its standard error by the delta method (the total varies with bernoulli).
    shares = sums[0] / total
    residual = sums[1] - 2.0 * shares * sums[2] + shares**2 * total_square
    spread = np.sqrt(np.maximum(residual, 0.0) / (replicas - 1.0) * replicas)
    error = per_client(question, np.maximum(spread, 1.0) / total)
    return Stationary(per_client(question, shares), *question.asked, method="monte-carlo", standard_error=error)
