"""What comes of a run: its tables, which of them a run may lack, and its figures."""

from dataclasses import dataclass, fields

import polars as pl

from fedsim.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """All that comes of one run: figures, and tables, each ``NAME.parquet`` as told in ``docs/run-directory.md``.

    Attributes
    ----------
    scenario, replicate
        What was run, and which repetition.
    metrics
        Figures by name; `fedsim.analysis.metrics.describe` says what each means.
    simulated_s
        Simulated seconds from start to end.
    rounds, participations, clients, gauges
        Of every run; participations that do not fit into the memory are a scan of their file.
    learning
        Loss and gradient norm of each optimizer by round; None if the scenario trains nothing.
    transitions
        When the conditions of chosen devices changed; None if the scenario chooses none.
    convergence
        The table of `fedsim.theory.prediction.convergence_table`; None if the scenario asks for no such study.
    """

    scenario: Scenario
    replicate: int
    metrics: dict[str, float]
    simulated_s: float
    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None = None
    transitions: pl.DataFrame | None = None
    convergence: pl.DataFrame | None = None

    def by_name(self) -> dict[str, pl.DataFrame | pl.LazyFrame]:
        """Return the tables that there are."""
        named = {name: getattr(self, name) for name in (*ALWAYS, *AT_TIMES)}
        return {name: table for name, table in named.items() if table is not None}


ALWAYS = ("rounds", "participations", "clients", "gauges")
"""Names of the tables that every run has."""
AT_TIMES = tuple(field.name for field in fields(Outcome) if field.default is None)
"""Names of those that some runs have."""
