"""The built-in selection laws: one client after the other, each by itself, or the first of all in some order."""

from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.law import Candidates, Eligibility, Remembers, Request, Streams
from fedsim.selection.proposals import WeightedProposals, draw
from fedsim.selection.rules import RULES, bernoulli_chances, poisson_chances

_ROUNDING = 1  # index of the draw that rounds the quotas of strata; 0 is that of the race


class Successive:
    """One client after the other, by weight among those that are left (Plackett-Luce)."""

    theory = RULES["successive"]
    finds_shortage = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams, weights)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients drawn one after the other."""
        return draw(self._proposals, request, request.count, candidates)


class UniformSelection(Successive):
    """Every set of eligible clients is equally likely."""

    theory = RULES["uniform"]

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams)


class Midzuno:
    """The paper's law: one client by weight, the others uniformly; P(S) is proportional to the total weight of S.

    A set S of eligible clients is selected with a probability proportional to sum_{i in S} p_i (H. Midzuno, *On the
    sampling system with probability proportionate to sum of sizes*, Annals of the Institute of Statistical Mathematics
    3, 1952).
    """

    theory = RULES["midzuno"]
    finds_shortage = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._weighted = WeightedProposals(len(weights), streams, weights)
        self._even = WeightedProposals(len(weights), streams)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the client that was drawn by weight, then the others."""
        leader = draw(self._weighted, request, 1, candidates)
        return np.concatenate([leader, draw(self._even, request, request.count - 1, candidates, leader)])


class Groups:
    """One wholly eligible block of `cohort` consecutive clients, by its weight (the paper's experiments).

    Only wholly eligible blocks are drawn.
    """

    theory = RULES["groups"]
    finds_shortage = True

    def __init__(self, weights: Floats, cohort: int, streams: Streams) -> None:
        of_blocks = weights.reshape(-1, cohort).sum(axis=1)
        self._weighted, self._cohort = WeightedProposals(len(of_blocks), streams, of_blocks), cohort

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the members of the block; none, if no block is wholly eligible."""
        block = draw(self._weighted, request, 1, _Blocks(candidates, self._cohort))
        return (block[:, np.newaxis] * self._cohort + np.arange(self._cohort)).ravel()


class _Blocks(Eligibility):
    """Which blocks of `size` consecutive clients are wholly eligible."""

    def __init__(self, now: Eligibility, size: int) -> None:
        self._eligibility, self._members = now, np.arange(size)

    def eligible(self, blocks: Ints) -> Bools:
        clients = blocks[:, np.newaxis] * len(self._members) + self._members
        return np.asarray(self._eligibility.eligible(clients.ravel()).reshape(clients.shape).all(axis=1))

    def all_eligible(self) -> Bools:
        return np.asarray(self._eligibility.all_eligible().reshape(-1, len(self._members)).all(axis=1))


class Bernoulli:
    """Each eligible client independently, with probability min(1, s p_i), where s makes the expected number `cohort`.

    All are selected, where there are no more than that.
    """

    theory = RULES["bernoulli"]
    random_size = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._weights, self._draws = weights, streams(Purpose.LEADER_RACE)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those whose draw falls below their chance, in the order of their indices."""
        eligible = np.flatnonzero(candidates.all_eligible())
        chances = bernoulli_chances(self._weights[eligible], request.count)
        return eligible[self._draws.uniforms(eligible, request.number) < chances]


class Poisson:
    """Each eligible client independently, with probability min(1, B p_i), B = `cohort` x `over_select`; no round waits.

    A round takes all who are drawn, perhaps none. With a
    separation this is b-min-sep sampling: a client's gaps are R_i + Geometric(B p_i), independent of all others.
    """

    theory = RULES["poisson"]
    random_size = True

    def __init__(self, weights: Floats, cohort: int, streams: Streams) -> None:
        self._chances, self._draws = poisson_chances(weights, cohort), streams(Purpose.LEADER_RACE)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those whose draw falls below their chance, in the order of their indices."""
        eligible = np.flatnonzero(candidates.all_eligible())
        return eligible[self._draws.uniforms(eligible, request.number) < self._chances[eligible]]


class CyclicPoisson:
    """As `poisson`, with probability min(1, `groups` B p_i), but client i only in rounds t with t = i modulo `groups`.

    In its rounds its chance is min(1, groups cohort p_i), so that cohorts have the wanted size on average. Two of its
    participations are at least `groups` rounds apart.
    """

    random_size = True

    def __init__(
        self,
        weights: Floats,
        cohort: int,
        streams: Streams,
        groups: Annotated[int, Field(ge=1, description="Rounds from one in which a client may be drawn to its next.")],
    ) -> None:
        self.groups, self._chances = groups, poisson_chances(weights, cohort * groups)
        self._draws = streams(Purpose.LEADER_RACE)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those of the round's group whose draw falls below their chance, in the order of their indices."""
        group = np.arange(request.round % self.groups, len(candidates), self.groups)
        drawn = group[self._draws.uniforms(group, request.number) < self._chances[group]]
        return drawn[candidates.eligible(drawn)]


