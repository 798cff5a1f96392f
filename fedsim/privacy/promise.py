"""Whether a log kept a promise: what its contributions are, beside n, b and k."""

from fedsim.analysis.contributions import Contributions
from fedsim.privacy.bounds import ParticipationBounds


def broken(promised: ParticipationBounds, seen: Contributions) -> list[str]:
    """Return a sentence for each part of a promise that a log broke."""
    found = []
    if seen.last_round >= promised.rounds:
        found.append(f"round {seen.last_round:,} took reports, and {promised.rounds:,} rounds were promised")
    apart = seen.least_separation
    if apart is not None and apart < promised.min_separation:
        found.append(
            f"client {seen.least_client} contributed in round {seen.least_round - apart:,} and again in round "
            f"{seen.least_round:,}: {apart:,} apart, and b = {promised.min_separation:,} was promised"
        )
    if seen.most > promised.participations:
        found.append(
            f"client {seen.most_client} contributed {seen.most:,} times, and k = {promised.participations:,} was "
            "promised"
        )
    return found
