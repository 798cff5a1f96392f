"""What a selection law is, what it is asked, and what it may see of the clients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.common.keyed import Purpose, Stream
from fedsim.population import Population

Streams: TypeAlias = Callable[[Purpose], Stream]
"""A run's draws by their purpose."""
Memory: TypeAlias = dict[str, NDArray[Any]]
"""What a law remembers: arrays by name."""


@dataclass(frozen=True)
class Request:
    """One selection."""

    number: int  # how many selections there were before, the key of the draws; in synchronous rounds the round
    count: int  # clients to choose, at least 1
    round: int  # index of the round; of the version, where the server is buffered, which may select often in one
    draws: Stream  # where `uniforms` come from
    after: int = -1  # the client chosen last in the run, -1 before the first: where `cyclic` goes on
    everyone: Ints | None = None
    """(count,) all who are eligible, in the order of their indices, where a buffered server has more places than that:
    they are all chosen, and the law says in which order. None otherwise."""
    now_s: float = 0.0  # simulated seconds since the start of the run
    few: bool = False  # whether only a small part of all clients is ever connected at once

    def uniforms(self, clients: ArrayLike, index: int = 0) -> Floats:
        """Return numbers drawn uniformly from (0, 1), shape (n,), for clients (n,) in this selection.

        They depend on the seed, the replicate, the selection, the client and `index` alone, not on the other clients
        given; another `index`, from 0 to 2**20, gives others.
        """
        return self.draws.uniforms(clients, (index << 40) + self.number)


class Eligibility(Protocol):
    """Who is eligible now. Asking about a few costs little; asking about all costs O(N)."""

    def eligible(self, clients: Ints, /) -> Bools:
        """Say of each of the clients whether it is eligible."""
        ...

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients, an array of the caller's own."""
        ...

    def possible(self) -> Bits | None:
        """Return a set of clients, as bits, in which are all who are eligible; None where none is at hand.

        It makes no difference to who is chosen, only to how many are asked about. By default none is at hand.
        """
        return None


class Candidates:
    """The clients as a selection law sees them; ``len(candidates)`` is N, their number, eligible or not.

    Clients are given as their indices, an integer array (n,) with values from 0 to N - 1; where they are `checked`,
    others raise a ValueError. Every answer is an array of the caller's own: writing to it changes nothing.
    """

    def __init__(
        self, now: Eligibility, population: Population, last_round: Callable[[Ints], Ints], *, checked: bool = True
    ) -> None:
        self._eligibility, self._population, self._last_round, self._checked = now, population, last_round, checked

    def __len__(self) -> int:
        return len(self._population)

    def eligible(self, clients: Ints) -> Bools:
        """Say of each of some clients whether it is eligible: (n,). Costs O(n)."""
        return self._eligibility.eligible(self._indices(clients))

    def all_eligible(self) -> Bools:
        """Return the mask (N,) of eligible clients; costs O(N)."""
        return self._eligibility.all_eligible()

    def possible(self) -> Bits | None:
        """Return a set of clients in which are all who are eligible, as `Eligibility.possible`."""
        return self._eligibility.possible()

    def weight(self, clients: Ints) -> Floats:
        """Return p_i (n,): positive; of all clients they sum to 1."""
        return self._population.weight[self._indices(clients)]

    def last_round(self, clients: Ints) -> Ints:
        """Return the round (n,) in which each was last selected, of a buffered server the version; -1 for never."""
        return self._last_round(self._indices(clients))

    def speed(self, clients: Ints) -> Floats:
        """Return how fast the devices are (n,): a session takes the scenario's lengths divided by it."""
        return self._population.speed[self._indices(clients)]

    def group(self, clients: Ints) -> Ints:
        """Return the clients' groups (n,), counted from 0 in the order of the scenario's ``population``."""
        return self._population.group[self._indices(clients)]

    def _indices(self, clients: Ints) -> Ints:
        if not self._checked:
            return clients
        asked = np.asarray(clients)
        # As numbers without a sign, negative ones are too large.
        if asked.size and (asked.dtype.kind not in "iu" or asked.astype(np.uint64, copy=False).max() >= len(self)):
            raise ValueError(f"clients are whole numbers from 0 to {len(self) - 1:,}, and these are {asked}")
        return asked if asked.size else asked.astype(np.int64)


@runtime_checkable
class Remembering(Protocol):
    """A law that remembers something of earlier selections."""

    def state(self) -> Memory:
        """Return what it remembers."""
        ...

    def restore(self, state: Memory, /) -> None:
        """Go on from what `state` returned."""
        ...


class Remembers:
    """What remembers some of its attributes, arrays or numbers: state and restore by their names."""

    remembered: ClassVar[tuple[str, ...]]

    def state(self) -> Memory:
        """Return all that is needed to go on, which may change when it does: it is to be written down at once."""
        return {name: np.asarray(getattr(self, name)) for name in self.remembered}

    def restore(self, state: Memory) -> None:
        """Go on from what `state` returned."""
        for name in self.remembered:
            setattr(self, name, state[name].copy() if state[name].ndim else state[name].item())


@dataclass(frozen=True)
class Feedback:
    """What came of a round that has closed, or of a version of a buffered server, where a client may occur twice."""

    round: int
    lasted_s: float  # from its opening to its close
    clients: Ints  # (n,) whose sessions ended, or were given up at the close
    took_s: Floats  # (n,) how long each session lasted until then
    reported: Bools  # (n,) whose report was taken; what follows is NaN for the others
    losses: Floats  # (n,) mean loss of the client's samples, under the model that it downloaded; at least 0
    rms_losses: Floats  # (n,) root of the mean of their squares
    norms: Floats  # (n,) Euclidean norm of the client's update; NaN where nobody told it
    samples: Floats  # (n,) how many samples the client has; ones where nobody told it


class Informed(Protocol):
    """A law that needs to know the outcome of the rounds before: it has this method."""

    def take_feedback(self, feedback: Feedback, /) -> None:
        """Take the outcome of a round, before the next selection."""
        ...


class Law(Protocol):
    """A rule by which the server selects among the eligible clients.

    Any class with this method is a selection law; it need not inherit from this one. A scenario names it as ``kind:
    my_package.my_module:MyLaw``, and it is then called with the scenario's options as keyword arguments. A constructor
    that has arguments of these names is also given ``weights``, the clients' p_i (N,), read-only; ``cohort``, the
    clients of a full round, or the places of a buffered server; and ``streams``, the run's draws by their `Purpose`.

    Two attributes of the class are optional. ``theory`` is a `SelectionRule`, which says what theory asks, or the name
    of a built-in law that selects alike; without it no theory covers the log. ``finds_shortage`` says that the law,
    asked for more clients than are eligible, returns all who are; the engines then ask it straight away instead of
    counting.

    What is chosen must follow from the request and the candidates alone, or from what the law remembers of earlier
    selections. It then has two more methods: ``state()`` returns that as a mapping of names to arrays, which is kept
    with a run, and ``restore(state)`` goes on from it. Without them it has forgotten it when a run is resumed. A law
    that goes by what the clients told has ``take_feedback(feedback)`` too, see `Informed` and `Feedback`.
    """

    def select(self, request: Request, candidates: Candidates, /) -> Ints:
        """Return `request.count` distinct eligible clients, in the order in which they are chosen.

        At least so many are eligible. The order is that of ``position`` in the log.
        """
        ...
