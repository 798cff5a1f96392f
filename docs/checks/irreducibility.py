"""Is the chain irreducible at R = M - 1? The paper's lemma says yes for R = 0 to M - 1. Its definitions, in Python.

The state is the last R cohorts, each an *ordered* tuple of B clients as in the paper; no client occurs twice. A step
puts a cohort of the remaining clients in front and drops the last one. Every allowed step has positive probability, so
classes and periods depend on nothing but N, B and R. Needs Python alone; takes a second.
"""

from itertools import permutations
from math import gcd
from typing import TypeAlias

State: TypeAlias = tuple[tuple[int, ...], ...]


def successors(state: State, clients: int, cohort: int) -> list[State]:
    """Return the states that may follow."""
    waiting = {client for past in state for client in past}
    free = [client for client in range(clients) if client not in waiting]
    return [(new, *state[:-1]) for new in permutations(free, cohort)]


def states(clients: int, cohort: int, separation: int) -> list[State]:
    """Return all sequences of R disjoint ordered cohorts: the state space of the paper."""
    sequences: list[State] = [()]
    for _ in range(separation):
        sequences = [
            (*state, new)
            for state in sequences
            for new in permutations([i for i in range(clients) if all(i not in past for past in state)], cohort)
        ]
    return sequences


def reached(start: State, clients: int, cohort: int) -> dict[State, int]:
    """Return the states that can be reached from one, with the fewest steps to each."""
    steps, waiting = {start: 0}, [start]
    for state in waiting:
        for following in successors(state, clients, cohort):
            if following not in steps:
                steps[following] = steps[state] + 1
                waiting.append(following)
    return steps


def classes(clients: int, cohort: int, separation: int) -> tuple[int, int, int]:
    """Return the number of states, of communicating classes, and the period of the first class.

    Every class is closed here: a cohort can be repeated after R rounds of others, so that each step can be undone.
    """
    every = states(clients, cohort, separation)
    left, count, period = set(every), 0, 0
    while left:
        steps = reached(min(left), clients, cohort)
        if not count:
            for state, distance in steps.items():
                for following in successors(state, clients, cohort):
                    period = gcd(period, distance + 1 - steps[following])
        left -= steps.keys()
        count += 1
    return len(every), count, period


def main() -> None:
    """Print what holds at R = M - 1 and at R = M - 2."""
    print("  N  B  R          states  classes  period")
    for clients, cohort, separation in ((6, 1, 5), (6, 1, 4), (4, 2, 1), (6, 2, 2), (6, 2, 1)):
        counts = classes(clients, cohort, separation)
        place = "M - 1" if clients == (separation + 1) * cohort else "M - 2"
        print(f"{clients:>3}{cohort:>3}{separation:>3} ({place}){counts[0]:>8}{counts[1]:>9}{counts[2]:>8}")
    print("At R = M - 1 the clients that have waited are exactly one cohort: who goes together, and in which order,")
    print("stays as it began. The chain is reducible there; at R = M - 2 it is irreducible and aperiodic.")


if __name__ == "__main__":
    main()
