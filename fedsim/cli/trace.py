"""The commands ``fedsim trace import | show | fit``: recorded availability from others' files, looked at, modelled."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Argument, BadParameter, Option, Typer

from fedsim.cli import options
from fedsim.cli.options import AsJson, check_not_read, duration_option, parse_option
from fedsim.common.errors import Mistake, ScenarioError
from fedsim.common.messages import as_yaml, complain, say, say_json

if TYPE_CHECKING:
    from fedsim.availability.trace import CleanTrace, Pattern
    from fedsim.traces.fit import Fit

trace_app = Typer(
    name="trace",
    cls=options.CommandGroup,
    help="Recorded availability: import it, look at it, fit a model to it.",
    no_args_is_help=True,
)

_TraceFile = Annotated[Path, Argument(metavar="TRACE", help="A trace: CSV or Parquet.")]
_Base = Annotated[str | None, Option(metavar="INSTANT", help="The instant of second 0, such as 2020-01-31T00:00:00Z.")]
_NeededBase = Annotated[str, Option("--base", metavar="INSTANT", help="The instant of second 0.")]
_Zone = Annotated[str | None, Option(metavar="ZONE", help="Where it was recorded; by default the offset of the base.")]
_Repeat = Annotated[str, Option(help="week, day, device or none: which lap the trace is laid on.")]
_Require = Annotated[
    list[str] | None, Option(metavar="CONDITION", help="A condition that must hold; by default all of the file.")
]
_Since = Annotated[
    str | None, Option("--since", metavar="DURATION", help="Use the part from here on, from the base: 2d.")
]
_Until = Annotated[str | None, Option("--until", metavar="DURATION", help="Use the part up to here.")]
_PolicyName = Annotated[str, Option("--policy", help="What to do about faults: repair, strict or lenient.")]


@trace_app.command("import")
def import_command(
    sources: Annotated[
        list[Path], Argument(metavar="IN...", help="CSV, Parquet, JSON or text files, or a folder of text files.")
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="OUT",
            help="The trace to write: *.parquet or *.csv. Only a table that needs no import goes without.",
        ),
    ] = None,
    form: Annotated[str, Option("--format", help="auto, table, json or tsv.")] = "auto",
    base: _Base = None,
    columns: Annotated[
        str | None,
        Option(
            metavar="device=NAME,...",
            help="Which columns of a table are device, start, end, condition, seen_from, seen_to, cycle.",
        ),
    ] = None,
    since: _Since = None,
    until: _Until = None,
    join_gaps: Annotated[
        str | None, Option(metavar="DURATION", help="Close gaps that are shorter than this, such as 1s.")
    ] = None,
    min_length: Annotated[
        str | None, Option(metavar="DURATION", help="Then drop intervals shorter than this, such as 60s.")
    ] = None,
    policy: _PolicyName = "repair",
    as_json: AsJson = False,
) -> None:
    """Convert tables, JSON with each device's intervals, or lines of timestamp<TAB>event, to a trace for scenarios."""
    from fedsim.availability.trace.rows import Policy
    from fedsim.scenario.log import CHECK_IN_ROLES
    from fedsim.scenario.units import format_instant, parse_instant
    from fedsim.traces.imports import Cleaning, Form, import_trace, write_trace

    chosen: Form = _one_of(form, Form, "--format")
    rule: Policy = _one_of(policy, Policy, "--policy")
    named = pairs_option(columns, CHECK_IN_ROLES, "--columns")
    cleaning = Cleaning(
        *_part(since, until),
        duration_option(join_gaps, "--join-gaps") or 0.0,
        duration_option(min_length, "--min-length") or 0.0,
    )
    if out is not None and out.suffix.lower() not in {".parquet", ".pq", ".csv"}:
        raise BadParameter(f"{str(out)!r} must end in .parquet or .csv", param_hint="--out")
    check_not_read(out, sources)
    with mistakes_of_traces():
        instant = None if base is None else parse_option(parse_instant, base, "--base")
        imported = import_trace(sources, chosen, instant, rule, columns=named, cleaning=cleaning)
    as_it_is = imported.plain and cleaning == Cleaning()
    if out is None:
        if not as_it_is:
            raise BadParameter(f"name the trace to write, such as {sources[0].stem}.parquet", param_hint="--out")
        out = sources[0]
    else:
        write_trace(out, imported.trace)
    report = imported.trace.report
    stated = format_instant(imported.base) if imported.base is not None else None
    if as_json:
        counts = asdict(report) | {"stray": imported.stray}
        say_json({"file": str(out), "base": stated, "report": counts})
        return
    source = ", ".join(map(str, sources[:3])) + (f" and {len(sources) - 3:,} more" if len(sources) > 3 else "")
    complain(f"{source}: {report}")
    if imported.stray:
        complain(
            f"{source}: {imported.stray:,} interval{'s have' if imported.stray > 1 else ' has'} a time far from all "
            "others; scenarios leave them out, unless their `since` or `until` says otherwise"
        )
    if as_it_is:
        complain(f"{source}: has the form that scenarios read, so that it can be used as it is, without any import")
    complain(f"Use it: availability: {{kind: trace, file: {out.name}, base: {stated or 'THE INSTANT OF SECOND 0'}}}")
    say(str(out))


