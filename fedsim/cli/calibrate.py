"""The command ``fedsim calibrate``: a scenario from the log of a federation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from fedsim.cli.options import AsJson, check_not_read, parse_option
from fedsim.cli.trace import mistakes_of_traces, pairs_option
from fedsim.common.messages import complain, say, say_json


def calibrate_command(
    log: Annotated[Path, Argument(metavar="LOG", help="Sessions: CSV or Parquet, a row for each.")],
    columns: Annotated[
        str | None,
        Option(
            metavar="client=NAME,...",
            help="Which columns are client, selected, ended, outcome and, where there are such, class, weight, round.",
        ),
    ] = None,
    outcomes: Annotated[
        str | None,
        Option(metavar="reported=WORD|...,...", help="What words of the outcome mean: reported, dropped or cut."),
    ] = None,
    check_ins: Annotated[
        Path | None, Option(metavar="TRACE", help="When devices could take part: any file that trace import reads.")
    ] = None,
    check_in_columns: Annotated[
        str | None, Option(metavar="device=NAME,...", help="Its columns, as those of trace import.")
    ] = None,
    base: Annotated[
        str | None, Option(metavar="INSTANT", help="The instant of second 0, where times are seconds.")
    ] = None,
    time_zone: Annotated[
        str | None, Option(metavar="ZONE", help="Where the devices are; by default the offset of the base.")
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write the scenario, and say on stderr what it rests on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a scenario of a federation's log: durations, drop-outs, availability and weights, and how good they are."""
    from fedsim.common.files import write_text
    from fedsim.scenario import checked_text
    from fedsim.scenario.units import check_time_zone, parse_instant
    from fedsim.traces.calibrate import LOG_ROLES, OUTCOMES, calibrate, read_sessions
    from fedsim.traces.imports import import_trace
    from fedsim.traces.table_form import ROLES

    check_not_read(out, (log, check_ins))
    named = pairs_option(columns, LOG_ROLES, "--columns")
    meant = {
        word: how
        for how, words in (pairs_option(outcomes, OUTCOMES, "--outcomes") or {}).items()
        for word in words.split("|")
    }
    of_check_ins = pairs_option(check_in_columns, ROLES, "--check-in-columns")
    if time_zone is not None:
        parse_option(check_time_zone, time_zone, "--time-zone")
    instant = None if base is None else parse_option(parse_instant, base, "--base")
    with mistakes_of_traces():
        sessions = read_sessions(log, named, meant, instant)
        trace = None if check_ins is None else import_trace(check_ins, base=sessions.base, columns=of_check_ins).trace
        made = calibrate(sessions, trace, time_zone)
    text = checked_text(made.scenario, out or log)
    if as_json:
        say_json({"scenario": made.scenario, "found": made.found, "left_out": sessions.left_out})
        return
    lines = [line for name, about in made.found.items() for line in _lines(name, about)]
    if sessions.left_out:
        lines.append(f"left out {sessions.left_out:,} rows: no begin, end and outcome in order, or far from all others")
    if "round" not in sessions.table.columns:
        lines.append("the log has no column round: the cohort is a placeholder")
    for line in lines:
        complain(f"# {line}")
    if out is not None:
        write_text(out, text)
    say(text.rstrip("\n") if out is None else str(out))


def _lines(name: str, about: dict[str, Any]) -> Iterator[str]:
    ended = ", ".join(f"{count:,} {how}" for how, count in about["ended"].items())
    yield f"{name}: {about['sessions']:,} sessions of {about['clients']:,} clients: {ended}"
    stated, held = about["intervals"], about["held_out"]
    law = {key: value for key, value in about["duration"].items() if key != "kind"}
    figures = ", ".join(f"{key} {value:.4g}{_interval(stated.get(key))}" for key, value in law.items())
    apart = "" if held["ks"] is None else f"; KS {held['ks']:.3f} in the last fifth, held out"
    yield f"  duration in seconds: {about['duration']['kind']}, {figures}{apart}"
    hours, chance = [value for value in about["by_hour"]["medians"] if value is not None], about["by_hour"]["p"]
    if chance is not None:
        how = "more" if chance < 0.01 else "no more"
        yield f"  its median by hour: {min(hours):.4g} to {max(hours):.4g}, {how} than chance makes (p = {chance:.2g})"
    yield (
        f"  drop-outs: {about['drop_outs_per_hour']:.4g} in an hour of session{_interval(stated.get('per_hour'))}; "
        f"held out {held['drop_outs']:,}, expected {held['expected']:,.0f}"
    )
    if "weight" in about:
        weight = about["weight"]
        yield f"  weight: median {weight['median']:.4g}{_interval(weight['interval'])}, sigma {weight['sigma']:.4g}"
    if "availability" not in about:
        yield "  availability is not known without --check-ins: `on` is the time to a drop-out, `off` a placeholder"
        return
    found = about["availability"]
    errors = ", ".join(f"{kind} {error:.1%}" for kind, error in found["held_out"].items()) or "not known"
    yield f"  available {found['share']:.1%} of the time; by hour, {found['judged_by']} differ by: {errors}"
    yield f"  availability ends {found['ends_per_hour']:.4g} times in an hour of it, by the check-ins"
    for side, stated in found["intervals"].items():
        for parameter, interval in stated.items():
            yield f"  {side}.{parameter}:{_interval(interval)} in 95 %"
    yield from (f"  {problem}" for problem in found["problems"])


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" ({ends[0]:.4g} to {ends[1]:.4g})"
