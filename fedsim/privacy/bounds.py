"""(n, b, k)-participation: what matrix mechanisms assume about who takes part, and what a scenario enforces of it.

Only what is enforced counts: the most rounds there can be, the smallest separation, the largest cap. A log that happens
to show better bounds proves nothing; it can only confirm that a promise was kept.
"""

from dataclasses import dataclass

from fedsim.analysis.contributions import Contributions
from fedsim.common.errors import ScenarioError
from fedsim.population import Population
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class ParticipationBounds:
    """n rounds; two participations of a client are at least b rounds apart, and it has at most k.

    A `ValueError` is raised if one of them is less than 1.
    """

    rounds: int  # n
    min_separation: int = 1  # b: rounds t < t' have t' - t >= b; an enforced separation R gives b = R + 1
    most: int | None = None  # k; None for no cap

    def __post_init__(self) -> None:
        for name in ("rounds", "min_separation", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def participations(self) -> int:
        """Most participations that are possible: min(k, ceil(n / b))."""
        return self._fitting if self.most is None else min(self.most, self._fitting)

    @property
    def capped(self) -> bool:
        """Whether k allows fewer participations than n and b alone would."""
        return self.most is not None and self.most < self._fitting

    @property
    def _fitting(self) -> int:
        return -(-self.rounds // self.min_separation)


def enforced_bounds(scenario: Scenario, population: Population) -> ParticipationBounds:
    """Return n, b and k; a `ScenarioError` is raised if the scenario enforces too little for any promise.

    With synchronous rounds a report is taken in the round of its selection, so b is the smallest R_i + 1. A buffered
    server takes it s versions later. If cool-downs begin with a report, b is the same; if they begin with the
    selection, the next report can be nearer by s, and b is the smallest R_i + 1 less `max_staleness`. With caps on
    participations, k is the most that one client can have by its own cap and separation.
    """
    server, rounds = scenario.server, scenario.stop.rounds
    least, lag = int(population.separation.min()) + 1, 0
    if rounds is None:
        message = (
            "privacy needs stop.rounds: how many rounds there are is part of the promise, and with a duration alone "
            "it is luck"
        )
        raise ScenarioError([scenario.mistake(("stop",), message)])
    if server.staleness is None and server.cooldown_from == "selected":
        if server.max_staleness is None or least <= server.max_staleness:
            message = (
                "nothing is promised to privacy where cool-downs begin with the selection: two late reports of a "
                "client can be taken in one version; set cooldown_from: reported, or a max_staleness that is no larger "
                "than the smallest separation"
            )
            raise ScenarioError([scenario.mistake(("server", "cooldown_from"), message)])
        lag = server.max_staleness
    most = None if population.most is None else int(population.at_most(rounds, lag).max())
    return ParticipationBounds(rounds, least - lag, most)


def broken_promises(promised: ParticipationBounds, seen: Contributions) -> list[str]:
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
