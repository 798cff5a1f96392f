"""The tables and sentences of docs/studies.md on private federations, from the sweeps that are kept in ``sweeps/``."""

import json
import textwrap

import polars as pl
import which_separation
from measurements import HERE, signed, with_error
from tables import NAMES, Kept, table

from fedsim.report.finished_sweep import Estimates, FinishedSweep, estimates, read_sweep
from fedsim.report.formatting import listing

PARTS = ("bias_loss", "participation_noise_loss", "privacy_noise_loss")


def _sweep(name: str) -> FinishedSweep:
    return read_sweep(HERE / "sweeps" / name)


def which_separation_table(_kept: Kept) -> str:
    """Return the table of the loss above the optimum and its parts by separation, with what is promised."""
    sweep = _sweep("which-separation")
    promised = [estimates(sweep, f"privacy.{name}").mean for name in ("separation", "most", "sensitivity")]
    head = ["R", "rounds a day", "b, k promised", "sensitivity"]
    columns = []
    for method in which_separation.KINDS:
        columns += [_pairs(estimates(sweep, f"learning.{method}.above_optimum")), _parts(sweep, method)]
        head += [NAMES[method], "bias, participation, privacy"]
    rows = []
    for row, separation in enumerate(which_separation.SEPARATIONS):
        pace = estimates(sweep, "rounds.per_day").mean[row]
        b, k, sensitivity = (float(each[row]) for each in promised)
        cells = [str(separation), f"{pace:.0f}", f"{b:.0f}, {k:.0f}", f"{sensitivity:.1f}"]
        rows.append([*cells, *(column[row] for column in columns)])
    return table(head, rows)


def _pairs(found: Estimates) -> list[str]:
    return [with_error(pair, 3) for pair in zip(found.mean, found.half, strict=True)]


def _parts(sweep: FinishedSweep, method: str) -> list[str]:
    means = [estimates(sweep, f"learning.{method}.{part}").mean for part in PARTS]
    return [", ".join(signed(round(float(value), 3) + 0.0, 3) for value in row) for row in zip(*means, strict=True)]


def which_separation_tuning(_kept: Kept) -> str:
    """Return the sentence that says where the best of the grid lies at its edge."""
    grids = json.loads(which_separation.KEPT.read_text(encoding="utf-8"))["grids"]
    edges = []
    for method in which_separation.KINDS:
        best = {r: which_separation.chosen(grids[str(r)], method) for r in which_separation.SEPARATIONS}
        for which, (values, name) in enumerate(((which_separation.STEPS, "step"), (which_separation.CLIPS, "clip"))):
            for value, word in ((min(values), "smallest"), (max(values), "largest")):
                at = [str(r) for r, each in best.items() if each[which] == value]
                if at:
                    edges.append(f"{NAMES[method]}'s {word} {name} (R = {listing(at)})")
    text = f"Where an edge of the grid is the best, something beyond it might be better still: {listing(edges)}."
    return "\n" + "\n".join(textwrap.wrap(text, 128)) + "\n\n"


def which_cooldown_table(_kept: Kept) -> str:
    """Return the table of what cool-downs by the clock achieve and promise."""
    sweep = _sweep("which-cooldown")
    (name,) = sweep.parameters
    figures = {
        metric: estimates(sweep, metric).mean
        for metric in (
            *("rounds.per_day", "participation.separation.least", "participation.most", "privacy.separation"),
            *("privacy.most", "privacy.sensitivity", "participation.l1_uniform"),
        )
    }
    rows = []
    for row, length in enumerate(sweep.points[name].to_list()):
        pace, b, k, promised_b, promised_k, sensitivity, l1 = (float(each[row]) for each in figures.values())
        cells = [f"{pace:.0f}", f"{b:.0f}", f"{k:.0f}", f"{promised_b:.0f}, {promised_k:.0f}", f"{sensitivity:.1f}"]
        rows.append([f"{length[:-1]} {length[-1]}", *cells, f"{100 * l1 / 2:.1f} %"])
    head = ["cool-down", "rounds a day", "b achieved", "k achieved", "b, k promised", "sensitivity", "misplaced turns"]
    return table(head, rows)


def which_separation_targets(_kept: Kept) -> str:
    """Return the sentence on how long each optimizer takes to its target, and in how many of the runs it gets there."""
    sweep = _sweep("which-separation")
    seeds, ways = len(set(sweep.runs["seed"].to_list())), []
    for method in which_separation.KINDS:
        metric, told = f"learning.{method}.time_to_target", []
        for row, hours in enumerate(estimates(sweep, metric).mean / 3600):
            reached = len(sweep.results.filter(pl.col("metric") == metric, pl.col("point") == row))
            if reached:
                some = f" (in {reached} of {seeds} runs)" if reached < seeds else ""
                told.append(f"{hours:.0f} h at R = {which_separation.SEPARATIONS[row]}{some}")
        ways.append(f"{NAMES[method]} after {listing(told)}")
    text = f"A loss of at most 0.1 above the optimum is reached by {'; by '.join(ways)}; and nowhere else."
    return "\n" + "\n".join(textwrap.wrap(text, 128)) + "\n\n"
