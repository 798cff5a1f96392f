"""The tables of a run: their names, which of them a run may lack, and what puts them together."""

from dataclasses import dataclass, fields

import polars as pl


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """All tables of one run, each in the file ``NAME.parquet`` of its directory; columns in ``docs/run-directory.md``.

    Attributes
    ----------
    rounds, participations, clients, gauges
        Of every run; participations that do not fit into the memory are a scan of their file.
    learning
        Loss and gradient norm of each optimizer by round; None if the scenario trains nothing.
    transitions
        When the conditions of chosen devices changed; None if the scenario chooses none.
    convergence
        The table of `fedsim.theory.prediction.convergence_table`; None if the scenario asks for no such study.
    """

    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None = None
    transitions: pl.DataFrame | None = None
    convergence: pl.DataFrame | None = None

    def by_name(self) -> dict[str, pl.DataFrame | pl.LazyFrame]:
        """Return the tables that there are, by the name of their file."""
        named = {name: getattr(self, name) for name in (*ALWAYS, *AT_TIMES)}
        return {name: table for name, table in named.items() if table is not None}


ALWAYS = tuple(field.name for field in fields(Tables) if field.default is not None)
"""Names of the tables that every run has."""
AT_TIMES = tuple(field.name for field in fields(Tables) if field.default is None)
"""Names of those that some runs have."""
