"""What a run of several jobs on one fleet answers: trials with jobs as settings, each beside itself alone."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, listing, listing_of, number, percent
from fedsim.common.intervals import NORMAL
from fedsim.common.json_files import finite
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, WHAT, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.bias import NOBODY, bias_of
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.who import who_charts
from fedsim.pages.checks import LOWER_COHORT, SEE_SESSIONS, expectations, swept
from fedsim.pages.commands import command_of, with_seeds
from fedsim.pages.expectations import verdict
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.provenance import run_provenance
from fedsim.pages.run import cohort_in_words
from fedsim.pages.trial_checks import NAMED, diverged, losses_of, settled_losses
from fedsim.pages.trial_tables import column_of, setting_table
from fedsim.pages.words import HARDLY, how_uneven, who_takes_part
from fedsim.run.files import JOBS, METRICS
from fedsim.run.jobs import SharedRun
from fedsim.scenario.roles import registry_of
from fedsim.trials.contrasts import Standing, contrasts, tested_together
from fedsim.trials.decision import REPORTED, TAKEN, UPDATES, without_noise
from fedsim.trials.trials import Trials

_CLEAN = without_noise(REPORTED)
_LOST = 0.2  # of the pace of a job alone: what it loses beside others is worth a sweep
_WAITS = "rounds.waiting_share"


def jobs_trials(run: SharedRun) -> tuple[Trials, dict[int, int]]:
    """Return the jobs of a run as settings, and of each that was run alone too the rows of it and of itself alone."""
    every, alone = {name: job.metrics for name, job in run.jobs.items()}, dict[int, int]()
    for row, start in enumerate(f"job.{name}.alone." for name in run.jobs):
        figures = {key.removeprefix(start): value for key, value in run.metrics.items() if key.startswith(start)}
        if figures:
            alone[row] = len(every)
            every[f"{[*run.jobs][row]}, alone"] = figures
    error, of = f"{REPORTED}_se", dict[tuple[int, int], dict[str, float]]()
    for row, metrics in enumerate(every.values()):  # without noise a distance has the error that it has with it
        of[row, run.scenario.seed] = finite(metrics | ({f"{_CLEAN}_se": metrics[error]} if error in metrics else {}))
    made = Trials.in_memory(run.scenario.name, run.manifest, of)
    return replace(made, parameters=("name",), settings=made.settings.with_columns(name=pl.Series([*every]))), alone


def jobs_answer(run: SharedRun) -> Answer:
    """Return what is said of several jobs on one fleet; each has a page of its own beside theirs."""
    scenario, (trials, alone) = run.scenario, jobs_trials(run)
    far = _CLEAN if np.isfinite(trials.samples(_CLEAN)).any() else REPORTED  # few reports have much noise
    paces = trials.samples(UPDATES)[:, 0].tolist()
    lost = {row: 1 - paces[row] / paces[other] for row, other in alone.items() if paces[other] > 0}
    checks, sentences = tuple(_checks(run, trials, lost)), list(_sentences(run, trials, far, alone, lost))
    bad = [each.text for each in checks if each.state is Grade.BAD]
    first = [next((each.text for each in sentences if each.about == about), "") for about in (COST, BIAS)]
    headline = bad[0] if bad else " ".join(filter(None, first))
    servers = [f"“{name}”: {cohort_in_words(job)}" for name, job in run.jobs.items()]
    rule = "first_come" if scenario.matching is None else scenario.matching.kind
    fleet = f"{count(len(scenario.jobs), 'job')} on {count(scenario.devices, 'device')}, matching = {rule}"
    columns = [column_of(trials, metric) for metric in (UPDATES, TAKEN, far, "participation.coverage", _WAITS)]
    note = f"Each job has a page of its own: {JOBS}/NAME/report.html. All figures are in {METRICS}, as job.NAME.METRIC."
    table = setting_table(trials, "The jobs side by side", columns, note=note)
    return Answer(
        kind="jobs",
        name=scenario.name,
        headline=headline,
        question=scenario.question or "",
        setup=f"{fleet}; {listing_of(servers, NAMED)}; {scenario.stop.in_words()}, seed {scenario.seed}",
        description=scenario.description,
        status=str(run.manifest.get("status") or ""),
        verdict=verdict(run.manifest.get("verdict")),
        checks=checks,
        sentences=[each for each in sentences if each.text not in headline],
        tiles=tuple(_tiles(run, trials, far, alone)),
        sections=(Section("side-by-side", "The jobs", tuple(_charts(run, trials, far, alone)), [table]),),
        figures=("pace", JOBS, "who-*"),
        origins={"": run_provenance(run.manifest)},
    )


def _checks(run: SharedRun, trials: Trials, lost: Mapping[int, float]) -> Iterator[Check]:
    if stalled := run.manifest.get("stalled"):
        yield Check("ended", Grade.BAD, f"The run stalled and ended there: {stalled}.", remedy=LOWER_COHORT)
    elif run.failure:
        yield Check("reports", Grade.BAD, f"{capitalized(run.failure)}.", remedy=SEE_SESSIONS)
    yield from expectations(run)
    yield from diverged(trials)
    yield from settled_losses(trials)
    none = [name for name, job in run.jobs.items() if job.scenario.privacy is None]
    if none and len(none) < len(run.jobs):
        yield Check("promise", Grade.CAUTION, f"No promise covers a user, since {listing(none)} promises nothing.")
    if (most := max(lost.values(), default=0.0)) > _LOST and "matching" not in swept(run):
        rules = ", ".join(registry_of("matching policy").built_in)
        command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{matching: [{rules}]}}"})
        text = f"Sharing the fleet takes up to {percent(most)} of a job's pace."
        remedy = "Sweep `matching`, the rule by which devices choose a job, which shares the pace."
        yield Check("spends", Grade.NONE, text, facts=(UPDATES,), remedy=remedy, command=command, turns=("matching",))
    text = "This is one run: its intervals are of chance within it, and other seeds may differ."
    command = with_seeds(run.manifest, 5)
    yield Check("seeds", Grade.CAUTION, text, "", (), "Repeat it with several seeds.", command)


def _sentences(
    run: SharedRun, trials: Trials, far: str, alone: Mapping[int, int], lost: Mapping[int, float]
) -> Iterator[Sentence]:
    """Answer the questions of a reader about several jobs."""
    left, names = run.metrics["jobs.left_out_share"], [f"“{name}”" for name in run.jobs]
    text = f"{percent(left)} of the devices were selected by no job" if left else "Every device was selected by a job"
    yield Sentence(f"{text}.", WHAT, ("jobs.left_out_share",))
    paces, waits = (trials.samples(metric)[:, 0].tolist() for metric in (UPDATES, _WAITS))
    buffered = [at for at, job in enumerate(run.jobs.values()) if not job.scenario.server.selects_once]
    for row in [row for row, other in alone.items() if waits[row] > waits[other] + HARDLY]:
        longer = f"{percent(waits[row])} of the time, not {percent(waits[alone[row]])} as alone"
        taker = f"; {names[buffered[0]]} takes each as it comes" if buffered else ""
        yield Sentence(f"Rounds of {names[row]} wait for clients {longer}{taker}.", WHAT, (_WAITS,))
    apart = {row: f"{percent(abs(by))} {'fewer' if by > 0 else 'more'} than" for row, by in lost.items() if by}
    less = {row: f", {way} alone" for row, way in (dict.fromkeys(lost, "as many as") | apart).items()}
    made = [f"makes {number(each, 3)} updates per day" if each > 0 else "has no report" for each in paces]
    text = "; ".join(f"{name} {made[row]}{less.get(row, '')}" for row, name in enumerate(names))
    yield Sentence(f"{text}.", COST, (UPDATES,))
    places, of = np.arange(len(paces)), wording_of(far)
    every = [
        contrasts(trials, far, reference=other, eligible=np.isin(places, (row, other)), less_is_better=True)
        for row, other in alone.items()
    ]
    looks = [(row, look) for row, look in zip(alone, tested_together(every), strict=True)]
    looks = [(row, look) for row, look in looks if np.isfinite(look.difference[row])]
    adds = [f"{names[row]} {of.contrast(look, row)}" for row, look in looks]
    text = f"What sharing adds to the distance of reports{of.from_uniform} (TV)"
    if {look.standing(row) for row, look in looks} == {Standing.TIED}:
        text = "Sharing does not significantly change how even reports are (TV)"
        adds = [f"{names[row]} {of.difference(look.difference[row], look.tested_half[row])}" for row, look in looks]
    if adds:
        yield Sentence(f"{text}: {'; '.join(adds)}.", BIAS, (far,))
    for name, job in run.jobs.items():
        if (bias := bias_of(job)).seen not in NOBODY and (who := how_uneven(job, bias) or who_takes_part(job, bias)):
            facts = tuple(fact for key in who.facts if (fact := f"job.{name}.{key}") in run.metrics)
            yield Sentence(f"“{name}”: {who.text}", BIAS, facts)
    for metric in losses_of(trials):
        ends = zip(run.jobs, trials.samples(metric)[:, 0].tolist(), strict=False)  # alone nothing is trained
        ways = [f"{name} {number(value)}" for name, value in ends if np.isfinite(value)]
        yield Sentence(f"{capitalized(wording_of(metric).words)}: {listing(ways)}.", MODEL, (metric,))
    if (epsilon := run.metrics.get("privacy.user.epsilon")) is not None:
        promised = f"epsilon = {number(epsilon)} at delta = {run.metrics['privacy.user.delta']:g}"
        text = f"To one who takes part in all jobs they promise {promised}: the sum of the jobs' rho (zCDP) gives it."
        yield Sentence(text, TRUST, ("privacy.user.epsilon", "privacy.user.delta"))


def _tiles(run: SharedRun, trials: Trials, far: str, alone: Mapping[int, int]) -> Iterator[Tile]:
    """Show the pace of the first jobs and their bias, beside those of each alone."""
    for (row, name), metric in product([*enumerate(run.jobs)][:2], (UPDATES, far)):
        values, of = trials.samples(metric)[:, 0].tolist(), wording_of(metric)
        write, words = (number, "updates per day") if metric == UPDATES else (of.write, of.words)
        if np.isfinite(values[row]):
            beside = f"alone: {write(values[alone[row]])}" if row in alone else ""
            yield Tile(write(values[row]), f"“{name}”, {words}", beside, (metric,))


def _charts(run: SharedRun, trials: Trials, far: str, alone: Mapping[int, int]) -> Iterator[Chart | None]:
    """Draw the pace of jobs and how far from uniform they are, with a tick at each alone; and who takes part."""
    for name, title, metric in (("pace", "Pace of each job", UPDATES), (JOBS, "Bias of each job", far)):
        values, wording = trials.samples(metric)[:, 0], wording_of(metric)
        rows = [row for row in range(len(values) - len(alone)) if np.isfinite(values[row])]
        errors, ticks = trials.errors(metric), wording.scale * values[[alone.get(row, row) for row in rows]]
        margin, full = None if errors is None else wording.scale * NORMAL * errors[rows], np.full(len(rows), True)
        shown = trials.settings["name"][rows].to_list(), wording.scale * values[rows], margin, full
        theory = ticks if alone and np.isfinite(ticks).all() else None
        legend = "beside the others", ""
        yield row_plot(Rows(*shown, legend, wording.axis, theory=theory, tick="alone"), name, title)
    for name, job in [*run.jobs.items()][:NAMED]:
        for chart in who_charts(job, bias_of(job))[:1]:
            yield chart and replace(chart, name=f"who-{name}", title=f"“{name}”: {chart.title}")
