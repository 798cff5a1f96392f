"""What both engines share about sessions: how long they take, and how those of a buffered server end."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.common.instants import each_to_ms
from fedsim.common.keyed import Stream
from fedsim.population import Population
from fedsim.population.distributions import Constant, distribution
from fedsim.scenario import Scenario

LengthFunction: TypeAlias = Callable[[Ints, int], Ints]
"""How long the sessions of clients (n,) take, in the round or selection of that number: milliseconds (n,)."""

_PHASES = 3


def session_lengths(scenario: Scenario, population: Population, draws: Stream) -> LengthFunction:
    """Return the function for how long sessions take if nothing ends them: (download + train + upload) / speed.

    The draw of phase j from the stream `draws` is keyed by (client, 3 * number + j), number being that of the round, or
    of a buffered server's selection.
    """
    laws = [
        [distribution(source) for source in (each.session.download, each.session.train, each.session.upload)]
        for each in scenario.population
    ]

    equally_fast = bool((population.speed == 1.0).all())

    def lengths(clients: Ints, number: int) -> Ints:
        total, group = np.zeros(len(clients)), population.group[clients]
        for index in range(len(laws)) if len(laws) == 1 else np.unique(group).tolist():
            here = slice(None) if len(laws) == 1 else group == index
            for phase, law in enumerate(laws[index]):
                if isinstance(law, Constant):
                    total[here] += law.value
                else:
                    total[here] += law.draw(draws.uniforms(clients[here], _PHASES * number + phase))
        return each_to_ms(total if equally_fast else total / population.speed[clients])

    return lengths


class EndedSession(NamedTuple):
    """A session of a buffered server that has ended; in the order of rows, which is that of versions and positions.

    `version` is the server's when it began; a report may still turn out to be stale.
    """

    row: int
    client: int
    version: int
    outcome: str
