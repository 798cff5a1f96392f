"""Where each client lives: time zones from their sources, as codes."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.keyed import Stream
from fedsim.population.files import read_words
from fedsim.population.members import Members
from fedsim.scenario.civil import check_time_zone
from fedsim.scenario.sources import Column, ConstantZone, ListedZones, ZoneMixture

Zones = ConstantZone | ListedZones | ZoneMixture | Column
Codes = dict[str, int]
"""Names that have occurred, each with its code: 0, 1, ... in the order in which they did."""


def zones(source: Zones, members: Members, draws: Stream, codes: Codes) -> NDArray[np.int16]:
    """Return the code (n,) of the time zone of each client of a group; `codes` takes the names that are new.

    Raises
    ------
    ValueError
        If there are not n names, or one is unknown; the message says which.
    """
    match source:
        case ConstantZone():
            return np.full(len(members), _code(source.value, codes), dtype=np.int16)
        case ZoneMixture():
            of_part = np.array([_code(part.source, codes) for part in source.parts], dtype=np.int16)
            return of_part[members.parts(source, [part.share for part in source.parts], draws)]
        case ListedZones():
            names = pl.Series(source.values, dtype=pl.String)
        case Column():
            names = read_words(source, members.locate)
    if len(names) != len(members):
        raise ValueError(f"has {len(names):,} values for {len(members):,} devices")
    known = names.unique(maintain_order=True)
    for name in known.to_list():
        try:
            check_time_zone(name)
        except ValueError as error:
            raise ValueError(f"value {int((names == name).arg_max() or 0)}: {error}") from None
    of_name = [_code(name, codes) for name in known.to_list()]
    return names.replace_strict(known, of_name, return_dtype=pl.Int16).to_numpy()


def _code(name: str, codes: Codes) -> int:
    return codes.setdefault(name, len(codes))
