"""Whether a chain whose clients have separations of their own is seen to stall: tried out, for want of a proof."""

from itertools import islice

from fedsim.common.errors import ChainError
from fedsim.theory.question import Question
from fedsim.theory.replicas import rounds_of

_REPLICAS, _ROUNDS, _CELLS = 8, 1000, 2_000_000
_SEED = 0


def stall_caveats(units: Question) -> tuple[str, ...]:
    """Say what an answer that does not see stalls leaves out; nothing, where none can happen.

    Parameters
    ----------
    units
        A reduced question.

    Notes
    -----
    Eight replicas are followed from all ready, for up to 1,000 rounds, fewer beyond 250 clients.
    """
    rounds = units.separations
    if units.law in {"bernoulli", "cyclic"} or (rounds == rounds[0]).all():
        return ()
    tried = max(1, min(_ROUNDS, _CELLS // (_REPLICAS * units.clients)))
    passed = 0
    try:
        for _ in islice(rounds_of(units, range(_REPLICAS), _SEED), tried):
            passed += 1
    except ChainError:
        return (
            f"this chain stalls: after {passed:,} rounds too few clients were ready in one of {_REPLICAS} replicas, "
            "and none of those who wait ever comes back; pi is that of a chain that has not stalled",
        )
    return (
        f"separations differ, and such a chain may stall; none of {_REPLICAS} replicas did in {tried:,} rounds, and pi "
        "is that of a chain that never does",
    )
