"""What the slider of a sweep page stops at: the points that were run, and what was measured at each."""

from collections.abc import Mapping

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.report.finished_run import Json
from fedsim.report.finished_sweep import FinishedSweep, estimates, is_separation, point_names
from fedsim.report.sweep_axes import axis_of, followed
from fedsim.report.sweep_figures import L1, PACE


def measured_points(sweep: FinishedSweep) -> Mapping[str, Json] | None:
    """Return the data of the section "What if" of a sweep page; None where fewer than two settings have a result.

    The slider goes along one axis; the settings that share the values of all other parameters are one choice. Where no
    two settings differ along that axis alone, it goes through all of them in order.
    """
    bias, pace, along = estimates(sweep, L1), estimates(sweep, PACE), axis_of(sweep)
    known = np.isfinite(bias.mean)
    if along is None or known.sum() < 2:
        return None
    x, choices = along.x, list(followed(sweep, along, known))
    labels = tuple(along.at(place) for place in x.tolist())
    numeric, name, axis = not along.ticks, along.name if len(along.varying) == 1 else "", along.label
    if all(len(rows) < 2 for _, rows in choices):
        labels, choices = point_names(sweep), [("", np.flatnonzero(known))]
        numeric, name, axis = False, "", "settings of the sweep"
    seeds = dict(sweep.results.filter(metric=L1).group_by("point").len().iter_rows())
    numbers = sweep.points["point"].to_list()

    def point(row: int, place: float) -> Json:
        return {
            "x": place,
            "label": labels[row],
            "misplaced": float(bias.mean[row]) / 2,
            "half": _known(bias.half / 2, row),
            "pace": _known(pace.mean, row),
            "pace_half": _known(pace.half, row),
            "seeds": int(seeds[numbers[row]]),
        }

    found: list[Json] = []
    for choice, rows in choices:
        places = x[rows] - x[rows[0]] if numeric else np.arange(len(rows), dtype=np.float64)
        points = [point(int(row), float(place)) for row, place in zip(rows, places, strict=True)]
        found.append({"name": choice, "points": points})
    question = f"What if {axis} were" if name else "What if another setting were chosen"
    if name and is_separation(along.parameters[0]):
        question = "What if clients waited R rounds between two turns?"
    return {"name": name, "axis": axis, "question": question, "choices": found}


def _known(values: Floats, row: int) -> float | None:
    return float(values[row]) if np.isfinite(values[row]) else None
