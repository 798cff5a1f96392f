"""Laws of times as tables of quantiles in whole milliseconds, for drawing from 32 random bits by linear interpolation.

A table has 1,024 bins for the unit interval, and as many for its first and last 64th and its first and last 4,096th.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats
from fedsim.common.compiled import inlined

LawTables = NDArray[np.int32]
"""(laws * TABLE_SIZE,) tables one after the other."""
_BINS, _FINER = 1 << 10, 1 << 6
_ALL, _TAIL, _END = 1 << 32, (1 << 32) // _FINER, (1 << 32) // _FINER**2
_LOWER_TAIL, _UPPER_TAIL, _LOWER_END, _UPPER_END = ((_BINS + 1) * part for part in range(1, 5))
TABLE_SIZE: Final = 5 * (_BINS + 1)
_SMALLEST = 2.0**-33  # half the distance of two draws


def quantile_table(quantile: Callable[[Floats], Floats], longest_s: float) -> LawTables:
    """Return the table (TABLE_SIZE,) of a law.

    Parameters
    ----------
    quantile
        Values in seconds that are exceeded with probability 1 - p, for p (n,) strictly between 0 and 1.
    longest_s
        Larger values are cut there; what is left must be below 2**31 milliseconds.
    """
    even = np.arange(_BINS + 1) / _BINS
    tail, end = even / _FINER, even / _FINER**2
    p = np.concatenate([even, tail, 1.0 - tail[::-1], end, 1.0 - end[::-1]])
    values = quantile(np.clip(p, _SMALLEST, 1.0 - _SMALLEST))
    return np.rint(1000.0 * np.minimum(values, longest_s)).astype(np.int32)


@inlined
def law_value(tables: LawTables, law: int, bits: int) -> int:
    """Return the value of the law whose table begins at `law`, from 32 random bits."""
    begin, digits = 0, 22
    if not _TAIL <= bits < _ALL - _TAIL:
        if _END <= bits < _ALL - _END:
            begin, digits = _LOWER_TAIL, 16
            if bits >= _TAIL:
                begin, bits = _UPPER_TAIL, bits - (_ALL - _TAIL)
        else:
            begin, digits = _LOWER_END, 10
            if bits >= _TAIL:
                begin, bits = _UPPER_END, bits - (_ALL - _END)
    at = law + begin + (bits >> digits)
    low = int(tables[at])
    return low + ((int(tables[at + 1]) - low) * (bits & ((1 << digits) - 1)) >> digits)
