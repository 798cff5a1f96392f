"""What a run of several jobs on one fleet answers: trials with jobs as settings, each beside itself alone."""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, listing, number, percent
from fedsim.common.intervals import NORMAL
from fedsim.common.json_files import finite
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, WHAT, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.checks import LOWER_COHORT, SEE_SESSIONS, expectations, swept
from fedsim.pages.commands import command_of, with_seeds
from fedsim.pages.expectations import verdict
from fedsim.pages.metric_wording import tv, wording_of
from fedsim.pages.provenance import run_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import diverged, losses_of, settled_losses
from fedsim.pages.trial_tables import column_of, setting_table
from fedsim.run.files import JOBS, METRICS
from fedsim.run.jobs import SharedRun
from fedsim.run.run import Run
from fedsim.scenario.roles import registry_of
from fedsim.trials.contrasts import Standing, contrasts, tested_together
from fedsim.trials.decision import REPORTED, TAKEN, UPDATES, without_noise
from fedsim.trials.trials import Trials

_CLEAN = without_noise(REPORTED)
_LOST = 0.2  # of the pace of a job alone: what it loses beside others is worth a sweep
_SHOWN = ("participation.coverage", "rounds.waiting_share")


def jobs_trials(run: SharedRun) -> tuple[Trials, dict[int, int]]:
    """Return the jobs of a run as settings, and of each that was run alone too the rows of it and of itself alone."""
    jobs, seed = {name: job.metrics for name, job in run.jobs.items()}, run.scenario.seed
    alone = {
        name: {key.removeprefix(start): value for key, value in run.metrics.items() if key.startswith(start)}
        for name, start in ((name, f"job.{name}.alone.") for name in jobs)
    }
    every = [*jobs.items(), *((f"{name}, alone", metrics) for name, metrics in alone.items() if metrics)]
    error, figures = f"{REPORTED}_se", dict[tuple[int, int], dict[str, float]]()
    for row, (_, metrics) in enumerate(every):  # without noise a distance has the error that it has with it
        figures[row, seed] = finite(metrics | ({f"{_CLEAN}_se": metrics[error]} if error in metrics else {}))
    made = Trials.in_memory(run.scenario.name, run.manifest, figures)
    settings = made.settings.with_columns(name=pl.Series([name for name, _ in every]))
    both = [row for row, name in enumerate(jobs) if alone[name]]
    trials = Trials(made.name, made.meta, ("name",), settings, made.facts)
    return trials, {row: len(jobs) + place for place, row in enumerate(both)}


def _distance(trials: Trials) -> str:
    """Return the distance from uniform that is shown: without noise where that is known, as few reports have much."""
    return _CLEAN if np.isfinite(trials.samples(_CLEAN)).any() else REPORTED


def jobs_answer(run: SharedRun) -> Answer:
    """Return what is said of several jobs on one fleet; each has a page of its own beside theirs."""
    scenario, (trials, alone) = run.scenario, jobs_trials(run)
    checks, sentences = tuple(_checks(run, trials, alone)), list(_sentences(run, trials, alone))
    bad = [each.text for each in checks if each.state is Grade.BAD]
    first = [next((each.text for each in sentences if each.about == about), "") for about in (COST, BIAS)]
    headline = bad[0] if bad else " ".join(filter(None, first))
    return Answer(
        kind="jobs",
        name=scenario.name,
        headline=headline,
        question=scenario.question or "",
        setup=f"{count(len(scenario.jobs), 'job')} on {count(scenario.devices, 'device')}, {scenario.stop.in_words()}",
        description=scenario.description,
        status=str(run.manifest.get("status") or ""),
        verdict=verdict(run.manifest.get("verdict")),
        checks=checks,
        sentences=[each for each in sentences if each.text not in headline],
        tiles=tuple(_tiles(trials, alone)),
        sections=(Section("side-by-side", "The jobs", tuple(_charts(trials, alone)), [_table(run, trials)]),),
        figures=("pace", JOBS),
        origins={"": run_provenance(run.manifest)},
    )