def everyone_eligible(request: Request, candidates: Candidates) -> Ints:
    """Return all eligible clients in the order of their indices: O(N)."""
    return np.flatnonzero(candidates.all_eligible()) if request.everyone is None else request.everyone


def raced(request: Request, clients: Ints, rates: Floats, index: int = 0) -> Ints:
    """Return clients (n,) in the order in which an exponential race with these rates (n,) brings them in."""
    return clients[np.argsort(-np.log(request.uniforms(clients, index)) / rates, kind="stable")]


class Cyclic:
    """Every client in turn: the next eligible ones after the one that was selected last."""

    theory = RULES["cyclic"]
    finds_shortage = True

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients in turn."""
        clients = len(candidates)
        if request.everyone is not None:
            return request.everyone[np.argsort((request.everyone - request.after - 1) % clients)]
        chosen = np.empty(0, dtype=np.int64)
        offset, size = 0, 4 * request.count
        while len(chosen) < request.count and offset < clients:
            window = (request.after + 1 + np.arange(offset, min(offset + size, clients))) % clients
            chosen = np.concatenate([chosen, window[candidates.eligible(window)]])
            offset, size = offset + size, 2 * size
        return chosen[: request.count]


class Age:
    """Clients never selected first, then those selected longest ago; ties are drawn, and weights make no difference.

    This is selection by age of information: who never was selected comes first. Among clients of the same age the order
    is drawn anew in every round.
    """

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order of their ages, the oldest first."""
        eligible = everyone_eligible(request, candidates)
        order = np.lexsort((request.uniforms(eligible), candidates.last_round(eligible)))
        return eligible[order[: request.count]]


class Stratified:
    """Each group of the population gets its share of the cohort by weight; within a group as `successive`.

    The share of group g is W_g, the sum of its p_i, times the size of the cohort; it is rounded down or up by one draw
    a round, so that the quotas sum to the size and each is W_g times it on average (systematic sampling). Places that a
    group cannot fill go to the others, by weight.
    """

    def __init__(self, weights: Floats) -> None:
        self._weights = weights

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i brings them in."""
        groups = candidates.group(np.arange(len(candidates)))
        eligible = everyone_eligible(request, candidates)
        eligible = raced(request, eligible, self._weights[eligible])
        expected = np.asarray(np.bincount(groups, self._weights), dtype=np.float64) * request.count
        quotas = rounded_quotas(expected, float(request.uniforms(0, _ROUNDING)[0]))
        group = groups[eligible]
        order = np.argsort(group, kind="stable")
        first = np.searchsorted(group[order], np.arange(len(quotas)))
        place = np.empty(len(group), dtype=np.int64)  # in the race of its own group
        place[order] = np.arange(len(group)) - first[group[order]]
        within = place < quotas[group]
        left = request.count - int(np.count_nonzero(within))
        within[np.flatnonzero(~within)[:left]] = True
        return eligible[within]


def rounded_quotas(expected: Floats, draw: float) -> Ints:
    """Round numbers (n,) with a whole sum down or up: the sum stays, and the average over draws in (0, 1) is exact."""
    edges = np.cumsum(expected)
    edges[-1] = round(float(edges[-1]))
    return np.diff(np.floor(edges + draw), prepend=np.floor(draw)).astype(np.int64)


class InverseAvailability(Remembers):
    """As `successive`, by weight over estimated availability, (times eligible + 1) / (selections + 2).

    The server estimates how available client i is by a_i = (times eligible + 1) / (selections + 2), this selection
    included (the mean of a uniform prior), and chooses one client after the other by weight p_i / a_i among those left
    (Plackett-Luce). While cohorts are small beside those who are eligible, each takes part in proportion to p_i,
    however seldom it is there. Where everybody is always eligible it is `successive`.
    """

    remembered = ("_seen", "_selections")

    def __init__(self, weights: Floats) -> None:
        self._weights, self._seen, self._selections = weights, np.zeros(len(weights), dtype=np.int64), 0

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i / a_i brings them in."""
        eligible = everyone_eligible(request, candidates)
        self._seen[eligible] += 1
        self._selections += 1
        availability = (self._seen[eligible] + 1.0) / (self._selections + 2.0)
        return raced(request, eligible, self._weights[eligible] / availability)[: request.count]
