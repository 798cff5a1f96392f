"""The commands ``fedsim plan | sweep | compare``: what would be run, running it, and what differs."""

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Exit, Option

from fedsim.cli import options
from fedsim.common.messages import complain, fitted_table, keep_quiet, plain, say, say_json, text_table
from fedsim.common.progress import on_stderr

if TYPE_CHECKING:
    import polars as pl

    from fedsim.pages.answer import Answer
    from fedsim.run.files import Change
    from fedsim.scenario import Scenario
    from fedsim.trials.plan import Plan
    from fedsim.trials.trials import Trials

_RETRIES = 2
_ROWS = 30
"""Settings in the table of a sweep at most."""
_PRINTED = ("optimizers", "points", "parts")
"""Sections whose tables are printed, the first two of them."""

_Seed = Annotated[int | None, Option(help="Override the seed; those of the sweep count up from it.")]
_Out = Annotated[Path | None, Option(metavar="DIR", help="Sweep directory; by default sweeps/NAME.")]
_Scale = Annotated[
    str | None,
    Option(
        metavar="1/K",
        help="Instead write the scenario with a K-th of the devices and the cohort to --out (a file), and say which "
        "figures that keeps.",
    ),
]
_KEPT_BY_SCALE = (
    "while cohorts are not small, these are kept but for chance: shares of groups, outcomes and time available, L1, "
    "gaps, coverage, rounds per day; divided are counts of sessions, device-hours, bytes, energy and cost, and limits "
    "of `decide` on them: multiply by {factor:,}; extremes and the spread over seeds are not kept (docs/scaling.md has "
    "measurements)"
)
_LOOKED_AT = 20  # points of a plan


def plan_command(
    file: options.ScenarioPath,
    override: options.Overrides = None,
    seed: _Seed = None,
    out: _Out = None,
    workers: options.Workers = None,
    scale: _Scale = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
) -> None:
    """List the runs of a sweep or decision and how long they take, without running them; or scale a scenario down."""
    if scale is not None:
        _write_scaled(options.load_scenario(file, override, seed, allow_plugins, allow_outside), scale, file, out)
        return
    from fedsim.common.instants import readable_time
    from fedsim.common.memory import readable_bytes
    from fedsim.run.cautions import of_sessions
    from fedsim.run.preflight import preflight
    from fedsim.trials.decide import default_decision_directory, planned_decision
    from fedsim.trials.plan import plan_data

    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside, several=True)
    decides = scenario.choose and scenario.decide and scenario.sweep is None
    if decides:
        planned, directory = planned_decision(scenario), out or default_decision_directory(scenario)
    else:
        planned, directory = _planned(scenario, override, out)
    first = (each.scenario for each in planned.points[:_LOOKED_AT])
    late = [each for point in first for each in point.servers().values() if each.server.deadline]
    for note in sorted({note for each in late for note in (check.text for check in of_sessions(preflight(each)))}):
        complain(f"note: {note}")
    with on_stderr() as progress:
        data = plan_data(planned, directory, workers, progress)
    if as_json:
        say_json(data)
        return
    say(text_table("<>>>>", _stages(planned, data)) if decides else text_table("<>>>><<", _runs(planned, data)))
    time = "unknown"
    if data["estimated_s"] is not None:
        low, high = map(readable_time, data["estimated_range_s"])
        time = f"about {readable_time(data['estimated_s'])} ({low} to {high}) with {data['workers']} workers"
    to_do = sum(run["status"] == "missing" for run in data["runs"])
    each = f"{_count(len(planned.points), 'point')} x {_count(len(planned.seeds), 'seed')} = "
    complain(
        f"{'' if decides else each}{_count(len(planned.runs), 'run')}, {to_do} of them to do; estimated time: {time}; "
        f"address space: about {readable_bytes(data['address_space_bytes'])} for each"
    )


