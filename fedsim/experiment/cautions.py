"""What keeps a run from telling anything about bias: said before it by `validate`, after it by `run` and its page."""

from collections.abc import Iterator, Mapping

from fedsim.analysis.participation import by_chance, chance_spread
from fedsim.common.arrays import Floats, Ints
from fedsim.common.progress import readable
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer

FEW = 30
"""With more participations a client than these, chance alone hides no bias that matters."""

_DAY_S = 86_400.0
_SHOWN = 3
_ROUNDING = 1e-9


def of_separation(scenario: Scenario, separation: Ints, cooldown_s: Floats) -> Iterator[str]:
    """Yield what separations, cool-downs and the length of a run do that a person may not have meant.

    Parameters
    ----------
    scenario
        What is run.
    separation, cooldown_s
        (N,) R_i in rounds, and wall-clock cool-downs.
    """
    rounds, stop_s, wanted, clients = (
        scenario.stop.rounds,
        scenario.stop.duration,
        scenario.server.wanted,
        len(separation),
    )
    buffered = isinstance(scenario.server, BufferedServer)
    longest = float(cooldown_s.max(initial=0.0))
    if rounds is not None and (kept := int(((separation > 0) & (separation + 1 >= rounds)).sum())):
        of = f"a separation of {int(separation.max()):,} {'version' if buffered else 'round'}s in a run of {rounds:,}"
        yield f"with {of}, {_who(kept, clients)} can take part once at most: how often says nothing of a bias"
    if stop_s is not None and (kept := int((cooldown_s >= stop_s).sum())):
        of = f"a cool-down of {readable(longest)} in a run of {readable(stop_s)}"
        yield f"with {of}, {_who(kept, clients)} can take part once at most: how often says nothing of a bias"
    if rounds is not None and not buffered and rounds * wanted < clients:
        taken = f"{rounds:,} round{'s' if rounds > 1 else ''} of {wanted:,} are {rounds * wanted:,} participations"
        yield f"{taken} for {clients:,} clients, not even one for each: only groups of clients can be compared"
    if 0 < longest < _DAY_S and any(group.availability.kind == "habits" for group in scenario.population):
        yield (
            f"a cool-down of {readable(longest)} is shorter than a day, and devices with habits come at about the same "
            "hours every day: it keeps nobody out from one day to the same hour of the next"
        )


def _who(kept: int, clients: int) -> str:
    return "every client" if kept == clients else f"{kept:,} of {clients:,} clients"


def of_shocks(scenario: Scenario) -> Iterator[str]:
    """Yield what shocks do to what can be said of a run."""
    if scenario.shocks:
        names = ", ".join(shock.name for shock in scenario.shocks[:_SHOWN])
        more = f" and {len(scenario.shocks) - _SHOWN} more" if len(scenario.shocks) > _SHOWN else ""
        yield (
            f"shocks ({names}{more}) take devices out together: no theory covers this, and one run shows one course of "
            "them; other seeds or `replicates` say how much depends on it"
        )


def of_chance(measured: float, most: int, taken: int, clients: int, together: int = 1) -> Iterator[str]:
    """Yield why a run is too short to tell bias from chance; nothing where it is not.

    Parameters
    ----------
    measured
        L1 distance of the frequencies from uniform.
    most
        Participations of the client that took part most.
    taken, clients
        Participations, and N.
    together
        As in `beyond_chance`.
    """
    if not taken or clients < 2 or measured <= _ROUNDING:
        return
    fair, each = by_chance(taken, clients), f"{taken / clients:.3g} for each client"
    if most == 1:
        yield (
            f"nobody took part more than once: the distance of {measured:.3f} from uniform says how many did not take "
            "part, and nothing of a bias"
        )
    elif taken >= FEW * clients or more_even(measured, taken, clients, together):
        return
    elif not beyond_chance(measured, taken, clients, together):
        yield (
            f"too short to tell bias from chance: equal chances for everybody would put as few participations ({each}) "
            f"{fair:.3f} from uniform, and these lie {measured:.3f} from it"
        )
    elif measured < 2 * fair:
        yield (
            f"too short to tell how much of the distance is bias and how much chance: of {measured:.3f}, equal chances "
            f"for everybody would give {fair:.3f} with as few participations ({each})"
        )


def of_figures(scenario: Scenario, metrics: Mapping[str, float]) -> Iterator[str]:
    """Yield the same from the figures of a run."""
    names = ("participation.l1_uniform", "participation.most", "sessions.count", "participation.mean")
    if all(name in metrics for name in names):
        measured, most, taken, mean = (metrics[name] for name in names)
        yield from of_chance(measured, round(most), round(taken), round(taken / mean), drawn_together(scenario))


def drawn_together(scenario: Scenario) -> int:
    """Return how many clients one draw of the selection law takes: a whole group, or one client."""
    return scenario.server.wanted if scenario.server.selection.kind == "groups" else 1


def beyond_chance(measured: float, taken: int, clients: int, together: int = 1) -> bool:
    """Tell whether frequencies lie farther from uniform than equal chances for everybody would put them.

    The distance that chance gives has a spread of its own, of which two standard deviations are allowed.

    Parameters
    ----------
    measured
        L1 distance of the frequencies from uniform.
    taken, clients
        Participations, and N.
    together
        Clients that are drawn at once: so many fewer draws there are, and so much more chance does.
    """
    drawn, of = taken // together, clients // together
    return measured > by_chance(drawn, of) + 2 * chance_spread(drawn) + _ROUNDING


def more_even(measured: float, taken: int, clients: int, together: int = 1) -> bool:
    """Tell whether frequencies lie nearer to uniform than equal chances would put them; parameters as there."""
    drawn, of = taken // together, clients // together
    return measured < by_chance(drawn, of) - 2 * chance_spread(drawn)