def _checks(run: SharedRun, trials: Trials, alone: Mapping[int, int]) -> Iterator[Check]:
    if stalled := run.manifest.get("stalled"):
        yield Check("ended", Grade.BAD, f"The run stalled and ended there: {stalled}.", remedy=LOWER_COHORT)
    elif run.rounds.is_empty():
        yield Check("ended", Grade.BAD, "Nothing was simulated: the run has no rounds.")
    elif run.failure:
        yield Check("reports", Grade.BAD, f"{capitalized(run.failure)}.", remedy=SEE_SESSIONS)
    yield from expectations(run)
    yield from diverged(trials)
    yield from settled_losses(trials)
    jobs = run.scenario.jobs
    none = [name for name, job in jobs.items() if job.privacy is None]
    if none and len(none) < len(jobs):
        yield Check("promise", Grade.CAUTION, f"No promise covers a user, since {listing(none)} promises nothing.")
    slower = [_pace_lost(trials, row, other) for row, other in alone.items()]
    if max(slower, default=0.0) > _LOST and "matching" not in swept(run):
        rules = ", ".join(registry_of("matching policy").built_in)
        command = command_of(run.manifest, "sweep", {"sweep.grid": f"{{matching: [{rules}]}}"})
        text = f"Sharing the fleet takes up to {percent(max(slower))} of a job's pace."
        remedy = "Sweep `matching`, the rule by which devices choose a job, which shares the pace."
        yield Check("spends", Grade.NONE, text, facts=(UPDATES,), remedy=remedy, command=command, turns=("matching",))
    text = "This is one run: its intervals are of chance within it, and other seeds may differ."
    command = with_seeds(run.manifest, 5)
    yield Check("seeds", Grade.CAUTION, text, "", (), "Repeat it with several seeds.", command)


def _pace_lost(trials: Trials, row: int, other: int) -> float:
    paces = trials.samples(UPDATES)[:, 0]
    return float(np.nan_to_num(1 - paces[row] / paces[other]))


def _sentences(run: Run, trials: Trials, alone: dict[int, int]) -> Iterator[Sentence]:
    """Answer the questions of a reader about several jobs."""
    left = run.metrics["jobs.left_out_share"]
    text = f"{percent(left)} of the devices were selected by no job" if left else "Every device was selected by a job"
    yield Sentence(f"{text}.", WHAT, ("jobs.left_out_share",))
    of_far = _distance(trials)
    places = np.arange(len(trials.settings))
    looks = {
        row: contrasts(trials, of_far, reference=other, eligible=np.isin(places, (row, other)), less_is_better=True)
        for row, other in alone.items()
    }
    looks = dict(zip(looks, tested_together([*looks.values()]), strict=True))
    (far, paces), names = (trials.samples(metric)[:, 0] for metric in (of_far, UPDATES)), list(run.scenario.jobs)
    of_bias, moved, made, lost = wording_of(of_far), list[str](), list[str](), dict[str, float]()
    stands, shifts = set[Standing | None](), list[str]()
    for row, name in enumerate(names):
        look, beside = looks.get(row), ""
        if look is not None and np.isfinite(look.difference[row]):
            stands.add(look.standing(row))
            shifts.append(f"“{name}” {of_bias.difference(look.difference[row], look.tested_half[row])}")
            moved.append(f"“{name}” {of_bias.contrast(look, row)}")
            less = lost[name] = 1 - paces[row] / paces[alone[row]]
            more = f"{percent(abs(less))} {'fewer' if less > 0 else 'more'} than" if less else "as many as"
            beside = f", {more} alone"
        elif np.isfinite(far[row]):
            moved.append(f"“{name}” {of_bias.write(far[row])}")
        pace = f"makes {number(paces[row], 3)} updates per day{beside}" if paces[row] > 0 else "has no report"
        made.append(f"“{name}” {pace}")
    if stands:
        way = "significantly changes" if Standing.DIFFERS in stands else "does not significantly change"
        text = f"In this one run, it {way} how even their reports are."
        open_ = f"It does not significantly change how even reports are: {listing(shifts)}."
        yield Sentence(open_ if stands == {Standing.TIED} else text, BIAS, (of_far,))
    if moved and stands != {Standing.TIED}:
        way = "What sharing adds to the distance of reports" if stands else "Reports are"
        yield Sentence(f"{way}{of_bias.from_uniform} (TV): {'; '.join(moved)}.", BIAS, (of_far,))
    if len(lost) == len(names) and min(lost.values()) >= 0:
        ways = [f"“{name}” {percent(share)}" for name, share in lost.items()]
        made = [f"Sharing the fleet costs {listing(ways)} of the pace that each has alone"]
    yield Sentence(f"{'; '.join(made)}.", COST if moved else BIAS, (UPDATES,))
    for metric in losses_of(trials):
        by_job = zip(trials.settings["name"], trials.samples(metric)[:, 0].tolist(), strict=True)
        ways = [f"{name} {number(value)}" for name, value in by_job if np.isfinite(value)]
        yield Sentence(f"{capitalized(wording_of(metric).words)}: {listing(ways)}.", MODEL, (metric,))
    if (epsilon := run.metrics.get("privacy.user.epsilon")) is not None:
        promised = f"epsilon = {number(epsilon)} at delta = {run.metrics['privacy.user.delta']:g}"
        how = "the sum of the jobs' rho (zCDP) gives it"
        text = f"To one who takes part in all jobs they promise {promised}: {how}."
        yield Sentence(text, TRUST, ("privacy.user.epsilon", "privacy.user.delta"))


