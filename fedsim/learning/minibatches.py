"""The minibatches of a log, drawn for several rounds at a time: who takes part is known before anyone trains."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.common.keyed import Stream
from fedsim.learning.cohorts import Reports
from fedsim.learning.local_training import LocalWork

_DRAWS = 1 << 14  # at a time: enough to make little of what each call costs, few enough for a processor's cache


def drawn_ahead(
    turns: Iterable[Reports], rounds: Ints, work: LocalWork, draws: Stream
) -> Iterator[tuple[Reports, Ints | None]]:
    """Return the reports of each row of a log with the minibatches of their clients' steps, row after row.

    Parameters
    ----------
    turns
        The reports that count for each row, row after row.
    rounds
        (T,) number of each round or version.
    work, draws
        What a client does, and where its samples come from.

    Returns
    -------
    Reports, and the samples of each step as `LocalWork.minibatches` draws them for these clients alone, shape
    (K, B, batch size), None for full gradients.
    """
    if work.batch_size is None:
        return zip(turns, repeat(None))
    return _in_chunks(turns, rounds, work, draws, work.steps * work.batch_size)


def _in_chunks(
    turns: Iterable[Reports], rounds: Ints, work: LocalWork, draws: Stream, of_each: int
) -> Iterator[tuple[Reports, Ints | None]]:
    """Draw for as many rows together as make the draws at a time, each client making so many."""
    together, first, count = list[Reports](), 0, 0
    for row, reports in enumerate(turns):
        together.append(reports)
        count += len(reports.clients)
        if count * of_each >= _DRAWS:
            yield from _drawn(together, first, rounds, work, draws)
            together, first, count = [], row + 1, 0
    if together:
        yield from _drawn(together, first, rounds, work, draws)


def _drawn(
    together: Sequence[Reports], first: int, rounds: Ints, work: LocalWork, draws: Stream
) -> Iterator[tuple[Reports, Ints | None]]:
    """Yield the reports of rows from the first on, with minibatches that are drawn in one call."""
    clients, begun = list[Ints](), list[Ints]()
    for row, reports in enumerate(together, first):
        clients.append(reports.clients)
        # Two sessions of a client that began with the same version draw apart: the second as a client past the last.
        if reports.repeats is not None:
            clients[-1] = clients[-1] + work.problem.clients * reports.repeats
        begun.append(np.full(len(reports.clients), row) if reports.begun is None else reports.begun)
    minibatches = work.minibatches(draws, rounds[np.concatenate(begun)], np.concatenate(clients))
    end = 0
    for reports in together:
        own = slice(end, end := end + len(reports.clients))
        yield reports, None if minibatches is None else minibatches[:, own]
