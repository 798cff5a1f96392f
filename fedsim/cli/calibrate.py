"""The command ``fedsim calibrate``: a scenario from the log of a federation."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from fedsim.cli.measure import (
    BaseOption,
    CheckInColumnsOption,
    CheckInsOption,
    ColumnsOption,
    LogFile,
    OutcomesOption,
    UnitOption,
    log_of,
)
from fedsim.cli.options import AsJson, check_not_read, load_scenario, parse_option
from fedsim.cli.trace import mistakes_of_traces, pairs_option
from fedsim.common.messages import complain, say, say_json

if TYPE_CHECKING:
    from fedsim.run.backtest import Figure


def calibrate_command(
    log: LogFile,
    columns: ColumnsOption = None,
    outcomes: OutcomesOption = None,
    check_ins: CheckInsOption = None,
    check_in_columns: CheckInColumnsOption = None,
    base: BaseOption = None,
    unit: UnitOption = None,
    time_zone: Annotated[
        str | None,
        Option(
            metavar="ZONE", help="Where all devices are, without a column of it; by default the offset of the base."
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write the scenario, and say on stderr what it rests on.")
    ] = None,
    backtested: Annotated[
        bool, Option("--backtest", help="Judge it: fit the first two thirds of the days, and run it over the others.")
    ] = False,
    check: Annotated[
        float | None,
        Option(
            metavar="PERCENT", help="The same, and exit with 1 where a figure is off by more than this; by default 5."
        ),
    ] = None,
    against: Annotated[
        Path | None, Option(metavar="SCENARIO", help="Compare the whole log with this scenario, and make none.")
    ] = None,
    page: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the comparison as a page; without --against, it implies --backtest."),
    ] = None,
    since: Annotated[str | None, Option(metavar="DAY", help="Leave out sessions before this day, or instant.")] = None,
    until: Annotated[str | None, Option(metavar="DAY", help="Leave out those from this day on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a scenario of a federation's log: server, durations, failures, availability, weights, with evidence."""
    from fedsim.common.files import write_text
    from fedsim.pages.backtest import comparison_lines
    from fedsim.run.backtest import against as laid_against
    from fedsim.run.backtest import backtest
    from fedsim.scenario import checked_text
    from fedsim.scenario.log import CHECK_IN_ROLES, ProductionLog
    from fedsim.scenario.units import check_time_zone
    from fedsim.traces.calibrate import calibrate
    from fedsim.traces.imports import Cleaning, import_trace
    from fedsim.traces.logs import read_log

    check_not_read(out, (log, check_ins))
    check_not_read(page, (log, check_ins, against))
    asked = parse_option(ProductionLog.model_validate, log_of(log, columns, outcomes, base, unit), "--base")
    of_check_ins = pairs_option(check_in_columns, CHECK_IN_ROLES, "--check-in-columns")
    if time_zone is not None:
        parse_option(check_time_zone, time_zone, "--time-zone")
    with mistakes_of_traces():
        sessions = read_log(log, asked)
        trace = None if check_ins is None else import_trace(check_ins, base=sessions.base, columns=of_check_ins).trace
        first, end = (parse_option(sessions.seconds, x, "--since, --until") if x else None for x in (since, until))
        if since or until:
            sessions, trace = sessions.part(first, end), trace and Cleaning(first, end).apply(trace)
        tolerance = (5.0 if check is None else check) / 100
        if against is not None:
            scenario = load_scenario(against, None, None, allow_plugins=False, allow_outside=False)
            judged = laid_against(scenario, sessions, trace, time_zone, tolerance)
            _write_page(page, log, f"compared with {against}", judged)
            if as_json:
                say_json([_as_dict(each) for each in judged])
            for line in () if as_json else comparison_lines(judged):
                say(line)
            raise Exit(_code(judged, check))
        made = calibrate(sessions, trace, time_zone)
        asked_for = backtested or check is not None or page is not None
        judged = backtest(sessions, trace, time_zone, tolerance) if asked_for else []
        _write_page(page, log, "the last third of its days, of which the scenario knows nothing", judged)
    text = checked_text(made.scenario, out or log)
    if as_json:
        data = {"scenario": made.scenario, "found": made.evidence, "notes": made.notes}
        say_json(data | ({"backtest": [_as_dict(each) for each in judged]} if judged else {}))
        raise Exit(_code(judged, check))
    lines = (line for name, about in made.evidence.items() for line in _lines(name, about))
    for line in (*made.notes, *lines, *(comparison_lines(judged) if judged else ())):
        complain(f"# {line}")
    if out is not None:
        write_text(out, text)
    say(text.rstrip("\n") if out is None else str(out))
    raise Exit(_code(judged, check))


