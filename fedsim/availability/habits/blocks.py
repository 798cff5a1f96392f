"""Blocks of clients who are looked at together: vector instructions draw, look up and compare for eight at a time.

Compilers find these only in loops without branches over numbers that surely do not overlap: so all that is known of a
block stands in rows of one array, at distances that are known when it is compiled.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients
from fedsim.availability.habits.bounds import BINS
from fedsim.availability.habits.persons import COLUMNS
from fedsim.common.arrays import Floats
from fedsim.common.compiled import compiled
from fedsim.common.keyed_loops import uniform_at, word_of

SIZE = 64
_ROWS = COLUMNS + 12
CHANCE, DRAW, MIDDLE, OFF, MIDDLE_2, OFF_2, SURE, MAY, LEAVE_FIRST, LEAVE_LAST, BACK_FIRST, BACK_LAST = (
    SIZE * row for row in range(COLUMNS, _ROWS)
)
"""Where rows begin that come after those of the persons' columns: a chance that depends on the day; a draw; what
belongs to two draws by their tables, and how far it may be off; and what whoever asks finds out."""


class Block(NamedTuple):
    """Some clients.

    Attributes
    ----------
    words
        (SIZE,) their parts of the key.
    rows
        (rows * SIZE,) the columns of the persons, then the other rows.
    """

    words: NDArray[np.uint64]
    rows: Floats


@compiled
def new_block() -> Block:
    """Return a block of nobody."""
    return Block(np.zeros(SIZE, np.uint64), np.zeros(_ROWS * SIZE))


@compiled
def fill(block: Block, clients: Clients, begin: int, key: np.uint64, people: Floats) -> int:
    """Put in the clients from a place on, as many as there are room for and left, and return how many these are.

    What stands in the rest of the block has no meaning. The memory of all is waited for together.
    """
    count = min(SIZE, len(clients) - begin)
    for place in range(count):
        person = people[clients[begin + place]]
        for column in range(COLUMNS):
            block.rows[column * SIZE + place] = person[column]
        block.words[place] = word_of(clients[begin + place], key)
    return count


@compiled
def put(block: Block, row: int, value: float) -> None:
    """Let one value stand in a row."""
    for place in range(SIZE):
        block.rows[row + place] = value


@compiled
def draw(block: Block, key: np.uint64) -> None:
    """Make the draws at an index, given its part of the key."""
    words, rows = block
    for place in range(SIZE):
        rows[DRAW + place] = uniform_at(words[place] ^ key)


@compiled
def look_up(block: Block, key: np.uint64, table: Floats, second: bool) -> None:
    """Make draws, and look up what belongs to them by a table, and how far that may be off.

    It goes to the `second` pair of rows, or to the first.
    """
    rows = block.rows
    draw(block, key)
    middle, off = (MIDDLE_2, OFF_2) if second else (MIDDLE, OFF)
    for place in range(SIZE):
        scaled = rows[DRAW + place] * BINS
        line = int(scaled)
        rows[middle + place] = table[line, 0] + table[line, 1] * (scaled - line)
        rows[off + place] = table[line, 2]
