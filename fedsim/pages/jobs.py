"""What a run of several jobs on one fleet answers: trials with jobs as settings, each beside itself alone."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from fedsim.common.formatting import NO_VALUE, capitalized, count, listing, number, percent
from fedsim.common.json_files import finite
from fedsim.measure.metrics import of_jobs
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, WHAT, Answer, Check, Section, Sentence, State, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.commands import command_of
from fedsim.pages.expectations import verdict
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.provenance import run_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import diverged, optimizer_facts, settled_losses
from fedsim.pages.trials import IN_BRACKETS
from fedsim.run.files import JOBS, METRICS
from fedsim.run.run import Run
from fedsim.trials.contrasts import Contrasts, contrasts_of, tested_together
from fedsim.trials.decision import PACE, REPORTED
from fedsim.trials.trials import Trials

_ALONE = "alone."
"""What the names of metrics of a job without the others begin with."""
_COLUMNS = {
    "Rounds a day": PACE,
    "TV from uniform": REPORTED,
    "Selected at least once": "participation.coverage",
    "Time waiting for clients": "rounds.waiting_share",
}


def jobs_trials(run: Run) -> tuple[Trials, dict[int, int]]:
    """Return the jobs of a run as settings, and of each that was run alone too the rows of it and of itself alone."""
    jobs, seed = of_jobs(run.metrics), run.scenario.seed
    alone = {
        name: {key.removeprefix(_ALONE): value for key, value in own.items() if key.startswith(_ALONE)}
        for name, own in jobs.items()
    }
    every = [*jobs.items(), *((f"{name}, alone", own) for name, own in alone.items() if own)]
    figures = {(row, seed): finite(own) for row, (_, own) in enumerate(every)}
    made = Trials.in_memory(run.scenario.name, run.manifest, figures)
    settings = made.settings.with_columns(name=pl.Series([name for name, _ in every]))
    beside = [row for row, name in enumerate(jobs) if alone[name]]
    trials = Trials(made.name, made.meta, ("name",), settings, made.facts)
    return trials, {row: len(jobs) + place for place, row in enumerate(beside)}


def jobs_answer(run: Run) -> Answer:
    """Return what is said of several jobs on one fleet; each has a page of its own beside theirs."""
    scenario, (trials, alone) = run.scenario, jobs_trials(run)
    shares, paces = _beside(trials, alone, (REPORTED, PACE))
    checks = tuple(_checks(run, trials))
    ways = [f"{name} {'is ' if known else ''}{way}" for name, way, known in _ways(run, trials, shares, REPORTED)]
    bad = next((each.text for each in checks if each.state is State.BAD), None)
    return Answer(
        kind="jobs",
        name=scenario.name,
        headline=bad or f"Sharing the devices, by distance from uniform (TV), {listing(ways)}.",
        question=scenario.question or "",
        setup=f"{count(len(scenario.jobs), 'job')} on {count(scenario.devices, 'device')}, {scenario.stop.in_words()}",
        description=scenario.description,
        status=str(run.manifest.get("status") or ""),
        verdict=verdict(run.manifest.get("verdict")),
        checks=checks,
        sentences=tuple(_sentences(run, trials, shares, paces)),
        tiles=tuple(_tiles(run)),
        sections=(Section("jobs", "The jobs", (_chart(trials, alone),), [_table(trials, alone)]),),
        figures=(JOBS,),
        origins={"": run_provenance(run.manifest)},
    )


def _beside(trials: Trials, alone: dict[int, int], metrics: tuple[str, ...]) -> list[dict[int, Contrasts]]:
    """Compare each job with itself alone by some metrics, all tested together; by its row."""
    keys, looks = list[tuple[int, int]](), list[Contrasts]()
    for place, metric in enumerate(metrics):
        values, errors = trials.samples(metric), trials.errors(metric)
        for row, other in alone.items():
            both = [other, row]
            each = contrasts_of(values[both], reference=0, errors=None if errors is None else errors[both])
            if np.isfinite(each.difference[1]):
                keys.append((place, row))
                looks.append(each)
    found: list[dict[int, Contrasts]] = [{} for _ in metrics]
    for (place, row), each in zip(keys, tested_together(looks), strict=True):
        found[place][row] = each
    return found


def _ways(run: Run, trials: Trials, beside: dict[int, Contrasts], metric: str) -> Iterator[tuple[str, str, bool]]:
    """Yield of each job its name, a metric of it beside that of itself alone, and whether it has it."""
    values, wording = trials.samples(metric)[:, 0], wording_of(metric)
    for row, name in enumerate(trials.settings["name"][: len(run.scenario.jobs)]):
        known, text = bool(np.isfinite(values[row])), ""
        if (found := beside.get(row)) is not None:
            by = f"{wording.difference(float(found.difference[1]), float(found.half[1]))}{IN_BRACKETS[found.states[1]]}"
            text = f" (alone {wording.write(float(found.mean[0]))}; {by})"
        yield name, f"{wording.write(values[row])}{text}" if known else "has no report", known


def _checks(run: Run, trials: Trials) -> Iterator[Check]:
    """Yield what became of each check."""
    if (judged := verdict(run.manifest.get("verdict"))) is not None:
        states = {"pass": State.OK, "unjudged": State.NONE}
        yield Check("limits", states.get(judged.status, State.CAUTION), judged.headline)
    yield from diverged(trials)
    yield from settled_losses(trials)
    jobs = run.scenario.jobs
    none = [name for name, job in jobs.items() if job.privacy is None]
    if none and len(none) < len(jobs):
        yield Check("promise", State.CAUTION, f"No promise covers a user, since {listing(none)} promises nothing.")
    text = "This is one run, which gives no interval over seeds of what a job does to another."
    command = command_of(run.manifest, "sweep", "sweep.seeds=5")
    yield Check("seeds", State.CAUTION, text, "", (), "Repeat it with several seeds.", command)


def _sentences(
    run: Run, trials: Trials, shares: dict[int, Contrasts], paces: dict[int, Contrasts]
) -> Iterator[Sentence]:
    """Answer the questions of a reader about several jobs."""
    left = run.metrics["jobs.left_out_share"]
    text = f"{percent(left)} of the devices were selected by no job" if left else "Every device was selected by a job"
    yield Sentence(f"{text}.", WHAT, ("jobs.left_out_share",))
    for metric, beside, about in ((REPORTED, shares, BIAS), (PACE, paces, COST)):
        ways = listing([f"{name} {way}" for name, way, _ in _ways(run, trials, beside, metric)])
        yield Sentence(f"{capitalized(wording_of(metric).words)}: {ways}.", about, (metric,))
        if about == BIAS:
            yield _lowest_losses(trials)
    if (epsilon := run.metrics.get("privacy.user.epsilon")) is not None:
        promised = f"epsilon = {number(epsilon)} at delta = {run.metrics['privacy.user.delta']:g}"
        how = "the sum of the jobs' rho (zCDP) gives it"
        text = f"To one who takes part in all jobs they promise {promised}: {how}."
        yield Sentence(text, TRUST, ("privacy.user.epsilon", "privacy.user.delta"))


def _lowest_losses(trials: Trials) -> Sentence:
    """Name the optimizer of each job with the lowest loss at the end."""
    every, best = optimizer_facts(trials, "final_loss"), list[str]()
    own = {name: values[:, 0] for name, values in every.items() if not name.endswith("_uniform")}
    for row, job in enumerate(trials.settings["name"]):
        known = {name: float(values[row]) for name, values in own.items() if np.isfinite(values[row])}
        if known:
            name = min(known, key=known.__getitem__)
            best.append(f"“{job}” {number(known[name], 3)} ({name})")
    return Sentence(f"Lowest loss of each job: {listing(best)}." if best else "No model was trained.", MODEL)


def _tiles(run: Run) -> Iterator[Tile]:
    """Return the key figures."""
    scenario, metrics = run.scenario, run.metrics
    yield Tile(count(len(scenario.jobs)), "jobs", f"matched by {scenario.matching_policy.kind}")
    yield Tile(count(scenario.devices), "devices", scenario.stop.in_words())
    yield Tile(percent(metrics["jobs.left_out_share"]), "of the devices left out by all jobs")
    limit = "no limit" if scenario.most_a_day is None else f"limit {scenario.most_a_day:,}"
    yield Tile(count(metrics["jobs.most_a_day"]), "sessions of a device in a day at most", limit)


def _chart(trials: Trials, alone: dict[int, int]) -> Chart:
    """Draw the distance of each job from uniform with its interval, beside itself alone."""
    rows = list(range(len(trials.settings) - len(alone)))
    order = [each for row in rows for each in (row, alone.get(row)) if each is not None]
    order = [each for each in order if np.isfinite(trials.samples(REPORTED)[each, 0]) or each not in alone.values()]
    share, low, high = (50 * trials.samples(f"{REPORTED}{end}")[order, 0] for end in ("", "_low", "_high"))
    names = tuple(trials.settings["name"][row] for row in order)
    shared = np.array([row not in alone.values() for row in order])
    unit = "reports from uniform (TV, %), 95 % interval"
    data = Rows(names, share, (high - low) / 2, shared, ("beside the others", "alone"), unit, None)
    return row_plot(data, JOBS, "Bias of each job")


def _table(trials: Trials, alone: dict[int, int]) -> Table:
    """Show the jobs side by side, each with its pace and distance alone."""
    heads = [(head, metric, False) for head, metric in _COLUMNS.items()]
    heads += [(f"{head}, alone", metric, True) for head, metric in list(_COLUMNS.items())[:2] if alone]
    columns = []
    for _, metric, by_itself in heads:
        values, wording = trials.samples(metric)[:, 0], wording_of(metric)
        write = wording.apart if metric == PACE else wording.write
        own = [alone.get(row) if by_itself else row for row in range(len(trials.settings) - len(alone))]
        cells = [np.nan if row is None else float(values[row]) for row in own]
        columns.append([write(value) if np.isfinite(value) else NO_VALUE for value in cells])
    names = trials.settings["name"][: len(trials.settings) - len(alone)]
    note = f"Each job has a page of its own: {JOBS}/NAME/report.html. All figures are in {METRICS}, as job.NAME.METRIC."
    rows = tuple(zip(names, *columns, strict=True))
    return Table("The jobs side by side", ("Job", *(head for head, *_ in heads)), rows, note=note)
