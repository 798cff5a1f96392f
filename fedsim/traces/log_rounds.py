"""The rounds of a log, and what its server does: cohort, over-selection, deadline and pause, with the evidence."""

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from fedsim.common.outcomes import COUNTED_OUTCOMES, SESSION_OUTCOMES
from fedsim.scenario.units import format_duration
from fedsim.traces.logs import SessionLog

_ROUND_S = (3600.0, 900.0, 300.0, 60.0, 30.0, 10.0, 5.0, 1.0, 0.1, 0.01)
_IN_TIME, _CUT = (
    [name for name, each in SESSION_OUTCOMES.items() if each.how in hows] for hows in ({"reported", "dropped"}, {"cut"})
)
_EQUAL, _RARE = 1e-3, 2e-3  # lengths that differ by this share are equal; such a share of rounds is so by chance
_FEW = 0.02  # the shortest times from a close to the next selection are pauses without a wait for clients


def rounds_told(log: SessionLog, server: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rounds that the sessions of a log tell; without a column ``round``, one for each instant of selection.

    Columns: ``round``, ``selected_s``, ``closed_s``, the numbers ``selected``, of `COUNTED_OUTCOMES` and ``aborted``,
    and ``outcome``. A round closes when it aborts what still runs; with late sessions and none aborted, at the
    ``deadline`` of the `server`; else with its last report or drop-out.
    """
    aborted = pl.col("outcome").is_in(_CUT)
    rounds = (
        numbered(log)
        .group_by("round")
        .agg(
            pl.col("selected_s").min(),
            pl.len().cast(pl.Int64).alias("selected"),
            *((pl.col("outcome") == how).sum().cast(pl.Int64).alias(how) for how in COUNTED_OUTCOMES),
            aborted=aborted.sum().cast(pl.Int64),
            failed=(pl.col("outcome") == "failed").any(),
            aborted_s=pl.col("ended_s").filter(aborted).max(),
            last_s=pl.col("ended_s").filter(pl.col("outcome").is_in(_IN_TIME)).max(),
        )
    )
    if log.buffered:  # reports count for the version that took them
        at = pl.col("round") + pl.col("staleness").fill_null(0).cast(pl.Int32)
        of_version = numbered(log).filter(outcome="reported").group_by(at.alias("round"))
        taken = of_version.agg(pl.len().cast(pl.Int64).alias("taken"), taken_s=pl.col("ended_s").max())
        rounds = rounds.join(taken, on="round", how="full", coalesce=True).sort("round")
        rounds = rounds.with_columns(
            pl.col("taken").fill_null(0).alias("reported"),
            pl.col("selected", "aborted", *(name for name in COUNTED_OUTCOMES if name != "reported")).fill_null(0),
            pl.coalesce("selected_s", pl.col("taken_s").shift(), "taken_s"),
            aborted_s=pl.col("taken_s"),
        )
    over_s, late = log.table["ended_s"].max(), (pl.col("late") + pl.col("aborted") > 0) & (not log.buffered)
    out_of_time = pl.col("selected_s") + (server.get("deadline_s") or 0.0)
    closed = pl.coalesce(
        "aborted_s", pl.when(late).then(pl.max_horizontal(out_of_time, "last_s")), "last_s", "selected_s"
    )
    stopped = (pl.col("aborted_s") >= over_s) & (pl.col("reported") < server.get("cohort", 1))
    full = pl.col("reported") >= server.get("buffer", server.get("cohort", 1))
    if not log.buffered:  # a round that was cut before its deadline had what it wanted, whatever rows the log has lost
        full |= pl.col("aborted_s") - pl.col("selected_s") < server.get("deadline_s", math.inf) * (1 - _EQUAL)
    ended = pl.when("failed").then(pl.lit("failed")).when(stopped).then(pl.lit("stopped"))
    outcome = ended.when(full).then(pl.lit("target")).when(late).then(pl.lit("deadline")).otherwise(pl.lit("exhausted"))
    return rounds.sort("round").with_columns(closed_s=closed, outcome=outcome)


def numbered(log: SessionLog) -> pl.DataFrame:
    """Return the sessions with a number of the round, by the instant of selection where the log has none."""
    number = pl.col("round") if "round" in log.table.columns else pl.col("selected_s").rank("dense") - 1
    return log.table.with_columns(round=number.cast(pl.Int32))


def server_of(log: SessionLog) -> tuple[dict[str, Any], list[str]]:
    """Return what a log tells of its server, as in a scenario and with ``deadline_s``, and lines with the evidence."""
    table = log.table.with_columns(length_s=pl.col("ended_s") - pl.col("selected_s"))
    server, notes = dict[str, Any](), list[str]()
    late, taken = (table.filter(outcome=how)["length_s"] for how in ("late", "reported"))
    if len(late):
        least, most = float(late.min() or 0.0), float(late.max() or 0.0)  # type: ignore[arg-type]
        longest = float(taken.filter(taken <= least).max() or 0.0)  # type: ignore[arg-type]
        server["deadline_s"] = most if log.buffered else _roundest(longest, least)
        server["deadline"] = format_duration(round(server["deadline_s"], 3))
        why = (
            "when sessions are given up"
            if log.buffered
            else f"no report took longer than {longest:.6g} s, and no late one less than {least:.6g} s"
        )
        notes.append(f"deadline {server['deadline']}: {why}")
    if log.buffered:
        return {"mode": "buffered", **_buffered(table), **server}, notes
    if "round" not in table.columns:
        notes.append("the log has no column round: the cohort is a placeholder")
        return {"cohort": 1, **server}, notes
    of_round = rounds_told(log, {"cohort": 1, **server})
    wanted = _usual(sizes := of_round.filter(pl.col("selected") > 0)["selected"])
    filled = of_round.filter((pl.col("aborted") > 0) & ~pl.col("outcome").is_in(["stopped", "failed"]))
    if "deadline_s" not in server and (cut := _cut_at(filled, float(taken.max() or 0.0))) is not None:  # type: ignore[arg-type]
        server["deadline_s"], filled = cut
        server["deadline"] = format_duration(round(server["deadline_s"], 3))
        notes.append(f"deadline {server['deadline']}: rounds were cut after this time, and no report took longer")
    cohort = min(_usual(filled["reported"]) if len(filled) else wanted, wanted)
    share = float((sizes == wanted).mean() or 0.0)  # type: ignore[arg-type]
    notes.append(f"selected {wanted:,} in {share:.0%} of {len(of_round):,} rounds")
    if len(filled):
        share = float((filled["reported"] == cohort).mean() or 0.0)  # type: ignore[arg-type]
        notes.append(
            f"cohort {cohort:,}: the server cut the rest after so many reports in {share:.0%} of {len(filled):,} rounds"
        )
    over = {} if wanted == cohort or not cohort else {"over_select": _over(wanted, cohort)}
    between = (of_round["selected_s"].shift(-1) - of_round["closed_s"]).drop_nulls()
    pause = max(0.0, float(between.quantile(_FEW, "lower") or 0.0))
    if pause >= 1e-3:
        notes.append(
            f"pause {format_duration(round(pause, 3))}: so long after a close, at least, the next round selects"
        )
    pauses = {"pause": format_duration(round(pause, 3))} if pause >= 1e-3 else {}
    return {"cohort": max(cohort, 1), **over, **server, **pauses}, notes


def _cut_at(rounds: pl.DataFrame, taken_s: float) -> tuple[float, pl.DataFrame] | None:
    """Return at which equal length several rounds without enough reports were cut, and the others; None without one."""
    lengths = rounds["aborted_s"] - rounds["selected_s"]
    most = float(lengths.max() or 0.0)  # type: ignore[arg-type]
    longest, others = rounds.filter(lengths >= most * (1 - _EQUAL)), rounds.filter(lengths < most * (1 - _EQUAL))
    full = _usual(others["reported"]) if len(others) else longest["reported"].quantile(0.9) or 0
    short = int((longest["reported"] < full).sum())
    by_deadline = short > max(1, len(longest) / 2, _RARE * len(rounds)) and taken_s <= most * (1 + _EQUAL)
    return (_roundest(most * (1 - _EQUAL), most + 1e-3), others) if by_deadline else None


def _over(wanted: int, cohort: int) -> float:
    """Return by what to multiply a cohort, in few digits, so that as many are selected."""
    factors = (round(wanted / cohort, digits) for digits in range(1, 9))
    return next((each for each in factors if -int(-round(cohort * each, 9) // 1) == wanted), wanted / cohort)


def _buffered(table: pl.DataFrame) -> dict[str, Any]:
    """Return the places and the buffer of a buffered server: most sessions at once, usual reports of a version."""
    instants = pl.concat([table["selected_s"], table["ended_s"]])
    steps = pl.concat([pl.repeat(1, len(table), eager=True), pl.repeat(-1, len(table), eager=True)])
    running = pl.DataFrame({"at": instants, "step": steps}).sort("at", "step")["step"].cum_sum()
    taken = table.filter(outcome="reported")
    if "round" not in table.columns:
        return {"concurrency": int(running.max() or 1), "buffer": 1}  # type: ignore[arg-type]
    at = taken["round"].cast(pl.Int64) + taken["staleness"].cast(pl.Int64).fill_null(0)
    return {"concurrency": int(running.max() or 1), "buffer": max(1, _usual(at.value_counts()["count"]))}  # type: ignore[arg-type]


def _usual(counts: pl.Series) -> int:
    """Return the most frequent number, the largest of several."""
    return int(counts.mode().max() or 0) if len(counts) else 1  # type: ignore[arg-type]


def _roundest(low: float, high: float) -> float:
    """Return the roundest number of seconds in (low, high], the middle where none is."""
    for step in _ROUND_S:
        rounded = high // step * step
        if rounded > low:
            return rounded
    return (low + high) / 2
