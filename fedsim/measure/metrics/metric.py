"""What a metric is: a name, a unit and a meaning, and a class with one method that measures it of a run or part."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeAlias

import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.files import slices
from fedsim.measure.count import Counted
from fedsim.measure.frequencies import AvailableTime
from fedsim.measure.session_costs import Taken


def updates_of(rounds: pl.DataFrame, *, buffered: bool) -> pl.Series:
    """Return which rounds changed the model: a report was taken; with a buffered server, the buffer filled."""
    return rounds["outcome"] == "target" if buffered else rounds["reported"] > 0


@dataclass(frozen=True)
class Setting:
    """What metrics need to know about the scenario."""

    wanted: int  # clients that a full round selects
    update: int  # reports that a full round, or a version of a buffered server, takes
    start: datetime  # the instant of simulated time 0
    groups: Mapping[str, Mapping[str, int]]  # of the population, in order: how many devices live in which time zones
    concurrency: int | None = None  # places of a buffered server; None with synchronous rounds
    privacy: Mapping[str, float] = field(default_factory=dict)  # what the scenario's `privacy` promises, by name
    fixed_size: bool = True  # whether `wanted` is exact, and not an average as with `bernoulli` and `poisson`
    fixed_divisor: bool = False  # whether the server divides changes by a fixed number, and not by that of the reports
    by_day: bool = False  # whether availability follows the clock
    together: int = 1  # clients that are drawn at once
    # How often an available device checks in at some times (n,), per second; None where devices do not check in.
    check_ins: Callable[[Sequence[float]], Floats] | None = None
    taken: Taken | None = None  # what sessions from work take, counted in the pass; None where there are none


@dataclass(frozen=True)
class RunPart:
    """A run as metrics see it: all of it, or what is about one group.

    A group has all rounds, its own gauges and clients, whose frequencies add up to 1, and a setting with that group
    alone.
    """

    rounds: pl.DataFrame
    gauges: pl.DataFrame
    clients: pl.DataFrame
    setting: Setting
    ended_s: float  # simulated seconds from start to end
    table: pl.DataFrame | pl.LazyFrame  # all participations; `participations` reads those of the part
    counted: Counted  # of the participations of the part
    first: int = 0  # index of the first client of the part
    whole: "RunPart | None" = None  # of a group: the whole run
    available: AvailableTime | None = None  # of the whole run; None where that is not known, or all of the time

    @property
    def updates(self) -> pl.Series:
        """Which rounds changed the model."""
        return updates_of(self.rounds, buffered=self.setting.concurrency is not None)

    def participations(self, *columns: str) -> Iterator[pl.DataFrame]:
        """Yield ``client`` and other columns of the participations in order, some rows at a time.

        They may be larger than the memory. The clients of a group count from its first one.
        """
        for part in slices(self.table, *dict.fromkeys([*columns, "client"])):
            inside = part["client"].is_between(self.first, self.first + len(self.clients) - 1)
            kept = part if inside.all() else part.filter(inside)
            yield kept.with_columns(pl.col("client") - self.first) if self.first else kept

    def of_group(self, group: str, counted: Counted) -> "RunPart":
        """Return the part that is one group, of which this was counted."""
        members = self.clients.filter(group=group)
        relative = members.with_columns(
            frequency=pl.col("participations") / max(int(members["participations"].sum()), 1),
            pull=pl.col("pull") / (float(members["pull"].sum()) or 1.0),
        )
        return replace(
            self,
            gauges=self.gauges.filter(group=group),
            clients=relative,
            setting=replace(self.setting, groups={group: self.setting.groups[group]}),
            counted=counted,
            first=int(members["client"][0]),
            whole=self,
            available=None,
        )


def mean(column: pl.Series) -> float:
    """Return the mean, the same to the last bit on every run: polars may sum in parallel parts."""
    return float(column.to_numpy().mean())


@dataclass(frozen=True)
class Metric:
    """A named figure of a run; words in capitals stand for a name: an optimizer's, a group's, a metric's, an hour.

    Units are ``s``, ``rounds``, ``clients``, ``share`` (0 to 1), ``L1`` (0 to 2), ``1/d``, ``1/h``, ``B`` (bytes),
    ``Wh``, ``g``, or empty for a number.
    """

    name: str  # as in metrics.json
    unit: str = ""
    meaning: str = ""  # one sentence
    label: str = ""  # what sentences call it; else the beginning of the meaning
    short: str = ""  # what heads of tables call it, where that is shorter
    better: str = ""  # ``lower`` or ``higher``, where one of them is
    of: str = ""  # ``reports`` or ``selections``, where it is of one of them
    # Names of the metrics that are the ends of its interval, or its standard error, and what it is judged by
    low: str = ""
    high: str = ""
    error: str = ""
    reference: str = ""
    needs: str = ""  # what a log must tell for it: ``clients`` that never came, ``rounds``, or when they ``opened``

    @property
    def words(self) -> str:
        """What tables and sentences call it."""
        beginning = re.split(r" ?[:;.(]", self.meaning)[0]
        return self.label or beginning[:1].lower() + beginning[1:] or self.name


def described(lines: str) -> tuple[Metric, ...]:
    """Read metrics that are written as a table, a line each: name, unit and meaning, with ``|`` between.

    Behind `` # `` stand the other fields, as ``better: lower; label: distance from theory``.
    """
    return tuple(map(_read, lines.strip().splitlines()))


def _read(line: str) -> Metric:
    about, _, more = line.partition(" # ")
    pairs = (pair.partition(":") for pair in more.split(";") if pair)
    return Metric(*map(str.strip, about.split("|", 2)), **{key.strip(): text.strip() for key, _, text in pairs})


Measure: TypeAlias = float | Sequence[float]


class Measurement(Protocol):
    """Measures one metric, or some that are computed together.

    It declares them as ``metrics``, a `Metric` each, or, where it is one, as ``name``, ``unit`` and ``meaning``.
    ``scope`` says what of: the whole ``run``, where it is not given; ``groups`` for each group of several; ``both``.
    """

    def measure(self, run: RunPart) -> Measure | Mapping[str, Measure]:
        """Return the metric, or by name those that have samples.

        In place of a number it may return one for each day or span, from which value and interval follow.
        """
        ...


LEARNING = described("""
    learning.OPTIMIZER.loss | | Global loss, mean over the evaluations in the last half of its rounds, or of whole days where availability follows the clock. # better: lower; label: loss of OPTIMIZER; short: loss, OPTIMIZER
    learning.OPTIMIZER.grad_norm | | Norm of the global gradient, mean over the last half of the rounds. # better: lower
    learning.OPTIMIZER.final_loss | | Global loss at the last evaluation. # better: lower; label: last loss of OPTIMIZER
    learning.OPTIMIZER.drift | share | Relative change of the mean loss from the third to the fourth quarter of the rounds.
    learning.OPTIMIZER.late_descent | share | Share of the whole descent of the loss between those two quarters.
    learning.OPTIMIZER.moved | | 0 if every evaluation has the loss of the initial model, else 1.
    learning.OPTIMIZER.converged | 0 or 1 | 1 if the model moved, late descent is small, and so is drift or the loss only fluctuates, else 0. # label: the loss of OPTIMIZER has converged
    learning.OPTIMIZER.diverged | 0 or 1 | 1 if the model or the loss was not finite any more at some round, else 0. # label: the training of OPTIMIZER diverged
    learning.OPTIMIZER.diverged_round | rounds | The round after which that was first seen.
    learning.OPTIMIZER.clip | | An adaptive clip, after the last round.
    learning.OPTIMIZER.dropped_updates | | Updates that were not finite, and counted as zero where updates are clipped for privacy.
    learning.OPTIMIZER.accuracy | share | Accuracy on test samples, mean over the last half of the rounds. # better: higher
    learning.OPTIMIZER.average_loss | | Global loss of the mean of the server's models over the last half of the rounds. # better: lower; label: loss of the mean model of OPTIMIZER
    learning.OPTIMIZER.loss_of_worst_tenth | | Mean loss of that model over the tenth of the clients with the highest. # better: lower
    learning.OPTIMIZER.loss_of_tenth_TENTH | | Mean loss of that model over a tenth of the clients by reports (1: fewest, 10: most).
    learning.OPTIMIZER.loss_of_group_GROUP | | Mean loss of that model over the clients of a group.
    learning.OPTIMIZER.accuracy_of_worst_tenth | share | Accuracy on own samples over the tenth with the lowest. # better: higher
    learning.OPTIMIZER.accuracy_of_tenth_TENTH | share | Accuracy on own samples over a tenth of the clients by reports.
    learning.OPTIMIZER.accuracy_of_group_GROUP | share | Accuracy on own samples over the clients of a group.
    learning.OPTIMIZER.loss_of_devices | | Mean loss of that model, over all devices, which may train (learning.held_out). # better: lower
    learning.OPTIMIZER.loss_of_held_out | | Mean loss of that model, over the clients held out. # better: lower
    learning.OPTIMIZER.loss_of_held_out_group_GROUP | | Mean loss of that model, over the clients held out that are as those of a group.
    learning.OPTIMIZER.loss_gap | | Mean loss of the clients held out less that of the devices. # label: loss of OPTIMIZER for clients held out less that for devices; low: learning.OPTIMIZER.loss_gap_low; high: learning.OPTIMIZER.loss_gap_high
    learning.OPTIMIZER.loss_gap_low | | Lower end of its 95 % interval, by clients as draws from all that there might be.
    learning.OPTIMIZER.loss_gap_high | | Upper end of that interval.
    learning.OPTIMIZER.accuracy_of_devices | share | Accuracy of that model on own samples, over all devices, which may train (learning.held_out). # better: higher
    learning.OPTIMIZER.accuracy_of_held_out | share | Accuracy of that model on own samples, over the clients held out. # better: higher
    learning.OPTIMIZER.accuracy_of_held_out_group_GROUP | share | Accuracy of that model on own samples, over the clients held out that are as those of a group.
    learning.OPTIMIZER.accuracy_gap | share | Accuracy of the clients held out less that of the devices. # label: accuracy of OPTIMIZER for clients held out less that for devices; low: learning.OPTIMIZER.accuracy_gap_low; high: learning.OPTIMIZER.accuracy_gap_high
    learning.OPTIMIZER.accuracy_gap_low | share | Lower end of its 95 % interval, by clients as draws from all that there might be.
    learning.OPTIMIZER.accuracy_gap_high | share | Upper end of that interval.
    learning.OPTIMIZER.average_excess_loss | | That loss above the first optimizer's under uniform participation. # better: lower; label: excess loss of the mean model of OPTIMIZER over uniform participation; short: excess loss of mean model, OPTIMIZER
    learning.OPTIMIZER.drawn_loss | | Global loss of a model drawn uniformly from the run: the paper's output rule.
    learning.OPTIMIZER.drawn_grad_norm | | Norm of the global gradient of that model.
    learning.OPTIMIZER.drawn_round | rounds | The round it was drawn from.
    learning.OPTIMIZER.bias | | Distance from the optimum, where it is known, of the mean model over the last half. # better: lower; label: distance of the mean model of OPTIMIZER from the optimum; short: distance from optimum, OPTIMIZER
    learning.OPTIMIZER.last_bias | | Distance from the optimum of the last model, which swings with who takes part at the time. # better: lower; label: distance of the last model of OPTIMIZER from the optimum
    learning.OPTIMIZER.bias_predicted | | Distance from the optimum of the point to which the pulls of the clients lead.
    learning.OPTIMIZER.bias_error | | Distance between that point and the mean model over the last half. # better: lower; label: distance of OPTIMIZER from where theory puts it
    learning.OPTIMIZER.time_to_target | s | Simulated time at which learning.target_loss was first seen to be reached. # better: lower; label: simulated time until the loss of OPTIMIZER reached its target; short: time to target, OPTIMIZER
    learning.OPTIMIZER.rounds_to_target | rounds | Server steps until then. # better: lower; short: rounds to target, OPTIMIZER
    learning.OPTIMIZER.device_hours_to_target | h | Time that devices had spent in sessions by then, useful or not. # better: lower
    learning.OPTIMIZER.sent_mb_to_target | MB | What clients had sent by then. # better: lower
    learning.OPTIMIZER.sent_mb | MB | What clients sent in all their reports that count, with numbers of 4 bytes. # better: lower
    learning.OPTIMIZER.server_mb | MB | What the method keeps at the server at the end, the model included.
    learning.OPTIMIZER.client_mb | MB | What it keeps on each device from one participation to the next.
    learning.OPTIMIZER.excess_loss | | Loss above that of the first optimizer under uniform participation. # better: lower; label: excess loss of OPTIMIZER over uniform participation; short: excess loss, OPTIMIZER
    learning.OPTIMIZER.above_optimum | | Loss above that of the optimum: the sum of the next three. With learning.loss_parts, or where `decide` is by it. # better: lower; label: loss of OPTIMIZER above the optimum; short: loss above optimum, OPTIMIZER
    learning.OPTIMIZER.bias_loss | | What is left of it where each round has what clients send on average: bias, and clipping.
    learning.OPTIMIZER.participation_noise_loss | | What the chance of who takes part when adds to that.
    learning.OPTIMIZER.privacy_noise_loss | | What the noise of privacy adds to that.
""")  # noqa: E501
"""What training says of each optimizer; it is measured where models are trained, in `fedsim.learning`."""

OF_JOBS = described("""
    jobs.left_out_share | share | Devices that no job selected.
    jobs.most_a_day | | Most sessions of a device over all jobs in one day, from midnight to midnight of simulated time.
    privacy.user.epsilon | | What all jobs together promise to one who takes part in each; only where each promises.
    privacy.user.delta | | The delta of that epsilon: the smallest of the jobs' own.
    privacy.user.rho | | What all jobs together promise as zCDP: the sum over the jobs.
    privacy.user.noise_multiplier | | Of one Gaussian mechanism that promises as much.
    job.JOB.METRIC | | Any metric, of one of several jobs on the fleet.
    job.JOB.alone.METRIC | | Any metric of rounds, sessions and participation of a job without the others (`alone`).
""")
"""What is told of several jobs on one fleet; it is measured where they are run, in `fedsim.run`."""