@trace_app.command("show")
def show_command(
    file: _TraceFile,
    base: _NeededBase,
    time_zone: _Zone = None,
    repeat: _Repeat = "week",
    require: _Require = None,
    since: _Since = None,
    until: _Until = None,
    policy: _PolicyName = "repair",
    as_json: AsJson = False,
) -> None:
    """Say what a trace holds, what is wrong with it, and which share of its devices is available in each hour."""
    from fedsim.common.instants import DAY_S
    from fedsim.traces.fit import hourly_shares
    from fedsim.traces.fit_renewal import available_share

    trace, once, pattern = _laid_out(file, base, time_zone, repeat, require, policy, _part(since, until))
    shares, share = hourly_shares(once.spans, once.seen).tolist(), available_share(once.spans, once.seen)
    lap_days = pattern.lap / DAY_S if math.isfinite(pattern.lap) else None
    if as_json:
        say_json(
            {
                "report": asdict(trace.report),
                "conditions": list(trace.conditions),
                "required": list(pattern.conditions),
                "never_available": pattern.never,
                "stray": pattern.stray,
                "outside": pattern.outside,
                "covered_days": pattern.covered / DAY_S,
                "lap_days": lap_days,
                "available": share,
                "available_by_hour": shares,
            }
        )
        return
    lap = "not repeated" if lap_days is None else f"of a lap of {lap_days:.0f}"
    lap = lap if pattern.device_laps is None else "repeated for each device by its own lap"
    say(f"{file}: {trace.report}")
    say(f"conditions: {', '.join(trace.conditions)}; required here: {', '.join(pattern.conditions)}")
    for line in once.left_out():
        say(line)
    say(f"devices that are never available: {pattern.never:,} of {len(trace.names):,}")
    say(f"covers {pattern.covered / DAY_S:.2f} days, {lap}")
    if observed := once.observed():
        say(observed)
    say(f"available {share:.1%} of the time that {'they were observed' if once.windows else 'it covers'}")
    say(f"share of {'observed' if once.windows else 'all'} devices that is available, by hour of the day:")
    for hour, share in enumerate(shares):
        shown = f"{share:7.1%}  {'#' * round(50 * share)}" if math.isfinite(share) else "      ?"
        say(f"  {hour:02}:00 {shown}".rstrip())


@trace_app.command("fit")
def fit_command(
    file: _TraceFile,
    base: _NeededBase,
    kind: Annotated[str, Option(help="habits, renewal or both.")] = "both",
    time_zone: _Zone = None,
    require: _Require = None,
    since: _Since = None,
    until: _Until = None,
    intervals: Annotated[
        bool, Option("--intervals", help="State 95 % intervals of a renewal model's parameters; takes a while.")
    ] = False,
    policy: _PolicyName = "repair",
    as_json: AsJson = False,
) -> None:
    """Fit a renewal or habits model to a trace: print what to write in a scenario, and how well it fits."""
    from fedsim.availability.trace import TraceError
    from fedsim.traces.fit import FitKind, fit

    kinds: list[FitKind] = ["renewal", "habits"] if kind == "both" else [_one_of(kind, FitKind, "--kind")]
    trace, once, _ = _laid_out(file, base, time_zone, "none", require, policy, _part(since, until))
    if trace.report.faults():
        complain(f"{file}: {trace.report}")
    for line in (*once.left_out(), once.observed()):
        if line:
            complain(f"{file}: {line}")
    fits = []
    with mistakes_of_traces():
        for each in kinds:
            try:
                fits.append(fit(once, each, intervals=intervals))
            except TraceError as error:
                if each == kinds[-1] and not fits:
                    raise
                complain(f"{file}: {error.message}")
    if as_json:
        say_json({"fits": list(map(asdict, fits))})
        return
    for fitted in fits:
        for line in _fit_lines(fitted):
            say(line)