def _write_page(page: Path | None, log: Path, setup: str, judged: "Sequence[Figure]") -> None:
    """Write the page of a comparison, where one is wanted."""
    if page is None:
        return
    from fedsim.common.files import pasteable
    from fedsim.pages.backtest import backtest_answer
    from fedsim.pages.page import write_answer

    words = (pasteable(each) if Path(each).is_absolute() else each for each in sys.argv[1:])
    command = shlex.join(["fedsim", *words, "--check-ins", "check-ins.csv"])
    complain(f"Report: {write_answer(backtest_answer(log.name, setup, judged, command), page)}")


def _as_dict(figure: "Figure") -> dict[str, Any]:
    return {**vars(figure), "within": figure.within}


def _code(judged: "Sequence[Figure]", check: float | None) -> int:
    return int(check is not None and not all(each.within for each in judged))


def _lines(name: str, about: dict[str, Any]) -> Iterator[str]:
    ended = ", ".join(f"{count:,} {how}" for how, count in about["ended"].items())
    yield f"{name}: {about['sessions']:,} sessions of {about['clients']:,} clients: {ended}"
    stated = about["intervals"]
    duration = {key: value for key, value in about["duration"].items() if key != "kind"}
    figures = ", ".join(f"{key} {value:.4g}{_interval(stated.get(key))}" for key, value in duration.items())
    yield f"  duration in seconds: {about['duration']['kind']}, {figures}"
    hours, chance = [value for value in about["by_hour"]["medians"] if value is not None], about["by_hour"]["p"]
    if chance is not None and hours:
        how = "more" if chance < 0.01 else "no more"
        yield f"  median by hour: {min(hours):.4g} to {max(hours):.4g}; varies {how} than by chance (p = {chance:.2g})"
    available = about.get("availability")
    but = "" if available is None else " beside those whose device went"
    fails = f"{about['fails_per_hour']:.4g} in an hour of session{_interval(stated.get('per_hour'))}"
    yield f"  sessions that fail{but}: {fails}"
    if "weight" in about and "none" in about["weight"]:
        none = about["weight"]["none"]
        yield f"  weight: {none:,} of {about['clients']:,} clients have 0, which no scenario has: it is left out"
    elif "weight" in about:
        weight = about["weight"]
        yield f"  weight: median {weight['median']:.4g}{_interval(weight['interval'])}, sigma {weight['sigma']:.4g}"
    if available is None:
        yield "  availability is not known without --check-ins: devices are always available"
        return
    errors = ", ".join(f"{kind} {error:.1%}" for kind, error in available["held_out"].items()) or "not known"
    yield f"  available {available['share']:.1%} of the time; by hour, {available['judged_by']} differ by: {errors}"
    yield f"  availability ends {available['ends_per_hour']:.4g} times in an hour of it, by the check-ins"
    for side, intervals in available["intervals"].items():
        for parameter, interval in intervals.items():
            yield f"  {side}.{parameter}:{_interval(interval)} in 95 %"
    yield from (f"  {problem}" for problem in available["problems"])


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" ({ends[0]:.4g} to {ends[1]:.4g})"
