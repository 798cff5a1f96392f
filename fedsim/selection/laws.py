"""The selection laws: midzuno, uniform, successive, groups, cyclic and bernoulli."""

import numpy as np
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.selection.law import Candidates, Law, Request
from fedsim.selection.proposals import draw, look, urn
from fedsim.theory.cohorts import bernoulli_chances


def selection_law(kind: str, weights: NDArray[np.float64], cohort: int, seed: int, replicate: int) -> Law:
    """Return the selection law called `kind`.

    Parameters
    ----------
    kind
        ``midzuno``, ``uniform``, ``successive``, ``groups``, ``cyclic`` or ``bernoulli``.
    weights
        (N,) p_i.
    cohort
        Size of a selection group; used by ``groups`` alone.
    seed, replicate
        Keys of the draws.
    """
    clients = len(weights)
    by_weight = stream(seed, replicate, Purpose.LEADER)
    evenly = stream(seed, replicate, Purpose.SELECTION)
    by_race = stream(seed, replicate, Purpose.LEADER_RACE)
    even_race = stream(seed, replicate, Purpose.SELECTION_RACE)
    weighted_urn = urn(weights, clients, by_weight, by_race)
    even_urn = urn(None, clients, evenly, even_race)

    def midzuno(request: Request, among: Candidates) -> NDArray[np.int64]:
        """One client by weight, the others uniformly: P(S) is proportional to the weight of S (Midzuno 1952)."""
        number, rest = request.round, request.count - 1
        first, second = look(number, [(weighted_urn, 1), (even_urn, rest)], among.eligible)
        leader = draw(weighted_urn, number, 1, among.eligible, among.all_eligible, looked=first)
        others = draw(even_urn, number, rest, among.eligible, among.all_eligible, leader, second)
        return np.concatenate([leader, others])

    def uniform(request: Request, among: Candidates) -> NDArray[np.int64]:
        """Every set of `count` eligible clients with the same probability."""
        return draw(even_urn, request.round, request.count, among.eligible, among.all_eligible)

    def successive(request: Request, among: Candidates) -> NDArray[np.int64]:
        """One after the other by weight among those that are left (Plackett-Luce)."""
        return draw(weighted_urn, request.round, request.count, among.eligible, among.all_eligible)

    def groups(request: Request, among: Candidates) -> NDArray[np.int64]:
        """One block of `cohort` consecutive clients, by the block's weight, among blocks that are wholly eligible."""
        members = np.arange(cohort)

        def eligible(blocks: NDArray[np.int64]) -> NDArray[np.bool_]:
            clients_of = blocks[:, np.newaxis] * cohort + members
            whole: NDArray[np.bool_] = np.all(among.eligible(clients_of.ravel()).reshape(clients_of.shape), axis=1)
            return whole

        def all_eligible() -> NDArray[np.bool_]:
            whole: NDArray[np.bool_] = np.all(among.all_eligible().reshape(-1, cohort), axis=1)
            return whole

        block = draw(group_urn, request.round, 1, eligible, all_eligible)
        return int(block[0]) * cohort + members

    def cyclic(request: Request, among: Candidates) -> NDArray[np.int64]:
        """The next eligible clients in the order of their indices, round and round."""
        found = np.empty(0, dtype=np.int64)
        offset, size = 0, 4 * request.count
        while len(found) < request.count and offset < clients:
            window = (request.after + 1 + np.arange(offset, min(offset + size, clients))) % clients
            found = np.concatenate([found, window[among.eligible(window)]])
            offset, size = offset + size, 2 * size
        return found[: request.count]

    def bernoulli(request: Request, among: Candidates) -> NDArray[np.int64]:
        """Each eligible client by itself with probability min(1, s p_i), s such that `count` are expected."""
        ready = np.flatnonzero(among.all_eligible())
        chances = bernoulli_chances(weights[ready], request.count)
        return ready[by_race.uniforms(ready, request.round) < chances]

    def ordered(request: Request, everyone: NDArray[np.int64]) -> NDArray[np.int64]:
        """All of them, in an order that has the law of `successive`, of midzuno's or of uniform draws to the last."""
        if kind == "cyclic":
            return everyone[np.argsort((everyone - request.after - 1) % clients)]
        heads = {"midzuno": 1, "successive": len(everyone)}.get(kind, 0)
        leaders = weighted_urn.race(request.round, everyone, heads) if heads else everyone[:0]
        others = np.setdiff1d(everyone, leaders, assume_unique=True)
        return np.concatenate([leaders, even_urn.race(request.round, others, len(others))])

    if kind == "groups":
        group_urn = urn(weights.reshape(-1, cohort).sum(axis=1), clients // cohort, by_weight, by_race)
        return groups
    laws: dict[str, Law] = {
        "midzuno": midzuno,
        "uniform": uniform,
        "successive": successive,
        "cyclic": cyclic,
        "bernoulli": bernoulli,
    }
    one_of_many = laws[kind]

    def law(request: Request, among: Candidates) -> NDArray[np.int64]:
        return one_of_many(request, among) if request.everyone is None else ordered(request, request.everyone)

    return law
