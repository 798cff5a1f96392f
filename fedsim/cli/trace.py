"""The commands ``fedsim trace import | show | fit``: recorded availability from others' files, looked at, modelled."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from fedsim.cli.options import Json
from fedsim.common.errors import Mistake, ScenarioError
from fedsim.common.messages import complain, say, say_json

if TYPE_CHECKING:
    from fedsim.availability.trace import Pattern, Trace

app = typer.Typer(help="Recorded availability: import it, look at it, fit a model to it.", no_args_is_help=True)

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace: CSV or Parquet.")]
Base = Annotated[
    str | None, typer.Option(metavar="INSTANT", help="The instant of second 0, such as 2020-01-31T00:00:00Z.")
]
NeededBase = Annotated[str, typer.Option("--base", metavar="INSTANT", help="The instant of second 0.")]
Zone = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Where it was recorded; by default the offset of the base.")
]
Repeat = Annotated[str, typer.Option(help="week, day or none: which lap the trace is laid on.")]
Require = Annotated[
    list[str] | None, typer.Option(metavar="CONDITION", help="A condition that must hold; by default all of the file.")
]
PolicyOption = Annotated[str, typer.Option("--policy", help="What to do about faults: repair, strict or lenient.")]


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A JSON or text file, or a folder of text files.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="The trace to write: *.parquet or *.csv.")],
    form: Annotated[str, typer.Option("--format", help="auto, json or tsv.")] = "auto",
    base: Base = None,
    policy: PolicyOption = "repair",
    as_json: Json = False,
) -> None:
    """Convert JSON with the intervals of each device, or lines of timestamp<TAB>event, to a trace for scenarios."""
    from fedsim.availability.trace import write_trace
    from fedsim.availability.trace.faults import Policy
    from fedsim.scenario.units import format_instant
    from fedsim.traces.imports import Form, import_trace

    chosen: Form = _one_of(form, Form, "--format")
    rule: Policy = _one_of(policy, Policy, "--policy")
    if out.suffix.lower() not in {".parquet", ".pq", ".csv"}:
        raise typer.BadParameter(f"{str(out)!r} must end in .parquet or .csv", param_hint="--out")
    with _mistakes():
        imported = import_trace(source, chosen, None if base is None else _instant(base), rule)
    write_trace(out, imported.trace)
    report, since = imported.trace.report, imported.base
    stated = format_instant(since) if since is not None else None
    if as_json:
        say_json({"file": str(out), "base": stated, "report": report.counts()})
        return
    complain(f"{source}: {report}")
    complain(f"Use it: availability: {{kind: trace, file: {out.name}, base: {stated or 'THE INSTANT OF SECOND 0'}}}")
    say(str(out))


@app.command()
def show(
    file: TraceFile,
    base: NeededBase,
    time_zone: Zone = None,
    repeat: Repeat = "week",
    require: Require = None,
    policy: PolicyOption = "repair",
    as_json: Json = False,
) -> None:
    """Say what a trace holds, what is wrong with it, and which share of its devices is available in each hour."""
    from fedsim.availability.trace.pattern import DAY_S
    from fedsim.traces.fit import hourly_shares

    trace, once, pattern = _laid_out(file, base, time_zone, repeat, require, policy)
    shares = hourly_shares(once.spans, once.begin, once.begin + once.covered).tolist()
    lap_days = pattern.lap / DAY_S if math.isfinite(pattern.lap) else None
    if as_json:
        say_json(
            {
                "report": trace.report.counts(),
                "conditions": list(trace.spans),
                "required": list(pattern.conditions),
                "never_available": pattern.never,
                "covered_days": pattern.covered / DAY_S,
                "lap_days": lap_days,
                "available_by_hour": [share if math.isfinite(share) else None for share in shares],
            }
        )
        return
    lap = "not repeated" if lap_days is None else f"of a lap of {lap_days:.0f}"
    say(f"{file}: {trace.report}")
    say(f"conditions: {', '.join(trace.spans)}; required here: {', '.join(pattern.conditions)}")
    say(f"devices that are never available: {pattern.never:,} of {len(trace.names):,}")
    say(f"covers {pattern.covered / DAY_S:.2f} days, {lap}")
    say("share of all devices that is available, by hour of the day:")
    for hour, share in enumerate(shares):
        shown = f"{share:7.1%}  {'#' * round(50 * share)}" if math.isfinite(share) else "      ?"
        say(f"  {hour:02}:00 {shown}".rstrip())


@app.command()
def fit(
    file: TraceFile,
    base: NeededBase,
    kind: Annotated[str, typer.Option(help="habits, renewal or both.")] = "both",
    time_zone: Zone = None,
    require: Require = None,
    policy: PolicyOption = "repair",
    as_json: Json = False,
) -> None:
    """Fit a renewal or habits model to a trace: print what to write in a scenario, and how well it fits."""
    from dataclasses import asdict

    from fedsim.traces.fit import FitKind, fit

    kinds: list[FitKind] = ["renewal", "habits"] if kind == "both" else [_one_of(kind, FitKind, "--kind")]
    trace, once, _ = _laid_out(file, base, time_zone, "none", require, policy)
    if trace.report.faults():
        complain(f"{file}: {trace.report}")
    with _mistakes():
        fits = [fit(once, each) for each in kinds]
    if as_json:
        say_json({"fits": [asdict(found) for found in fits]})
        return
    for found in fits:
        hours = found.hours
        say(f"# {found.availability['kind']}: {hours.share:.1%} of the time available, the trace {hours.of_trace:.1%};")
        say(f"# the shares of the 24 hours differ by {hours.mean:.1%} on average, {hours.largest:.1%} at most")
        for condition, own in found.conditions.items():
            say(f"# {condition} alone: {own.share:.1%} and {own.of_trace:.1%}; {own.mean:.1%}, {own.largest:.1%}")
        for name, laws in found.laws.items():
            tried = ", ".join(f"{law.source['kind']} {law.log_likelihood:.3f} (KS {law.ks:.3f})" for law in laws)
            say(f"# {name}, log-likelihood per length (less Akaike's penalty): {tried}")
        for note in found.notes:
            say(f"# {note}")
        say(_as_yaml({"availability": found.availability}))


def _laid_out(
    file: Path, base: str, time_zone: str | None, repeat: str, require: list[str] | None, policy: str
) -> "tuple[Trace, Pattern, Pattern]":
    """Read a trace; return it, laid out once with all its devices, and laid out on its lap."""
    from zoneinfo import ZoneInfo

    from fedsim.availability.trace import CONDITIONS, build_pattern, clean, read_rows
    from fedsim.availability.trace.faults import Policy
    from fedsim.availability.trace.pattern import Repeat
    from fedsim.scenario.civil import check_time_zone

    lap: Repeat = _one_of(repeat, Repeat, "--repeat")
    rule: Policy = _one_of(policy, Policy, "--policy")
    needed = [_one_of(name, CONDITIONS, "--require") for name in require or []]
    try:
        zone = ZoneInfo(check_time_zone(time_zone)) if time_zone is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--time-zone") from None
    since = _instant(base)
    with _mistakes():
        trace = clean(read_rows(file), rule, keep_empty=True)
        once = build_pattern(trace, since, zone, "none", needed, keep_empty=True)
        return trace, once, build_pattern(trace, since, zone, lap, needed, keep_empty=True)


@contextmanager
def _mistakes() -> Iterator[None]:
    """Show what is wrong with a trace as a mistake with its place."""
    from fedsim.availability.trace import TraceError

    try:
        yield
    except TraceError as error:
        raise ScenarioError([Mistake(error.place, (), error.message)]) from None


def _one_of(word: str, choices: Any, option: str) -> Any:
    from fedsim.scenario.model import did_you_mean

    known = choices if isinstance(choices, tuple) else get_args(choices)
    if word not in known:
        message = f"must be one of {', '.join(known)}, not {word!r}{did_you_mean(word, known)}"
        raise typer.BadParameter(message, param_hint=option)
    return word


def _instant(text: str) -> datetime:
    from fedsim.scenario.units import parse_instant

    try:
        return parse_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--base") from None


def _as_yaml(data: Any) -> str:
    from io import StringIO

    from ruamel.yaml import YAML

    yaml, text = YAML(), StringIO()
    yaml.default_flow_style = None
    yaml.width = 1000
    yaml.dump(data, text)
    return text.getvalue().rstrip("\n")