def _fit_lines(fit: "Fit") -> Iterator[str]:
    """Yield how well a model fits, as comments, and what to write in a scenario."""
    hours = fit.hours
    yield f"# {fit.availability['kind']}: {hours.share:.1%} of the time available, the trace {hours.of_trace:.1%};"
    yield f"# the shares of the 24 hours differ by {hours.mean:.1%} on average, {hours.largest:.1%} at most"
    if (judged := fit.out_of_sample) is not None:
        yield (
            f"# fitted to half of the devices and judged by the others: {judged.mean:.1%} on average, "
            f"{judged.largest:.1%} at most; by hour, in percent, model less trace:"
        )
        shown = (f"{100 * apart:+.0f}" if math.isfinite(apart) else "?" for apart in fit.by_hour)
        yield f"# {' '.join(shown)}"
    for condition, each in fit.conditions.items():
        yield f"# {condition} alone: {each.share:.1%} and {each.of_trace:.1%}; {each.mean:.1%}, {each.largest:.1%}"
    for name, tries in fit.laws.items():
        tried = ", ".join(f"{each.source['kind']} {each.log_likelihood:.3f} (KS {each.ks:.3f})" for each in tries)
        yield f"# {name}, log-likelihood per length held out (less one per parameter): {tried}"
    for name, stated in fit.intervals.items():
        for parameter, (low, high) in stated.items():
            unit = "s" if parameter in {"mean", "median"} else ""
            yield f"# {name}.{parameter}: {low:.4g}{unit} to {high:.4g}{unit} in 95 %"
    for note in fit.notes:
        yield f"# {note}"
    yield as_yaml({"availability": fit.availability})


def _laid_out(
    file: Path,
    base: str,
    time_zone: str | None,
    repeat: str,
    require: list[str] | None,
    policy: str,
    part: tuple[float | None, float | None],
) -> "tuple[CleanTrace, Pattern, Pattern]":
    """Read a trace; return it, its pattern without repetition, and its pattern on its lap."""
    from zoneinfo import ZoneInfo

    from fedsim.availability.trace import CONDITIONS, build_pattern, clean, read_rows
    from fedsim.availability.trace.pattern import Repeat
    from fedsim.availability.trace.rows import Policy
    from fedsim.scenario.units import check_time_zone, parse_instant

    lap: Repeat = _one_of(repeat, Repeat, "--repeat")
    rule: Policy = _one_of(policy, Policy, "--policy")
    needed = [_one_of(name, CONDITIONS, "--require") for name in require or []]
    zone = ZoneInfo(parse_option(check_time_zone, time_zone, "--time-zone")) if time_zone is not None else None
    instant = parse_option(parse_instant, base, "--base")
    laps: list[Repeat] = ["none", lap]
    with mistakes_of_traces():
        trace = clean(read_rows(file), rule, keep_empty=True)
        strict = rule == "strict"
        once, laid = (
            build_pattern(trace, instant, zone, how, needed, *part, keep_empty=True, strict=strict) for how in laps
        )
        return trace, once, laid


@contextmanager
def mistakes_of_traces() -> Iterator[None]:
    """Turn a `TraceError` into a mistake with its place."""
    from fedsim.availability.trace import TraceError

    try:
        yield
    except TraceError as error:
        raise ScenarioError([Mistake(error.place, (), error.message)]) from None


def _one_of(word: str, choices: Any, option: str) -> Any:
    from fedsim.common.hints import did_you_mean

    allowed = choices if isinstance(choices, tuple) else get_args(choices)
    if word not in allowed:
        hint = did_you_mean(word, allowed, or_known=True)
        message = f"must be one of {', '.join(allowed)}, not {word!r}{hint}"
        raise BadParameter(message, param_hint=option)
    return word


def _part(since: str | None, until: str | None) -> tuple[float | None, float | None]:
    part = duration_option(since, "--since"), duration_option(until, "--until")
    if part[0] is not None and part[1] is not None and part[0] >= part[1]:
        raise BadParameter("must be before --until", param_hint="--since")
    return part


def pairs_option(text: str | None, roles: Iterable[str], option: str) -> dict[str, str] | None:
    """Return what ``device=id,start=from`` says of some roles, None where nothing is given."""
    if text is None:
        return None
    named = {}
    for pair in text.split(","):
        role, equals, name = (part.strip() for part in pair.partition("="))
        if not equals or not name or role in named:
            example = ",".join(f"{each}=NAME" for each in [*roles][:3])
            raise BadParameter(f"must be such as {example}, each once, not {text!r}", param_hint=option)
        named[_one_of(role, tuple(roles), option)] = name
    return named
