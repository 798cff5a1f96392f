"""The names of all metrics, with their units and meanings."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Metric:
    """A named figure of a run; words in capitals stand for a name: an optimizer's, a group's, a metric's, an hour.

    Attributes
    ----------
    name
        As in ``metrics.json``.
    unit
        ``s``, ``rounds``, ``clients``, ``share`` (0 to 1), ``L1`` (0 to 2), ``1/d``, ``1/h``, or empty for a number.
    meaning
        One sentence.
    """

    name: str
    unit: str
    meaning: str


_PLACEHOLDER = re.compile(r"[A-Z]{2,}")
_LISTED = """
rounds.count | | Rounds that were opened; with a buffered server, its versions are the rounds.
rounds.selected_mean | clients | Clients selected in a round, on average over rounds that selected any.
rounds.reported_mean | clients | Reports taken in a round, on average over rounds that selected any.
rounds.target_share | share | Rounds that closed because enough had reported.
rounds.shortage_share | share | Synchronous rounds that waited, were skipped or went on with fewer clients than wanted.
rounds.wait.mean | s | From the opening of a synchronous round until it selects, on average.
rounds.wait.p95 | s | The same, 95th percentile.
rounds.duration.mean | s | From selection until the close, on average; of a version, from its beginning until its step.
rounds.duration.p50 | s | The same, median.
rounds.duration.p95 | s | The same, 95th percentile.
rounds.per_day | 1/d | Rounds per day of simulated time.
sessions.count | | Sessions, which is to say participations.
sessions.reported_share | share | Sessions whose report was taken.
sessions.dropped_share | share | Sessions whose device became unavailable.
sessions.late_share | share | Sessions that reported after the deadline.
sessions.stale_share | share | Sessions whose report came more than max_staleness versions late and was discarded.
sessions.aborted_share | share | Sessions that the server ended because the round had closed.
sessions.wasted_share | share | Device time in sessions whose report was not taken, of all device time in sessions.
staleness.mean | rounds | Versions from download to report, on average over all reports; with a buffered server.
staleness.p50 | rounds | The same, median.
staleness.p95 | rounds | The same, 95th percentile.
staleness.max | rounds | The same, largest.
versions.per_hour | 1/h | Steps that a buffered server makes per hour of simulated time.
concurrency.utilisation | share | Places of a buffered server that are taken, on average over time.
participation.l1_uniform | L1 | Distance of the measured frequencies from uniform: sum of |frequency - 1/N|.
participation.l1_uniform_se | L1 | Standard error of that distance, from batch means over rounds.
participation.tv_uniform | share | Total variation distance of the measured frequencies from uniform: half the L1.
participation.reported_l1_uniform | L1 | L1 distance from uniform counting only the sessions whose report was taken.
participation.l1_uniform_theory | L1 | Distance from uniform that theory predicts.
participation.l1_chain | L1 | Distance of the measured frequencies from those that theory predicts.
participation.l1_noise | L1 | Distance from the long-run frequencies that sampling noise alone would give.
participation.coverage | share | Clients that took part at least once.
participation.coverage.t50 | s | Simulated time until half of the clients had taken part.
participation.coverage.t90 | s | Simulated time until 90 % of the clients had taken part.
participation.ratio | | Largest over smallest frequency among clients that took part.
participation.gini | share | Gini coefficient of the participations per client; 0 is even.
participation.jain | share | Jain's fairness index of the participations per client; 1 is even.
participation.gap.min | rounds | Smallest gap between two participations of a client.
participation.gap.mean | rounds | Mean gap.
participation.gap.max | rounds | Largest gap.
population.available_share | share | Share of devices that are available, on average over the gauges.
population.eligible_share | share | Share of clients that are eligible, on average over the gauges.
population.available_share.utc.HOUR | share | Devices that are available at that hour of the day in UTC (00 to 23).
population.available_share.local.HOUR | share | The same by hour of each device's local time.
selection.eligible.mean | clients | Eligible clients at selection, on average; needs records.eligible.
selection.eligible.min | clients | The fewest eligible clients at a selection; needs records.eligible.
group.GROUP.share | share | Share of all participations that went to the group.
group.GROUP.share_theory | share | That share as theory predicts it.
group.GROUP.ratio | | That share over the group's share of the devices: 1 is even.
group.GROUP.METRIC | | Any metric of sessions, staleness, participation or availability for one group of several.
learning.OPTIMIZER.loss | | Global loss, mean over the evaluations in the last half of the rounds.
learning.OPTIMIZER.grad_norm | | Norm of the global gradient, mean over the last half of the rounds.
learning.OPTIMIZER.final_loss | | Global loss at the last evaluation.
learning.OPTIMIZER.drift | share | Relative change of the mean loss from the third to the fourth quarter of the rounds.
learning.OPTIMIZER.late_descent | share | Share of the whole descent of the loss between those two quarters.
learning.OPTIMIZER.converged | | 1 if drift and late descent are small enough to call the run converged, else 0.
learning.OPTIMIZER.diverged | | 1 if the model or the loss was not finite any more at some round, else 0.
learning.OPTIMIZER.accuracy | share | Accuracy on test samples, mean over the last half of the rounds.
learning.OPTIMIZER.average_loss | | Global loss of the mean of the server's models over the last half of the rounds.
learning.OPTIMIZER.average_excess_loss | | That loss above the first optimizer's under uniform participation.
learning.OPTIMIZER.drawn_loss | | Global loss of a model drawn uniformly from the run: the paper's output rule.
learning.OPTIMIZER.drawn_grad_norm | | Norm of the global gradient of that model.
learning.OPTIMIZER.drawn_round | rounds | The round it was drawn from.
learning.OPTIMIZER.bias | | Distance from the optimum, where it is known, of the mean model over the last half.
learning.OPTIMIZER.bias_predicted | | Distance from the optimum of the point to which the frequencies lead.
learning.OPTIMIZER.bias_error | | Distance between that point and the mean model over the last half.
learning.OPTIMIZER.time_to_target | s | Simulated time at which learning.target_loss was first seen to be reached.
learning.OPTIMIZER.rounds_to_target | rounds | Server steps until then.
learning.OPTIMIZER.device_hours_to_target | h | Time that devices had spent in sessions by then, useful or not.
learning.OPTIMIZER.excess_loss | | Loss above that of the first optimizer under uniform participation.
"""

METRICS = tuple(Metric(*(part.strip() for part in line.split("|", 2))) for line in _LISTED.strip().splitlines())


def describe(name: str) -> Metric | None:
    """Return the metric of that name, or None if there is none."""
    for metric in METRICS:
        if fnmatchcase(name, _PLACEHOLDER.sub("*", metric.name)):
            return metric
    return None