def _tiles(trials: Trials, alone: dict[int, int]) -> Iterator[Tile]:
    """Show the pace that the first jobs lose, or have, and their bias, beside those of each alone."""
    of_far = _distance(trials)
    far, paces = (trials.samples(metric)[:, 0] for metric in (of_far, UPDATES))
    for row in range(min(len(trials.settings) - len(alone), 2)):
        name, other = trials.settings["name"][row], alone.get(row)
        pace, beside = number(paces[row], 3), "" if other is None else f"alone: {number(paces[other], 3)}"
        if other is not None and paces[row] < paces[other]:
            lost = percent(_pace_lost(trials, row, other))
            yield Tile(lost, f"of its pace lost by “{name}”", f"{pace} updates per day, {beside}")
        elif np.isfinite(paces[row]):
            yield Tile(pace, f"updates per day of “{name}”", beside)
        if np.isfinite(far[row]):
            beside = "" if other is None else f"alone: {tv(far[other])}"
            yield Tile(tv(far[row]), f"“{name}”,{wording_of(of_far).from_uniform} (TV)", beside)


def _charts(trials: Trials, alone: dict[int, int]) -> Iterator[Chart]:
    """Draw the pace of each job, and its distance from uniform with the interval, beside itself alone."""
    far = _distance(trials)
    rows = list(range(len(trials.settings) - len(alone)))
    order = [each for row in rows for each in (row, alone.get(row)) if each is not None]
    errors, share, paces = trials.errors(far), 50 * trials.samples(far)[:, 0], trials.samples(UPDATES)[:, 0]
    half = np.full(len(share), np.nan) if errors is None else 50 * NORMAL * errors
    unit = f"reports{wording_of(far).from_uniform} (TV, %)"
    ways = (("pace", "Pace of each job", paces, None, "updates per day"), (JOBS, "Bias of each job", share, half, unit))
    for name, title, values, margin, what in ways:
        some = [each for each in order if np.isfinite(values[each]) or each not in alone.values()]
        shared = np.array([row not in alone.values() for row in some])
        names, ends = tuple(trials.settings["name"][row] for row in some), None if margin is None else margin[some]
        yield row_plot(Rows(names, values[some], ends, shared, ("beside the others", "alone"), what, None), name, title)


def _table(run: Run, trials: Trials) -> Table:
    """Show the jobs side by side, and each by itself alone."""
    columns = [column_of(trials, metric) for metric in (UPDATES, TAKEN, _distance(trials), *_SHOWN)]
    note = f"Each job has a page of its own: {JOBS}/NAME/report.html. All figures are in {METRICS}, as job.NAME.METRIC."
    if not all(job.server.selects_once for job in run.scenario.jobs.values()):
        note = f"\N{EN DASH}: a buffered server has no rounds that wait. {note}"
    return setting_table(trials, "The jobs side by side", columns, note=note)
