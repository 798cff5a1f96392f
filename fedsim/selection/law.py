"""What a selection law is: a class with one method, which is asked whom to select among the eligible clients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, Stream
from fedsim.selection.candidates import Candidates

Streams: TypeAlias = Callable[[Purpose], Stream]
"""A run's draws by their purpose."""
Memory: TypeAlias = dict[str, NDArray[Any]]
"""What a law remembers: arrays by name."""


@dataclass(frozen=True)
class Request:
    """One selection.

    Attributes
    ----------
    number
        How many selections there were before; in synchronous rounds that of the round. The key of the draws.
    count
        Clients to choose, at least 1.
    round
        Index of the round; of the version, where the server is buffered, which may select several times in one.
    draws
        Where `uniforms` come from.
    after
        The client chosen last in the run, -1 before the first: where `cyclic` goes on.
    everyone
        (count,) all who are eligible, in the order of their indices, where a buffered server has more places than that:
        they are all chosen, and the law says in which order. None otherwise.
    """

    number: int
    count: int
    round: int
    draws: Stream
    after: int = -1
    everyone: Ints | None = None

    def uniforms(self, clients: ArrayLike, index: int = 0) -> Floats:
        """Return numbers drawn uniformly from (0, 1), shape (n,), for clients (n,) in this selection.

        They depend on the seed, the replicate, the selection, the client and `index` alone, whoever else is asked
        about; another `index`, from 0 to 2**20, gives others.
        """
        return self.draws.uniforms(clients, (index << 40) + self.number)


@runtime_checkable
class Remembering(Protocol):
    """A law that remembers something of earlier selections."""

    def state(self) -> Memory:
        """Return what it remembers."""
        ...

    def restore(self, state: Memory, /) -> None:
        """Go on from what `state` returned."""
        ...


class Law(Protocol):
    """A rule by which the server selects among the eligible clients.

    Any class with this method is a selection law; it need not inherit from this one. A scenario names it as ``kind:
    my_package.my_module:MyLaw``, and it is then called with the scenario's options as keyword arguments. A constructor
    that has arguments of these names is also given ``weights``, the clients' p_i (N,), read-only; ``cohort``, the
    clients of a full round, or the places of a buffered server; and ``streams``, the run's draws by their `Purpose`.

    Two attributes of the class are optional. ``theory`` is the name under which theory knows the law, one of those of
    the built-in laws; without it no theory covers the log. ``finds_shortage`` says that the law, asked for more clients
    than are eligible, returns all who are; the engines then ask it straight away instead of counting.

    What is chosen must follow from the request and the candidates alone, or from what the law remembers of earlier
    selections. It then has two more methods: ``state()`` returns that as a mapping of names to arrays, which is kept
    with a run, and ``restore(state)`` goes on from it. Without them it has forgotten it when a run is resumed.
    """

    def select(self, request: Request, candidates: Candidates, /) -> Ints:
        """Return `request.count` distinct eligible clients, in the order in which they are chosen.

        At least so many are eligible. The order is that of ``position`` in the log.
        """
        ...
