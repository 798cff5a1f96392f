"""How long the phases of sessions take if nothing ends them: download, training, upload."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import FOREVER, HOUR
from fedsim.common.keyed import Stream
from fedsim.common.later import special
from fedsim.common.outcomes import CODES
from fedsim.population.distributions import Constant, Distribution, distribution
from fedsim.population.quantities import Population
from fedsim.scenario import Scenario
from fedsim.scenario.session import AnySession
from fedsim.scenario.sources import ByDeadline
from fedsim.scenario.work import Work

PHASES = ("download", "train", "upload")
FailureFunction: TypeAlias = Callable[[Ints, Ints | int, int], tuple[Ints | int, NDArray[np.int8] | int]]
"""The instants (n,) at which sessions of clients (n,) fail by themselves, in the sessions of that number which begin at
an instant, at least a millisecond after it; `FOREVER` where none does. And the codes of the outcomes of those."""
PhaseFunction: TypeAlias = Callable[[Ints, Ints | int], Floats]
"""How long the phases of sessions of clients (n,) take at speed 1, in the sessions of that number: seconds (3, n)."""
_LEAST = 1.0  # bits a second; a law may come close to 0
_FAILURE = 1 << 61  # from this index on, those of when sessions fail
_DROPPED = CODES["dropped"]
_AT_WORK = 1 << 62  # from this index on, the draws of who is at work


def session_phases(scenario: Scenario, population: Population, draws: Stream) -> PhaseFunction:
    """Return the function for the phases of sessions; lengths are their sum over the device's speed.

    The draw of phase j from the stream `draws` is keyed by (client, 3 * number + j), number being that of `session_key`
    of the round or selection; that of who is at work by (client, 2 ** 62 + number).
    """
    train_s, shares = population.train_s, _trained_shares(scenario, population)
    parts = [_parts(group.session, population) for group in scenario.population]

    def drawn(values: Distribution | Floats, clients: Ints, index: Ints | int) -> Floats | float:
        if isinstance(values, np.ndarray):
            return values[clients]
        return values.value if isinstance(values, Constant) else values.draw(draws.uniforms(clients, index))

    def phases(clients: Ints, number: Ints | int) -> Floats:
        lengths, group = np.zeros((len(PHASES), len(clients))), population.group[clients]
        for index in range(len(parts)) if len(parts) == 1 else np.unique(group).tolist():
            here = slice(None) if len(parts) == 1 else group == index
            members, key = clients[here], number if isinstance(number, int) else number[here]
            share, of_phases = parts[index]
            at_work = draws.uniforms(members, _AT_WORK + key) < share if share else None
            for phase, (values, bits, other) in enumerate(of_phases):
                if values is None:
                    lengths[phase, here] = 0.0 if train_s is None else train_s[members]
                    continue
                value = drawn(values, members, len(PHASES) * key + phase)
                if at_work is not None and other is not None:
                    value = np.where(at_work, drawn(other, members, len(PHASES) * key + phase), value)
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
        return lambda _clients, _number, _since: (FOREVER, _DROPPED)
    per_ms = np.array([0.0 if each is None else each.per_hour / HOUR for each in fails])

    def failing(clients: Ints, number: Ints | int, since: int) -> tuple[Ints, int]:
        rate = per_ms[population.group[clients]]
        drawn = draws.exponentials(clients, _FAILURE + number)
        after = np.divide(drawn, rate, out=np.full(len(clients), float(FOREVER)), where=rate > 0)
        return (since + np.clip(np.ceil(after), 1.0, float(FOREVER // 4)).astype(np.int64), _DROPPED)

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
        return 0.0, [(distribution(getattr(session, phase)), 0.0, None) for phase in PHASES]
    link, work = session.link, session.link.work
    down, up = [
        (
            column if column is not None and source.kind == "column" else distribution(source),
            8 * size,
            None if other is None else distribution(other),
        )
        for source, size, other, column in (
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
    medians, half = np.zeros((len(PHASES), len(population))), np.array([0.5])
    for index, group in enumerate(scenario.population):
        members = population.group == index
        for phase, (values, bits, _) in enumerate(_parts(group.session, population)[1]):
            if values is not None:
                median = values[members] if isinstance(values, np.ndarray) else float(values.draw(half)[0])
                medians[phase, members] = bits / np.maximum(median, _LEAST) if bits else median
            elif population.train_s is not None:
                medians[phase, members] = population.train_s[members]
    down, train, up = medians
    left = scenario.server.deadline * population.speed - down - up
    fitting = np.divide(source.most * left, train, out=np.full(len(left), float(source.most)), where=train > 0)
    return np.asarray(np.clip(np.floor(fitting * (1 + 1e-12)), 1, source.most), dtype=np.int64)


def whole_steps(scenario: Scenario, population: Population) -> Ints | None:
    """Return K_i (N,), the local steps of whole sessions; None without learning, or where the data decide."""
    if scenario.learning is None:
        return None
    if isinstance(source := scenario.learning.local_steps, int):
        return np.full(len(population), source)
    return steps_by_deadline(scenario, population) if population.local_steps is None else population.local_steps


def cut_short(phases: Floats, whole: Ints, room: Floats) -> Ints:
    """Return how many of `whole` local steps (n,) can be done and sent in so many seconds (n,) at speed 1.

    All, where not even one can. The training of `phases`, (3, n), becomes that of these steps.
    """
    down, train, up = phases
    fitting = np.divide(whole * (room - down - up), train, out=whole.astype(np.float64), where=train > 0)
    steps = np.minimum(np.floor(fitting * (1 + 1e-12)), whole)
    steps = np.where(steps < 1, whole, steps).astype(np.int64)
    phases[1] = train * (steps / whole)
    return steps


def _trained_shares(scenario: Scenario, population: Population) -> Floats | None:
    """Return the share (N,) of a whole training for which the deadline leaves time; None where all is trained."""
    steps = steps_by_deadline(scenario, population)
    return None if steps is None or scenario.learning is None else steps / scenario.learning.most_steps


def longest_sessions(scenario: Scenario, population: Population, chance: float) -> Floats:
    """Return lengths (N,), seconds: each phase of a client's session is longer than in them with this chance at most.

    A law of one's own is taken at the largest draw that the simulation makes. How uploads slow each other is left out.
    """
    shares = _trained_shares(scenario, population)
    u, z, lengths = np.array([chance]), special.ndtri(np.array([chance])), np.zeros(len(population))
    for index, group in enumerate(scenario.population):
        members = population.group == index
        for phase, (values, bits, other) in enumerate(_parts(group.session, population)[1]):
            share = 1.0 if shares is None or phase != 1 else shares[members]
            if values is None:
                lengths[members] += 0.0 if population.train_s is None else population.train_s[members] * share
            else:
                drawn = [each for each in (values, other) if isinstance(each, Distribution)]
                ends = [
                    float(end[0]) for each in drawn for end in (each.draw(u), each.of_scores(z), each.of_scores(-z))
                ]
                listed = values[members] if isinstance(values, np.ndarray) else np.inf
                slowest = np.minimum(listed, min(ends, default=np.inf))
                lengths[members] += (bits / np.maximum(slowest, _LEAST) if bits else max(ends)) * share
    return np.asarray(lengths / population.speed)


def session_key(scenario: Scenario, selection: int, instant: int) -> int:
    """Return the number by which sessions are drawn: that of the selection, of a buffered server's work its instant."""
    return instant if scenario.works and not scenario.server.selects_once else selection
