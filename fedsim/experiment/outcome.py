"""The tables and figures of a run."""

from dataclasses import dataclass, fields

import polars as pl

from fedsim.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The figures of one run, and its tables: each ``NAME.parquet`` of ``docs/run-directory.md``."""

    scenario: Scenario
    replicate: int
    metrics: dict[str, float]  # `fedsim.analysis.metrics.describe` says what each means
    simulated_s: float
    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame  # a scan of their file if they do not fit into memory
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None = None  # None if nothing is trained
    transitions: pl.DataFrame | None = None  # None if no devices are chosen
    convergence: pl.DataFrame | None = None  # None if no study is asked for

    def by_name(self) -> dict[str, pl.DataFrame | pl.LazyFrame]:
        """Return the tables that there are."""
        named = {name: getattr(self, name) for name in (*ALWAYS, *AT_TIMES)}
        return {name: table for name, table in named.items() if table is not None}


ALWAYS = ("rounds", "participations", "clients", "gauges")
"""Names of the tables that every run has."""
AT_TIMES = tuple(field.name for field in fields(Outcome) if field.default is None)
"""Names of those that some runs have."""
