"""How long the phases of sessions take if nothing ends them: download, training, upload."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import FOREVER, HOUR
from fedsim.common.keyed import Stream
from fedsim.common.later import special
from fedsim.population.distributions import Constant, Distribution, distribution
from fedsim.population.quantities import Population
from fedsim.scenario import Scenario
from fedsim.scenario.session import AnySession
from fedsim.scenario.sources import ByDeadline
from fedsim.scenario.work import Work

PHASES = 3
FailureFunction: TypeAlias = Callable[[Ints, Ints | int, int], Ints | int]
"""The instants (n,) at which sessions of clients (n,) fail by themselves, in the sessions of that number which begin at
an instant, at least a millisecond after it; `FOREVER` where none does."""
PhaseFunction: TypeAlias = Callable[[Ints, Ints | int], Floats]
"""How long the phases of sessions of clients (n,) take at speed 1, in the sessions of that number: seconds (3, n)."""
_LEAST = 1.0  # bits a second; a law may come close to 0
_FAILURE = 1 << 61  # from this index on, those of when sessions fail
_AT_WORK = 1 << 62  # from this index on, the draws of who is at work


def session_phases(scenario: Scenario, population: Population, draws: Stream) -> PhaseFunction:
    """Return the function for the phases of sessions; lengths are their sum over the device's speed.

    The draw of phase j from the stream `draws` is keyed by (client, 3 * number + j), number being that of `session_key`
    of the round or selection; that of who is at work by (client, 2 ** 62 + number).
    """
    train_s, shares = population.train_s, _trained_shares(scenario, population)
    parts = [_parts(group.session, population) for group in scenario.population]

    def drawn(law: Distribution | Floats, clients: Ints, index: Ints | int) -> Floats | float:
        if isinstance(law, np.ndarray):
            return law[clients]
        return law.value if isinstance(law, Constant) else law.draw(draws.uniforms(clients, index))

    def phases(clients: Ints, number: Ints | int) -> Floats:
        lengths, group = np.zeros((PHASES, len(clients))), population.group[clients]
        for index in range(len(parts)) if len(parts) == 1 else np.unique(group).tolist():
            here = slice(None) if len(parts) == 1 else group == index
            own, key = clients[here], number if isinstance(number, int) else number[here]
            share, of_phases = parts[index]
            at_work = draws.uniforms(own, _AT_WORK + key) < share if share else None
            for phase, (law, bits, other) in enumerate(of_phases):
                if law is None:
                    lengths[phase, here] = 0.0 if train_s is None else train_s[own]
                    continue
                value = drawn(law, own, PHASES * key + phase)
                if at_work is not None and other is not None:
                    value = np.where(at_work, drawn(other, own, PHASES * key + phase), value)
                lengths[phase, here] = bits / np.maximum(value, _LEAST) if bits else value
        if shares is not None:
            lengths[1] *= shares[clients]
        return lengths

    return phases


def session_failures(scenario: Scenario, population: Population, draws: Stream) -> FailureFunction:
    """Return the function for when sessions fail.

    The draw is keyed by (client, 2 ** 61 + number), so that the lengths of phases are those of a run without failures.
    """
    fails = [group.session.fails for group in scenario.population]
    if not any(fails):
        return lambda _clients, _number, _since: FOREVER
    per_ms = np.array([0.0 if each is None else each.per_hour / HOUR for each in fails])

    def failing(clients: Ints, number: Ints | int, since: int) -> Ints:
        rate = per_ms[population.group[clients]]
        drawn = draws.exponentials(clients, _FAILURE + number)
        after = np.divide(drawn, rate, out=np.full(len(clients), float(FOREVER)), where=rate > 0)
        return since + np.asarray(np.clip(np.ceil(after), 1.0, float(FOREVER // 4)), dtype=np.int64)

    return failing


def upload_bits(scenario: Scenario) -> Floats:
    """Return what a session of each group uploads, (groups,) bits; 0 where it has plain times."""
    return np.array([8 * each.session.sent if isinstance(each.session, Work) else 0.0 for each in scenario.population])


_Part: TypeAlias = tuple[Distribution | Floats | None, float, Distribution | None]


def _parts(session: AnySession, population: Population) -> tuple[float, list[_Part]]:
    """Return the share of sessions at work, and each phase.

    Of a phase: the law of its length; that of speeds, or those of all devices (N,), with the bits to transfer, and at
    work; or no law where it trains.
    """
    if not isinstance(session, Work):
        return 0.0, [(distribution(each), 0.0, None) for each in (session.download, session.train, session.upload)]
    link, work = session.link, session.link.work
    down, up = [
        (
            own if own is not None and law.kind == "column" else distribution(law),
            8 * size,
            None if other is None else distribution(other),
        )
        for law, size, other, own in (
            (link.down, session.model, work and work.down, population.down),
            (link.up, session.sent, work and work.up, population.up),
        )
    ]
    return 0.0 if work is None else work.share, [down, (None, 0.0, None), up]


def steps_by_deadline(scenario: Scenario, population: Population) -> Ints | None:
    """Return K_i (N,) where as many local steps are taken as fit before the server's deadline; None otherwise.

    By the median lengths of the phases: 1 <= K_i <= `most`, the steps of a whole training.
    """
    source = None if scenario.learning is None else scenario.learning.local_steps
    if not isinstance(source, ByDeadline) or scenario.server.deadline is None:
        return None
    medians, half = np.zeros((PHASES, len(population))), np.array([0.5])
    for index, group in enumerate(scenario.population):
        own = population.group == index
        for phase, (law, bits, _) in enumerate(_parts(group.session, population)[1]):
            if law is not None:
                median = law[own] if isinstance(law, np.ndarray) else float(law.draw(half)[0])
                medians[phase, own] = bits / np.maximum(median, _LEAST) if bits else median
            elif population.train_s is not None:
                medians[phase, own] = population.train_s[own]
    down, train, up = medians
    left = scenario.server.deadline * population.speed - down - up
    fitting = np.divide(source.most * left, train, out=np.full(len(left), float(source.most)), where=train > 0)
    return np.asarray(np.clip(np.floor(fitting * (1 + 1e-12)), 1, source.most), dtype=np.int64)


def _trained_shares(scenario: Scenario, population: Population) -> Floats | None:
    """Return the share (N,) of a whole training for which the deadline leaves time; None where all is trained."""
    steps = steps_by_deadline(scenario, population)
    return None if steps is None or scenario.learning is None else steps / scenario.learning.most_steps


def longest_sessions(scenario: Scenario, population: Population, chance: float) -> Floats:
    """Return lengths (N,), seconds: each phase of a client's session is longer than in them with this chance at most.

    A law of one's own is taken at the largest draw that the simulation makes. How uploads slow each other is left out.
    """
    shares = _trained_shares(scenario, population)
    u, z, found = np.array([chance]), special.ndtri(np.array([chance])), np.zeros(len(population))
    for index, group in enumerate(scenario.population):
        own = population.group == index
        for phase, (law, bits, other) in enumerate(_parts(group.session, population)[1]):
            share = 1.0 if shares is None or phase != 1 else shares[own]
            if law is None:
                found[own] += 0.0 if population.train_s is None else population.train_s[own] * share
            else:
                laws = [each for each in (law, other) if each is not None and not isinstance(each, np.ndarray)]
                ends = [float(end[0]) for each in laws for end in (each.draw(u), each.of_scores(z), each.of_scores(-z))]
                slowest = np.minimum(law[own] if isinstance(law, np.ndarray) else np.inf, min(ends, default=np.inf))
                found[own] += (bits / np.maximum(slowest, _LEAST) if bits else max(ends)) * share
    return np.asarray(found / population.speed)


def session_key(scenario: Scenario, selection: int, instant: int) -> int:
    """Return the number by which sessions are drawn: that of the selection or, with work, the log's own instant.

    A log tells which round a session is of, but not which selection of a buffered server; the instant it tells.
    """
    works = any(isinstance(group.session, Work) for group in scenario.population)
    return instant if works and not scenario.server.selects_once else selection
