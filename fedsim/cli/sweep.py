"""The commands ``fedsim plan | sweep | compare``: what would be run, running it, and what differs."""

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsim.cli.options import (
    AllowOutside,
    AllowPlugins,
    Dpi,
    FigureFormat,
    Figures,
    Json,
    Overrides,
    Quiet,
    ScenarioFile,
    Width,
    asked_style,
    load,
)
from fedsim.cli.scaled import write_scaled
from fedsim.common.messages import complain, keep_quiet, say, say_json

if TYPE_CHECKING:
    import polars as pl

    from fedsim.scenario import Scenario
    from fedsim.sweeps.compare import Comparison

CRASHED = 3
_RETRIES = 2
_ROWS = 30
"""Settings in the table of a sweep at most."""

Seed = Annotated[int | None, typer.Option(help="Override the seed; those of the sweep count up from it.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Sweep directory; by default sweeps/NAME.")]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Runs at once; by default one for each processor.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="1/K",
        help="Instead write the scenario with a K-th of the devices and the cohort to --out (a file), and say which "
        "figures that keeps.",
    ),
]
_SHOWN = (
    "participation.l1_uniform",
    "rounds.count",
    "rounds.per_day",
    "rounds.duration.mean",
    "sessions.reported_share",
    "learning.*.loss",
)


def plan(
    file: ScenarioFile,
    override: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    workers: Workers = None,
    scale: Scale = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
) -> None:
    """List the runs of a sweep and how long they are likely to take, without running it; or scale a scenario down."""
    if scale is not None:
        write_scaled(load(file, override, seed, allow_plugins, allow_outside), scale, file, out)
        return
    from fedsim.common.progress import on_stderr
    from fedsim.sweeps.executors import default_workers
    from fedsim.sweeps.pilot import Estimate, together
    from fedsim.sweeps.plan import estimates
    from fedsim.sweeps.store import complete

    planned, directory = _planned(load(file, override, seed, allow_plugins, allow_outside), override, out)
    with on_stderr() as progress:
        found = estimates(planned, progress)
    there = complete(directory)
    at_once = workers or default_workers()
    to_do = [run for run in planned.runs if run.run_id not in there]
    total = together([found[run.point] for run in to_do])
    side_by_side = min(at_once, max(1, len(to_do)))

    def figures(estimate: Estimate | None, share: float = 1.0) -> dict[str, Any]:
        if estimate is None:
            return {"estimated_s": None, "estimated_range_s": None}
        return {
            "estimated_s": estimate.seconds * share,
            "estimated_range_s": [estimate.low * share, estimate.high * share],
        }

    about = {
        "name": planned.scenario.name,
        "directory": str(directory),
        "points": [
            {"point": point.index, "values": point.values, **figures(found[point.index])} for point in planned.points
        ],
        "seeds": planned.seeds,
        "runs": [
            {**vars(run), **figures(found[run.point]), "status": "complete" if run.run_id in there else "missing"}
            for run in planned.runs
        ],
        "workers": at_once,
        "estimated_cpu_s": None if total is None else total.seconds,
        **figures(total, 1.0 / side_by_side),
    }
    if as_json:
        say_json(about)
        return
    say(f"{'run':<20}  {'point':>5}  {'seed':>5}  {'seconds':>8}  {'range':>17}  {'status':<8}  values")
    for run in about["runs"]:
        took, between = "?", "?"
        if run["estimated_s"] is not None:
            low, high = run["estimated_range_s"]
            took, between = f"{run['estimated_s']:.2f}", f"{low:.2f} to {high:.2f}"
        values = _values(planned.points[run["point"]].values)
        say(
            f"{run['run_id']:<20}  {run['point']:>5}  {run['seed']:>5}  {took:>8}  {between:>17}  "
            f"{run['status']:<8}  {values}"
        )
    time = "unknown"
    if total is not None:
        low, high = (_duration(end) for end in about["estimated_range_s"])
        time = f"about {_duration(about['estimated_s'])} ({low} to {high}) with {at_once} workers"
    complain(
        f"{_count(len(planned.points), 'point')} x {_count(len(planned.seeds), 'seed')} = "
        f"{_count(len(planned.runs), 'run')}, {len(to_do)} of them to do; estimated time: {time}"
    )


