"""What a run of several jobs on one fleet shows: pace and bias of each, who is left out, and what sharing costs."""

import math
from collections.abc import Iterator, Mapping

from fedsim.common.formatting import count, listing, number, percent
from fedsim.measure.metrics import of_jobs
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Certainty, Finding, Tile, command_of
from fedsim.pages.methods import optimizer_of
from fedsim.pages.metric_wording import tv
from fedsim.scenario import Scenario
from fedsim.trials.decision import PACE, REPORTED

ALONE = "alone."
"""What the names of metrics of a job without the others begin with."""

OF_EACH_JOB = "Each job has its own, in the results as job.NAME.METRIC."
"""What is said of several jobs where a figure of one server is asked for."""


def jobs_title(metrics: Mapping[str, float]) -> str:
    """Say how far each job is from uniform participation, and how far it would be alone, where that is known."""
    jobs = of_jobs(metrics)
    verb = {name: f"is {_apart(own)} from uniform{_alone(own)}" for name, own in jobs.items()}
    ways = [f"{name} {verb[name] if REPORTED in own else 'has no report'}" for name, own in jobs.items()]
    return f"Sharing the devices, {listing(ways)}"


def jobs_answer(scenario: Scenario, metrics: Mapping[str, float], manifest: Mapping[str, object]) -> Iterator[Finding]:
    """Answer the questions of a reader about several jobs; the metrics are those of the run."""
    jobs = of_jobs(metrics)
    left = metrics["jobs.left_out_share"]
    text = f"{percent(left)} of the devices were selected by no job" if left else "Every device was selected by a job"
    yield Finding(f"{text}.", WHAT, name="left out", quantity="jobs.left_out_share", value=left)
    shares = [f"{name} {_apart(own)}{_alone(own)}" for name, own in jobs.items()]
    yield Finding(f"From uniform (TV): {listing(shares)}.", BIAS, certainty=Certainty.UNTESTED)
    losses = [f"“{name}” {least}" for name, own in jobs.items() if (least := _least_loss(own))]
    text = f"Lowest loss of each job: {listing(losses)}" if losses else "No model was trained"
    yield Finding(f"{text}.", MODEL, certainty=Certainty.UNTESTED)
    paces = [_pace(name, own) for name, own in jobs.items()]
    yield Finding(f"Rounds a day: {listing(paces)}.", COST, quantity=PACE)
    yield Finding("This is one run, which gives no interval of what a job does to another.", TRUST, warns=True)
    if (epsilon := metrics.get("privacy.user.epsilon")) is not None:
        promised = f"epsilon = {number(epsilon)} at delta = {metrics['privacy.user.delta']:g}"
        how = "the sum of the jobs' rho (zCDP) gives it"
        yield Finding(f"To one who takes part in all jobs they promise {promised}: {how}.", TRUST, value=epsilon)
    elif some := [name for name, job in scenario.jobs.items() if job.privacy is not None]:
        none = [name for name in jobs if name not in some]
        yield Finding(f"No promise covers a user, since {listing(none)} promises nothing.", TRUST, warns=True)
    yield Finding("Repeat it with several seeds.", NEXT, command=command_of(manifest, "sweep", "sweep.seeds=5"))


def _apart(own: Mapping[str, float], of: str = "") -> str:
    return tv(own[of + REPORTED]) if of + REPORTED in own else "no report"


def _alone(own: Mapping[str, float]) -> str:
    return f" (alone {_apart(own, ALONE)})" if ALONE + REPORTED in own else ""


def _least_loss(own: Mapping[str, float]) -> str:
    """Return the lowest loss at the end of a job, with its optimizer; "" where it has none."""
    ends = [(value, optimizer_of(metric, "final_loss")) for metric, value in own.items() if math.isfinite(value)]
    loss, name = min((each for each in ends if each[1]), key=lambda each: each[0], default=(0.0, ""))
    return f"{number(loss, 3)} ({name})" if name else ""


def _pace(name: str, own: Mapping[str, float]) -> str:
    alone = own.get(ALONE + PACE)
    return f"{name} {number(own.get(PACE, 0.0), 3)}" + ("" if alone is None else f" (alone {number(alone, 3)})")


def jobs_tiles(scenario: Scenario, metrics: Mapping[str, float]) -> Iterator[Tile]:
    """Return the key figures."""
    yield Tile(count(len(scenario.jobs)), "jobs", f"matched by {scenario.matching_policy.kind}")
    yield Tile(count(scenario.devices), "devices", scenario.stop.in_words())
    yield Tile(percent(metrics["jobs.left_out_share"]), "of the devices left out by all jobs")
    limit = "no limit" if scenario.most_a_day is None else f"limit {scenario.most_a_day:,}"
    yield Tile(count(metrics["jobs.most_a_day"]), "sessions of a device in a day at most", limit)
