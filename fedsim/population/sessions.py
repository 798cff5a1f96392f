"""How long the phases of sessions take if nothing ends them: download, training, upload."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.columns import Population
from fedsim.population.distributions import Constant, Distribution, distribution
from fedsim.scenario import Scenario
from fedsim.scenario.models import AnySession
from fedsim.scenario.work import Work

PHASES = 3
PhaseFunction: TypeAlias = Callable[[Ints, Ints | int], Floats]
"""How long the phases of sessions of clients (n,) take at speed 1, in the sessions of that number: seconds (3, n)."""
_LEAST = 1.0  # bits a second; a law may come close to 0


def session_phases(scenario: Scenario, population: Population, draws: Stream) -> PhaseFunction:
    """Return the function for the phases of sessions; lengths are their sum over the device's speed.

    The draw of phase j from the stream `draws` is keyed by (client, 3 * number + j), number being that of `session_key`
    of the round or selection.
    """
    train_s = population.train_s
    parts = [_parts(group.session) for group in scenario.population]

    def phases(clients: Ints, number: Ints | int) -> Floats:
        lengths, group = np.zeros((PHASES, len(clients))), population.group[clients]
        for index in range(len(parts)) if len(parts) == 1 else np.unique(group).tolist():
            here = slice(None) if len(parts) == 1 else group == index
            own, key = clients[here], number if isinstance(number, int) else number[here]
            for phase, (law, bits) in enumerate(parts[index]):
                if law is None:
                    lengths[phase, here] = 0.0 if train_s is None else train_s[own]
                    continue
                if isinstance(law, Constant):
                    drawn: Floats | float = law.value
                else:
                    drawn = law.draw(draws.uniforms(own, PHASES * key + phase))
                lengths[phase, here] = bits / np.maximum(drawn, _LEAST) if bits else drawn
        return lengths

    return phases


def _parts(session: AnySession) -> list[tuple[Distribution | None, float]]:
    """Return each phase: the law of its length; of speeds, with the bits to transfer; or no law where it trains."""
    if isinstance(session, Work):
        down, up = distribution(session.link.down), distribution(session.link.up)
        return [(down, 8 * session.model), (None, 0.0), (up, 8 * session.sent)]
    return [(distribution(each), 0.0) for each in (session.download, session.train, session.upload)]


def session_key(scenario: Scenario, selection: int, instant: int) -> int:
    """Return the number by which sessions are drawn: that of the selection or, with work, the log's own instant.

    A log tells which round a session is of, but not which selection of a buffered server; the instant it tells.
    """
    works = any(isinstance(group.session, Work) for group in scenario.population)
    return instant if works and not scenario.server.selects_once else selection
