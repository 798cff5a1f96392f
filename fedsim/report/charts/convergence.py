"""How fast the law of the participants approaches its limit, for several separations."""

from collections.abc import Iterator

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fedsim.report.charts.marks import DOTTED, INK, finish, linear, logarithmic, series_color
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, number
from fedsim.report.tables import Table, thinned

LEAST = 1e-4  # smaller distances are drawn at this one: they cannot be measured, and would press the others together

_NEAR = 0.01  # the start is forgotten from where on the distance is no longer than this


class ConvergenceChart:
    """How fast the law of the participants approaches its limit, for several separations."""

    title, section = "Forgetting the start", "bias"

    def prepare(self, run: FinishedRun) -> pl.DataFrame | None:
        return run.convergence

    def finding(self, table: pl.DataFrame) -> str:
        words = []
        for name, each in _approaches(table).items():
            far = np.flatnonzero(each["tv"].to_numpy() > _NEAR)
            settled = 0 if not len(far) else int(far[-1]) + 1
            words.append(f"{name}: {count(each['round'][settled]) if settled < len(each) else 'not yet'}")
        return f"Rounds until the start is forgotten (TV below 0.01). {', '.join(words[:4])}"

    def notes(self, table: pl.DataFrame) -> Iterator[str]:
        yield (
            "TV distance between the law of who takes part in a round, all clients being ready at round 0, and the law "
            "in the long run. It is the law of one round's participant, not of the chain's state: it can fall faster "
            "than the chain mixes, and it can swing. Distances below 0.0001 are drawn at 0.0001."
        )
        if any(not each["noise_floor"].null_count() for each in _approaches(table).values()):
            floor = "what sampling noise alone would give where the law was estimated by simulated replicas"
            yield f"Dotted: {floor}."

    def description(self, table: pl.DataFrame) -> str:
        data = _approaches(table)
        parts = [f"{name} from {number(each['tv'][0])} to {number(each['tv'][-1])}" for name, each in data.items()]
        rounds = len(next(iter(data.values())))
        return f"TV distance from the long-run law over {count(rounds, 'round')}: at {'; at '.join(parts)}."

    def table(self, table: pl.DataFrame) -> Table:
        data = _approaches(table)
        columns = [list(map(number, each["tv"])) for each in data.values()]
        rows = list(zip(map(count, next(iter(data.values()))["round"]), *columns, strict=True))
        return thinned("TV distance from the long-run law", ("Round", *data), rows)

    def draw(self, table: pl.DataFrame, axes: Axes) -> None:
        """Draw one curve for each separation, with its noise floor dotted."""
        entries: list[tuple[Line2D, str]] = []
        for index, (name, each) in enumerate(_approaches(table).items()):
            color = series_color(index)
            (curve,) = axes.plot(each["round"], np.maximum(each["tv"].to_numpy(), LEAST), color=color)
            entries.append((curve, name))
            if not each["noise_floor"].null_count():
                noise = each["noise_floor"].to_numpy()
                floor = np.where(noise < LEAST, np.nan, noise)
                axes.plot(each["round"], floor, color=color, linestyle=DOTTED, linewidth=1)
        if bool((table["tv"] > LEAST).any()):
            logarithmic(axes, "y")
        else:
            axes.axhline(0, color=INK, linewidth=1)
        linear(axes, "x", whole=True)
        finish(axes, "round", "TV distance from the long-run law", entries)


def _approaches(table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Part the table of a convergence study by separation, in its order: ``R = ...`` -> its rows, round by round."""
    parts = table.partition_by("separation", as_dict=True, maintain_order=True)
    return {f"R = {separation}": part.sort("round") for (separation,), part in parts.items()}