def sweep(
    file: ScenarioFile,
    override: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    executor: Annotated[
        str, typer.Option(metavar="WHERE", help="process, dask=ADDRESS, ray=ADDRESS or package.module:function.")
    ] = "process",
    workers: Workers = None,
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Further attempts for a run that is lost.")
    ] = _RETRIES,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Of a run; by default 20 times what is planned for it, at least 10 min."),
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Merge the runs into results.parquet at the end.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the page of the sweep, report.html, at the end.")
    ] = True,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the points of a sweep, all with the same seeds; a second call does only what is missing."""
    from fedsim.common.progress import on_stderr
    from fedsim.experiment.run_directory import Provenance
    from fedsim.sweeps import store
    from fedsim.sweeps.executors import backend_of
    from fedsim.sweeps.sweep import run_sweep

    limit_s = _limit(timeout)
    backend = backend_of(executor, workers)
    scenario = load(file, override, seed, allow_plugins, allow_outside)
    planned, directory = _planned(scenario, override, out)
    provenance = Provenance(str(file), override or [], seed, permissions=scenario.permissions)
    try:
        with on_stderr(quiet=quiet) as progress:
            swept = run_sweep(
                planned,
                directory,
                backend,
                retries=retries,
                timeout=limit_s,
                options=_how(executor, workers, retries, timeout),
                provenance=provenance,
                report=progress,
                tell=complain,
            )
    except KeyboardInterrupt:
        there = store.complete(directory)
        done = sum(run.run_id in there for run in planned.runs)
        complain(f"interrupted: {done} of {_count(len(planned.runs), 'run')} done; the same command does the rest")
        raise
    if compact:
        store.compact(directory)
    page = _page(directory) if report else None
    if as_json:
        say_json(
            {
                "directory": str(swept.directory),
                "report": None if page is None else str(page),
                "runs": swept.runs,
                "complete": swept.runs - len(swept.crashed),
                "kept": swept.kept,
                "crashed": [{**vars(run), "error": error} for run, error in swept.crashed.items()],
                "wall_time_s": round(swept.seconds, 3),
            }
        )
    else:
        if not quiet:
            _show(directory)
            _choose(directory)
        hear = keep_quiet if quiet and not swept.crashed else complain
        done = swept.runs - len(swept.crashed)
        hear(
            f"{done} of {_count(swept.runs, 'run')} complete, {swept.kept} of them from before; "
            f"{len(swept.crashed)} crashed; {_duration(swept.seconds)}"
        )
        if page is not None and not quiet:
            complain(f"Report: {page}")
        say(str(directory))
    if swept.crashed:
        raise typer.Exit(CRASHED)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run directory, a sweep directory, or DIR@POINT.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this metric; * stands for anything; repeatable.")
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="C", help="Of the intervals.")] = 0.95,
    as_json: Json = False,
    report: Annotated[bool, typer.Option("--report", help="Also write a report, into comparisons/A-B.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write that report elsewhere: a file *.html, or a folder.")
    ] = None,
    figures: Figures = None,
    form: FigureFormat = None,
    width: Width = None,
    dpi: Dpi = None,
) -> None:
    """Show what differs between two runs or sweeps: configuration, and metrics paired by seed."""
    import polars as pl

    from fedsim.sweeps.compare import compare as compared
    from fedsim.sweeps.compare import is_standard_error

    if not 0 < confidence < 1:
        raise typer.BadParameter(f"must lie between 0 and 1, not {confidence}", param_hint="--confidence")
    style = asked_style(figures, form, width, dpi)
    found = compared(a, b, confidence=confidence)
    metrics = found.metrics
    if metric:
        names = _matching(metrics["metric"].unique(), metric)
        if not names:
            raise typer.BadParameter(f"no metric that both have is called {metric[0]!r}", param_hint="--metric")
        metrics = metrics.filter(pl.col("metric").is_in(names))
    for note in found.notes:
        complain(f"note: {note}")
    if report or out is not None:
        from fedsim.report import report_comparison

        place = out if out is not None else Path("comparisons") / f"{a.resolve().name}-{b.resolve().name}"
        complain(f"Report: {report_comparison(a, b, place, confidence)}")
    if figures is not None and style is not None:
        from fedsim.report import comparison_figures

        complain(f"Figures: {len(comparison_figures(a, b, figures, style, confidence))} in {figures}")
    if as_json:
        changed = [{"path": path, "a": ours, "b": theirs} for path, ours, theirs in found.configuration]
        missed = {side: list(map(vars, limits)) for side, limits in zip("ab", found.missed, strict=True)}
        say_json({"configuration": changed, "metrics": metrics.to_dicts(), "notes": found.notes, "missed": missed})
        return
    for path, ours, theirs in found.configuration:
        say(f"{path}: {_word(ours)} -> {_word(theirs)}")
    if not found.configuration:
        say("the configurations are the same")
    _tell(found)
    if not metric:
        # How sure a figure is, is no figure that differs.
        metrics = metrics.filter(
            ~pl.col("metric").is_in([name for name in metrics["metric"] if is_standard_error(name)])
        )
    apart = metrics.filter(pl.col("difference") != 0)
    say(f"{len(metrics) - len(apart)} figures are the same, {len(apart)} differ")
    if len(apart):
        _table(apart)


def _tell(found: "Comparison") -> None:
    """Say what a comparison comes to; what differs and what weakens it has been said already."""
    from fedsim.report.answer import BIAS, COST, MODEL
    from fedsim.report.comparison_words import findings, misses

    for sentence in findings(found):
        if sentence.about in {BIAS, MODEL, COST}:
            say(_plain(sentence.text))
    for sentence in misses(found):
        say(_plain(sentence.text))


def _limit(timeout: str | None) -> float | None:
    from fedsim.scenario.units import parse_duration

    try:
        seconds = None if timeout is None else parse_duration(timeout)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from None
    if seconds is not None and seconds <= 0:
        raise typer.BadParameter("must be longer than nothing", param_hint="--timeout")
    return seconds


def _how(executor: str, workers: int | None, retries: int, timeout: str | None) -> list[str]:
    """Return the options that say how and where runs are done, but for those that are as they are by default."""
    given = {
        "--executor": executor if executor != "process" else None,
        "--workers": workers,
        "--retries": retries if retries != _RETRIES else None,
        "--timeout": timeout,
    }
    return [word for name, value in given.items() if value is not None for word in (name, str(value))]


def _planned(scenario: "Scenario", override: list[str] | None, out: Path | None) -> tuple[Any, Path]:
    from fedsim.common.errors import Mistake, ScenarioError
    from fedsim.sweeps.plan import plan_sweep
    from fedsim.sweeps.sweep import default_directory

    for each in override or []:
        path = each.partition("=")[0].strip()
        if scenario.sweep is not None and path in scenario.sweep.paths:
            raise ScenarioError([Mistake(f"--set {each}", (), f"{path} is swept, so this would have no effect")])
    return plan_sweep(scenario), out if out is not None else default_directory(scenario)


def _show(directory: Path) -> None:
    """Show how some figures differ from those of the first point."""
    import polars as pl

    from fedsim.sweeps.results import paired, read_results

    frame = read_results(directory)
    names = _matching(frame["metric"].drop_nulls().unique(maintain_order=True), _SHOWN)
    apart = paired(frame, metrics=names)
    apart = apart.filter((pl.col("difference") != 0).any().over("metric"))
    if len(apart):
        complain("differences from the first point, paired by seed, with 95 % intervals:")
        order = pl.col("metric").cast(pl.Enum(names))
        _table(apart.sort(order, "point", maintain_order=True), complain)


def _choose(directory: Path) -> None:
    """Show the settings with their bias and pace, and say what to choose."""
    from fedsim.report.finished_sweep import read_sweep
    from fedsim.report.sweep_choice import choice, sentences
    from fedsim.report.sweep_report import choice_table

    finished = read_sweep(directory)
    found = choice(finished)
    table = choice_table(finished, found)
    if table is not None:
        rows = [table.header, *table.rows[:_ROWS]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        complain(f"{table.caption}:")
        for row in rows:
            cells = zip(row, widths, strict=True)
            shown = (
                f"{cell:<{width}}" if at < table.words else f"{cell:>{width}}" for at, (cell, width) in enumerate(cells)
            )
            complain(_plain("  ".join(shown).rstrip()))
        if len(table.rows) > _ROWS:
            complain(f"... and {_count(len(table.rows) - _ROWS, 'setting')} more in the report")
    for sentence in sentences(found):
        complain(_plain(sentence.text))


def _plain(text: str) -> str:
    """Take out what holds words together on a page, and would keep them from being searched in a terminal."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def _page(directory: Path) -> Path | None:
    """Write the page of a sweep; None where that failed, which costs the sweep nothing else."""
    try:
        from fedsim.report import write_report

        return write_report(directory, tell=complain)
    except Exception as error:  # noqa: BLE001  whatever is wrong with the page, the runs are done and kept
        complain(f"no report: {type(error).__name__}: {error}; fedsim report {directory} makes it")
        return None


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _table(apart: "pl.DataFrame", tell: Callable[[str], None] = say) -> None:
    from fedsim.sweeps.results import parameters_of

    fixed = {"point", "metric", "seeds", "baseline_mean", "mean", "difference", "standard_error", "low", "high"}
    parameters = [name for name in parameters_of(apart) if name not in fixed]
    width = max(len(name) for name in apart["metric"])
    tell(f"{'metric':<{width}}  {'from':>11}  {'to':>11}  {'difference':>11}  {'interval':^25}  {'seeds':>5}  values")
    for row in apart.iter_rows(named=True):
        between = "" if row["low"] is None else f"[{row['low']:>+11.5g}, {row['high']:>+11.5g}]"
        values = _values({name: row[name] for name in parameters})
        tell(
            f"{row['metric']:<{width}}  {row['baseline_mean']:>11.6g}  {row['mean']:>11.6g}  "
            f"{row['difference']:>+11.5g}  {between:^25}  {row['seeds']:>5}  {values}".rstrip()
        )


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{path}={_word(value)}" for path, value in values.items())


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