def _runs(planned: "Plan", data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of the runs of a sweep."""
    rows: list[tuple[Any, ...]] = [("run", "point", "seed", "seconds", "range", "status", "values")]
    for run in data["runs"]:
        seconds, between = "?", "?"
        if run["estimated_s"] is not None:
            low, high = run["estimated_range_s"]
            seconds, between = f"{run['estimated_s']:.2f}", f"{low:.2f} to {high:.2f}"
        values = _values(planned.points[run["point"]].values)
        rows.append((run["run_id"], run["point"], run["seed"], seconds, between, run["status"], values))
    return rows


def _stages(planned: "Plan", data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of the stages of a decision, whose last runs are those of settings that may be the best."""
    stages = dict[str, list[dict[str, Any]]]()
    for run in data["runs"]:
        droppable = run["run_id"] in planned.droppable
        stage = "further seeds, while a setting may be the best" if droppable else "first seeds"
        if planned.points[run["point"]].scenario.decide is None:
            stage = f"tuning, seed {run['seed']}"
        stages.setdefault(stage, []).append(run)
    rows: list[tuple[Any, ...]] = [("stage", "settings", "runs", "to do", "processor s")]
    for stage, runs in stages.items():
        to_do, points = [run for run in runs if run["status"] == "missing"], {run["point"] for run in runs}
        estimated = all(run["estimated_s"] is not None for run in to_do)
        seconds = f"{sum(run['estimated_s'] for run in to_do):.0f}" if estimated else "?"
        rows.append((stage, len(points), len(runs), len(to_do), seconds))
    return rows


def _write_scaled(scenario: "Scenario", scale: str, file: Path, out: Path | None) -> None:
    """Write the smaller scenario to a file, and print which figures it keeps."""
    from fedsim.common.files import write_new
    from fedsim.run.preflight import preflight
    from fedsim.run.scaled import parse_scale, scale_down
    from fedsim.scenario import checked_text

    if out is None:
        raise BadParameter("is needed with --scale: the file to write", param_hint="--out")
    factor = options.parse_option(parse_scale, scale, "--scale")
    elsewhere = out.absolute().parent != scenario.folder.absolute()
    if elsewhere and (named := next((name for name, digest in scenario.files().items() if digest), "")):
        message = f"must be in the folder of {file}, since the scenario names {named}, which is found from there"
        raise BadParameter(message, param_hint="--out")
    scaled = scale_down(scenario, factor)
    preflight(scaled.scenario)
    written = {key: value for key, value in scaled.scenario.as_written.items() if value is not None}
    write_new({out: checked_text(written, out)}, "choose another name by --out")
    for note in scaled.notes:
        complain(f"note: {note}")
    complain(f"note: {_KEPT_BY_SCALE.format(factor=factor)}")
    small = scaled.scenario
    say(
        f"{out}: {small.devices:,} devices for {scenario.devices:,}, {small.server.wanted:,} selected at a time for "
        f"{scenario.server.wanted:,}"
    )


def sweep_command(
    file: options.ScenarioPath,
    override: options.Overrides = None,
    seed: _Seed = None,
    out: _Out = None,
    executor: options.Executor = "process",
    workers: options.Workers = None,
    retries: options.Retries = _RETRIES,
    timeout: options.Timeout = None,
    compact: Annotated[bool, Option("--compact", help="Merge the runs into results.parquet at the end.")] = False,
    page: options.Page = True,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the points of a sweep, all with the same seeds; a second call does only what is missing."""
    from fedsim.common.files import pasteable
    from fedsim.common.instants import readable_time
    from fedsim.pages.trials import trials_answer
    from fedsim.run.check import exit_code
    from fedsim.run.files import Provenance
    from fedsim.trials import store
    from fedsim.trials.executors import backend_of
    from fedsim.trials.sweep import run_sweep
    from fedsim.trials.trials import Trials, merge_results

    backend = backend_of(executor, workers)
    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside, several=True)
    planned, directory = _planned(scenario, override, out)
    provenance = Provenance(str(file), override or [], seed, permissions=scenario.permissions)
    given = {"--executor": executor, "--workers": workers, "--retries": retries, "--timeout": timeout}
    usual = {"--executor": "process", "--retries": _RETRIES}
    how = [word for name, value in given.items() if value != usual.get(name) for word in (name, str(value))]
    how += ["--compact"] if compact else []
    try:
        with on_stderr(quiet=quiet) as progress:
            swept = run_sweep(
                planned,
                directory,
                backend,
                retries=retries,
                timeout=options.timeout_option(timeout),
                provenance=provenance,
                progress=progress,
                tell=complain,
                command=provenance.command("sweep", "--out", pasteable(str(directory)), *how),
            )
    except KeyboardInterrupt:
        there = store.complete_runs(directory)
        done = sum(run.run_id in there for run in planned.runs)
        complain(f"interrupted: {done} of {_count(len(planned.runs), 'run')} done; the same command does the rest")
        raise
    if compact:
        merge_results(directory)
    answer = trials_answer(trials := Trials.read(directory))
    written = _page(answer, directory) if page else None
    if as_json:
        say_json(
            {
                "directory": str(swept.directory),
                "report": None if written is None else str(written),
                "runs": swept.runs,
                "complete": swept.runs - len(swept.crashed),
                "kept": swept.kept,
                "crashed": [{**vars(run), "error": error} for run, error in swept.crashed.items()],
                "wall_time_s": round(swept.seconds, 3),
                **with_settings(answer, trials),
            }
        )
    else:
        if not quiet:
            show_answer(answer)
        hear = keep_quiet if quiet and not swept.crashed else complain
        done = swept.runs - len(swept.crashed)
        hear(
            f"{done} of {_count(swept.runs, 'run')} complete, {swept.kept} of them from before; "
            f"{len(swept.crashed)} crashed; {readable_time(swept.seconds)}"
        )
        if written is not None and not quiet:
            complain(f"Report: {written}")
        say(str(directory))
    if code := exit_code(answer.checks):
        raise Exit(code)


def compare_command(
    a: Annotated[Path, Argument(metavar="A", help="A run directory, a sweep directory, or DIR@POINT.")],
    b: Annotated[Path, Argument(metavar="B", help="Another one.")],
    metric: Annotated[
        list[str] | None, Option(metavar="NAME", help="Only this metric; * stands for anything; repeatable.")
    ] = None,
    confidence: Annotated[float, Option(metavar="C", help="Of the intervals.")] = 0.95,
    as_json: options.AsJson = False,
    with_page: Annotated[bool, Option("--report", help="Also write a report, into comparisons/A-B.")] = False,
    out: Annotated[
        Path | None, Option(metavar="PATH", help="Write that report elsewhere: a file *.html, or a folder.")
    ] = None,
    figures: options.Figures = None,
    form: options.FigureFormat = None,
    width: options.Width = None,
    dpi: options.Dpi = None,
    allow_plugins: Annotated[  # noqa: ARG001
        bool, Option("--allow-plugins", help="Accepted as elsewhere: no code of yours is needed to compare.")
    ] = False,
) -> None:
    """Show what differs between two runs or sweeps: configuration, and metrics paired by seed."""
    import polars as pl

    from fedsim.pages.answer import Grade
    from fedsim.pages.comparison import comparison_answer, side_of
    from fedsim.pages.page import page_in, write_answer, write_figures
    from fedsim.run.check import exit_code
    from fedsim.trials.compare import compare

    if not 0 < confidence < 1:
        raise BadParameter(f"must lie between 0 and 1, not {confidence}", param_hint="--confidence")
    style = options.asked_style(figures, form, width, dpi)
    comparison = compare(a, b, confidence=confidence)
    metrics = comparison.metrics
    if metric:
        names = [name for name in metrics["metric"].unique() if any(fnmatchcase(name, each) for each in metric)]
        if not names:
            raise BadParameter(f"no metric that both have is called {metric[0]!r}", param_hint="--metric")
        metrics = metrics.filter(pl.col("metric").is_in(names))
    answer = comparison_answer(comparison, (side_of(a), side_of(b)))
    for each in answer.alarms:
        complain(plain(f"{'error' if each.state is Grade.BAD else 'note'}: {each.text}"))
    if with_page or out is not None:
        place = out or Path("comparisons") / f"{a.resolve().name}-{b.resolve().name}"
        complain(f"Report: {write_answer(answer, page_in(place))}")
    if figures is not None and style is not None:
        complain(f"Figures: {len(write_figures(answer, figures, style))} in {figures}")
    if as_json:
        changed = [{"path": path, "a": ours, "b": theirs} for path, ours, theirs in comparison.configuration]
        missed = {side: list(map(vars, limits)) for side, limits in zip("ab", comparison.missed, strict=True)}
        rest = {"notes": comparison.notes, "missed": missed, **answer.json()}
        say_json({"configuration": changed, "metrics": metrics.to_dicts(), **rest})
    else:
        _show_comparison(comparison.configuration, answer, metrics, errors=bool(metric))
    if code := exit_code(each for each in answer.checks if each.name == "reports"):
        raise Exit(code)


def _show_comparison(configuration: "list[Change]", answer: "Answer", metrics: "pl.DataFrame", *, errors: bool) -> None:
    """Print what differs; standard errors only if they are asked for."""
    import polars as pl

    from fedsim.pages.comparison import figure_table

    for path, ours, theirs in configuration:
        say(f"{path}: {_word(ours)} -> {_word(theirs)}")
    if not configuration:
        say("the configurations are the same")
    for line in dict.fromkeys((answer.headline, *(each.text for each in answer.sentences if each.facts))):
        say(plain(line))
    shown = metrics if errors else metrics.filter(~pl.col("metric").str.ends_with("_se"))
    apart = shown.filter(pl.col("difference") != 0)
    say(f"{len(shown) - len(apart)} figures are the same, {len(apart)} differ")
    if len(apart):
        table = figure_table(apart)
        rows = [[*map(plain, row)] for row in (table.header, *table.rows)]
        say(text_table("<" * table.words + ">" * (len(table.header) - table.words), rows))


def _planned(scenario: "Scenario", override: list[str] | None, out: Path | None) -> tuple[Any, Path]:
    from fedsim.common.errors import Mistake, ScenarioError
    from fedsim.trials.plan import plan_sweep
    from fedsim.trials.sweep import default_sweep_directory

    for each in override or []:
        path = each.partition("=")[0].strip()
        if scenario.sweep is not None and path in scenario.sweep.paths:
            raise ScenarioError([Mistake(f"--set {each}", (), f"{path} is swept, so this would have no effect")])
    return plan_sweep(scenario), out if out is not None else default_sweep_directory(scenario)


def show_answer(answer: "Answer", *, stages: bool = False) -> None:
    """Print what trials answer: the tables of the settings, the headline, what is not right, and what to do next.

    In `stages` columns that do not fit follow in further tables.
    """
    from fedsim.pages.terminal import spoken

    tables = [
        each for section in answer.sections if section.name in _PRINTED for each in section.tables if each is not None
    ]
    for table in tables[:2]:
        complain(plain(f"{table.caption}:"))
        sides = "<" * table.words + ">" * (len(table.header) - table.words)
        rows = [[*map(plain, row)] for row in (table.header, *table.rows[:_ROWS])]
        shown, left = fitted_table(sides, *rows)
        complain(shown)
        keys = table.words - 1 if stages else 0
        while keys and left:  # the other columns, beside what names the settings
            rows = [[*row[:keys], *row[-left:]] for row in rows]
            shown, more_left = fitted_table("<" * keys + ">" * left, *rows)
            if more_left == left:  # the next is too wide for any terminal like this
                break
            complain(shown)
            left = more_left
        more = [_count(len(table.rows) - _ROWS, "setting")] if len(table.rows) > _ROWS else []
        if more := [*more, *([_count(left, "column")] if left else [])]:
            complain(f"... and {' and '.join(more)} more in the report")
    for line in spoken(replace(answer, sentences=())):
        complain(plain(line))


def with_settings(answer: "Answer", trials: "Trials") -> dict[str, Any]:
    """Return an answer for JSON, with the rows of its table of settings, and their means and intervals as numbers."""
    from fedsim.pages.trial_tables import shown_metrics
    from fedsim.trials.contrasts import interval

    tables = [each for section in answer.sections if section.name == "points" for each in section.tables]
    rows = [dict(zip(table.header, row, strict=True)) for table in tables if table is not None for row in table.rows]
    intervals = {metric: interval(trials.samples(metric)) for metric in shown_metrics(trials)}
    means = [
        {"setting": name, **{metric: {"mean": ci.mean[row], "half": ci.half[row]} for metric, ci in intervals.items()}}
        for row, name in enumerate(trials.names)
    ]
    stage = {"stage": trials.stage} if trials.stage else {}
    return {**stage, **answer.json(), "settings": rows, "means": means}


def _page(answer: "Answer", directory: Path) -> Path | None:
    """Write the page of a sweep; None if that failed, which the sweep survives."""
    try:
        from fedsim.pages.page import page_in, write_answer

        return write_answer(answer, page_in(directory))
    except Exception as error:  # noqa: BLE001  the runs are done and kept, whatever is wrong with the page
        complain(f"no report: {type(error).__name__}: {error}; fedsim report {directory} makes it")
        return None


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{path}={_word(value)}" for path, value in values.items())


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
