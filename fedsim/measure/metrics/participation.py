"""Participation: its distance from uniform and theory, how soon all had a turn, the gaps, and what privacy promises."""

import math

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.measure.frequencies import gini, jain, l1
from fedsim.measure.metrics import metric_part
from fedsim.measure.metrics.metric import RunPart, described
from fedsim.measure.noise import by_chance

TENTHS = 10


class Participation:
    """What is said of who took part."""

    metrics = described("""
        participation.l1_uniform | L1 | Distance of the measured frequencies from uniform: sum of |frequency - 1/N|. # better: lower; of: selections; error: participation.l1_uniform_se; reference: participation.l1_chance; label: distance of participation from uniform; needs: clients; short: from uniform
        participation.l1_uniform_se | L1 | Standard error of that distance. # of: selections; needs: clients
        participation.l1_uniform_corrected | L1 | That distance without what noise adds to it. # better: lower; of: selections; low: participation.l1_uniform_low; high: participation.l1_uniform_high; label: distance of participation from uniform without noise; needs: clients; short: from uniform, noise removed
        participation.l1_uniform_low | L1 | Lower end of the 95 % interval of the distance without noise. # of: selections; needs: clients
        participation.l1_uniform_high | L1 | Upper end of that interval. # of: selections; needs: clients
        participation.tv_uniform | share | Total variation distance of the measured frequencies from uniform: half the L1. # better: lower; of: selections; label: distance of participation from uniform (TV); needs: clients
        participation.tv_uniform_corrected | share | That distance without what noise adds to it. # better: lower; of: selections; low: participation.tv_uniform_low; high: participation.tv_uniform_high; needs: clients
        participation.tv_uniform_low | share | Lower end of the 95 % interval of the distance without noise. # of: selections; needs: clients
        participation.tv_uniform_high | share | Upper end of that interval. # of: selections; needs: clients
        participation.pull_l1_uniform | L1 | Distance from uniform of the clients' pulls on the model: the mean of 1{i in S}/|S| over rounds with reports. # better: lower; of: reports; label: distance of the pull on the model from uniform; needs: clients
        participation.pull_tv_uniform | share | Total variation distance of the pulls from uniform: half the L1. # better: lower; of: reports; label: distance of the pull on the model from uniform (TV); needs: clients
        participation.reported_l1_uniform | L1 | L1 distance from uniform counting only the sessions whose report was taken. # better: lower; of: reports; error: participation.reported_l1_uniform_se; label: distance of reports from uniform; needs: clients; short: reports from uniform
        participation.reported_l1_uniform_se | L1 | Standard error of that distance. # of: reports; needs: clients
        participation.reported_l1_uniform_corrected | L1 | That distance, as l1_uniform_corrected. # better: lower; of: reports; low: participation.reported_l1_uniform_low; high: participation.reported_l1_uniform_high; label: distance of reports from uniform without noise; needs: clients; short: reports from uniform, noise removed
        participation.reported_l1_uniform_low | L1 | Lower end of its 95 % interval. # of: reports; needs: clients
        participation.reported_l1_uniform_high | L1 | Upper end of that interval. # of: reports; needs: clients
        participation.reported_tv_uniform | share | Total variation distance of the same: half the L1. # better: lower; of: reports; label: distance of reports from uniform (TV); needs: clients
        participation.reported_tv_uniform_corrected | share | Half of reported_l1_uniform_corrected. # better: lower; of: reports; low: participation.reported_tv_uniform_low; high: participation.reported_tv_uniform_high; needs: clients
        participation.reported_tv_uniform_low | share | Half of reported_l1_uniform_low. # of: reports; needs: clients
        participation.reported_tv_uniform_high | share | Half of reported_l1_uniform_high. # of: reports; needs: clients
        participation.reported_coverage | share | Clients with at least one report that was taken. # better: higher; of: reports; needs: clients
        participation.below_half_fair_share | share | Clients with fewer than half as many reports that were taken as clients have on average. # better: lower; of: reports; needs: clients; short: below half a fair share
        participation.worst_group_ratio | | Share of all reports over the share of the devices, of the group where it is smallest: 1 is even. # better: higher; of: reports; needs: clients; short: worst group, fair shares
        participation.l1_fair | L1 | Distance from uniform that equal long-run frequencies would have, with the noise of this run. # of: selections; needs: clients
        participation.reported_l1_fair | L1 | Distance of reports from uniform that equal long-run frequencies would have, with the noise of this run. # of: reports; needs: clients
        participation.l1_noise | L1 | Distance from the long-run frequencies that sampling noise alone would give. # of: selections; needs: clients
        participation.l1_chance | L1 | Distance from uniform that as many independent draws with equal chances for everybody would have. # of: selections; needs: clients
        participation.mean | | Participations per client, on average. # of: selections; needs: clients
        participation.p99 | | Participations that 99 of 100 clients do not exceed. # of: selections; needs: clients
        participation.most | | Participations of the client that took part most. # of: selections
        participation.never_share | share | Clients that never took part. # better: lower; of: selections; needs: clients; short: never took part
        participation.once_share | share | Clients that took part exactly once. # of: selections; needs: clients
        participation.coverage | share | Clients that took part at least once. # better: higher; of: selections; needs: clients; short: took part
        participation.coverage.t50 | s | Simulated time until half of the clients had taken part. # better: lower; of: selections; needs: clients
        participation.coverage.t90 | s | Simulated time until 90 % of the clients had taken part. # better: lower; of: selections; needs: clients
        participation.ratio | | Largest over smallest frequency among clients that took part. # better: lower; of: selections
        participation.gini | share | Gini coefficient of the participations per client; 0 is even. # better: lower; of: selections; needs: clients
        participation.jain | share | Jain's fairness index of the participations per client; 1 is even. # better: higher; of: selections; needs: clients
        participation.gap.min | rounds | Smallest gap between two participations of a client. # of: selections; needs: rounds
        participation.gap.mean | rounds | Mean gap. # of: selections; needs: rounds
        participation.gap.max | rounds | Largest gap. # of: selections; needs: rounds
    """)  # noqa: E501
    scope = "both"

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return what the clients and their participations say; nothing where nobody took part."""
        clients = len(run.clients)
        counts, frequency = run.clients["participations"].to_numpy(), run.clients["frequency"].to_numpy()
        if not counts.any():
            return {}
        uniform = 1.0 / clients
        metrics = {
            **_distance("", l1(frequency, uniform)),
            "participation.l1_chance": by_chance(int(counts.sum()), clients),
            "participation.mean": float(counts.mean()),
            "participation.p99": float(np.quantile(counts, 0.99, method="inverted_cdf")),
            "participation.most": float(counts.max()),
            "participation.never_share": float((counts == 0).mean()),
            "participation.once_share": float((counts == 1).mean()),
            "participation.coverage": float((counts > 0).mean()),
            "participation.ratio": float(counts.max() / counts[counts > 0].min()),
            "participation.gini": gini(counts),
            "participation.jain": jain(counts),
        }
        counted = run.counted
        for share in (50, 90):
            needed = -(-clients * share // 100)
            if len(counted.firsts_s) >= needed:
                metrics[f"participation.coverage.t{share}"] = float(counted.firsts_s[needed - 1])
        if counted.reported.any():
            metrics["participation.reported_coverage"] = float((counted.reported > 0).mean())
            metrics |= _below_half("participation.", counted.reported, counted.reported)
            if len(sizes := [sum(zones.values()) for zones in run.setting.groups.values()]) > 1:
                taken = np.add.reduceat(counted.reported, np.cumsum([0, *sizes[:-1]])) / sizes
                metrics["participation.worst_group_ratio"] = float(taken.min() / counted.reported.mean())
            shares = {"reported": counted.reported / counted.reported.sum(), "pull": run.clients["pull"].to_numpy()}
            for name, share in shares.items():
                metrics |= _distance(f"{name}_", l1(share, uniform))
        if counted.noise is not None:
            metrics["participation.l1_noise"] = counted.noise.l1
        for of, noise in (("", counted.noise), ("reported_", counted.reported_noise)):
            if noise is not None:
                metrics[f"participation.{of}l1_uniform_se"] = noise.se
                metrics[f"participation.{of}l1_fair"] = noise.fair
                for name in ("corrected", "low", "high"):
                    metrics |= _distance(of, getattr(noise, name), f"_{name}")
        if counted.gaps is not None:
            gaps, total, least, most = counted.gaps
            metrics["participation.gap.min"] = float(least)
            metrics["participation.gap.mean"] = total / gaps
            metrics["participation.gap.max"] = float(most)
        return metrics


def _below_half(of: str, reported: Ints, everyone: Ints) -> dict[str, float]:
    """Return the share of some clients whose reports are fewer than half of what all clients have on average."""
    return {f"{of}below_half_fair_share": float((2 * len(everyone) * reported < everyone.sum()).mean())}


def _distance(of: str, l1_uniform: float, which: str = "") -> dict[str, float]:
    """Return a distance from uniform by its names: L1, and the total variation, which is half of it."""
    return {f"participation.{of}{kind}_uniform{which}": l1_uniform / part for kind, part in (("l1", 1), ("tv", 2))}


class AgainstTheory:
    """Distances from the predicted frequencies."""

    metrics = described("""
        participation.l1_uniform_theory | L1 | Distance from uniform that theory predicts. # better: lower; of: selections; label: distance from uniform in theory
        participation.l1_chain | L1 | Distance of the measured frequencies from those that theory predicts. # better: lower; of: selections; label: distance from theory; reference: participation.l1_noise
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return the distances; nothing where there is no theory."""
        if run.clients["pi"].null_count():
            return {}
        pi = run.clients["pi"].to_numpy()
        metrics = {"participation.l1_uniform_theory": l1(pi, 1.0 / len(run.clients))}
        if run.clients["participations"].sum():
            metrics["participation.l1_chain"] = l1(run.clients["frequency"].to_numpy(), pi)
        return metrics


class GroupShares:
    """A group's share of all participations, measured and predicted."""

    metrics = described("""
        share | share | Share of all participations that went to the group. # of: selections; label: share of all participations
        share_theory | share | That share as theory predicts it. # of: selections; label: share of all participations by theory
        ratio | | That share over the group's share of the devices: 1 is even. # of: selections; label: participation in multiples of a fair share; needs: clients; short: fair shares
        reported_share | share | Share of all reports that were taken. # of: reports; label: share of all reports
        pull | share | Share of the pull on the model. # of: reports; needs: rounds
        below_half_fair_share | share | Clients of the group with fewer than half as many reports that were taken as all clients have on average. # better: lower; of: reports; needs: clients
        reported_ratio | | Share of all reports over the group's share of the devices: 1 is even. # of: reports; label: reports in multiples of a fair share; needs: clients; short: fair shares
    """)  # noqa: E501
    scope = "groups"

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return the shares of one group."""
        assert run.whole is not None
        everyone, metrics = run.whole.clients, dict[str, float]()
        if total := int(everyone["participations"].sum()):
            metrics["share"] = int(run.clients["participations"].sum()) / total
            metrics["ratio"] = metrics["share"] / (len(run.clients) / len(everyone))
        if total := int(everyone["reported"].sum()):
            metrics["reported_share"] = int(run.clients["reported"].sum()) / total
            metrics |= _below_half("", run.clients["reported"].to_numpy(), everyone["reported"].to_numpy())
            metrics["pull"] = math.fsum(everyone["pull"].gather(run.clients["client"]).to_list())
        if not run.clients["pi"].null_count():
            metrics["share_theory"] = math.fsum(run.clients["pi"].to_list())
        return metrics


class Separation:
    """How far apart a client's contributions were."""

    metrics = described("""
        participation.separation.least | rounds | Fewest rounds from one report of a client that was taken to its next: b, observed. # of: reports; needs: rounds
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return it; nothing where nobody contributed twice."""
        contributions = run.counted.contributions
        least = None if contributions is None else contributions.least_separation
        return {} if least is None else {"participation.separation.least": float(least)}


class Promised:
    """What the scenario's ``privacy`` promises: it follows from the scenario alone, not from the log."""

    metrics = described("""
        privacy.epsilon | | Promised at the scenario's delta: one client, zeroed out; exact for the Gaussian mechanism. # better: lower; label: epsilon
        privacy.epsilon_if_known | | With amplification by sampling: what is left of it once the schedule is known.
        privacy.rho | | The zCDP of the same promise: 1 / (2 noise_multiplier^2).
        privacy.sensitivity | | Of the mechanism, for the rounds, separation and cap that the scenario enforces.
        privacy.noise_multiplier | | Standard deviation of the noise over clip norm and sensitivity.
        privacy.rounds | rounds | Most rounds that the scenario allows: n, promised.
        privacy.separation | rounds | Fewest rounds from one participation of a client to its next: b, promised.
        privacy.most | | Most participations of a client: k, promised.
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return the promise; nothing where the scenario has no ``privacy``."""
        return {f"privacy.{name}": value for name, value in run.setting.privacy.items()}


class Tenths:
    """How often each tenth of the devices takes part, each time zone and class, by selections and by reports."""

    metrics = described("""
        participation.by_availability.TENTH | | Participations per device of a tenth of the devices by available time (1: least, 10: most), over the average: 1 is even. # of: selections; needs: clients
        participation.by_speed.TENTH | | Participations per device of a tenth of the devices by speed (1: slowest, 10: fastest), over the average: 1 is even. # of: selections; needs: clients
        participation.by_zone.most | | Share of the participations over share of the devices, of the time zone where it is largest. # of: selections; needs: clients
        participation.by_zone.least | | Share of the participations over share of the devices, of the time zone where it is smallest. # of: selections; needs: clients
        participation.reported_by_availability.TENTH | | Like by_availability, of the reports that were taken. # of: reports; needs: clients
        participation.reported_by_weight.TENTH | | Like reported_by_speed, of a tenth of the devices by weight (1: heaviest, 10: lightest). # of: reports; needs: clients
        zone.ZONE.below_half_fair_share | share | Clients of a time zone with fewer than half as many reports that were taken as all clients have on average. # better: lower; of: reports; needs: clients
        zone.ZONE.reported_ratio | | Share of all reports over the share of the devices, of a time zone: 1 is even. # of: reports; needs: clients
        class.CLASS.below_half_fair_share | share | Clients of a class of devices with fewer than half as many reports that were taken as all clients have on average. # better: lower; of: reports; needs: clients
        class.CLASS.reported_ratio | | Share of all reports over the share of the devices, of a class of devices: 1 is even. # of: reports; needs: clients
        participation.reported_by_speed.TENTH | | Like by_speed, of the reports that were taken. # of: reports; needs: clients
        participation.reported_by_zone.most | | Like by_zone.most, of the reports that were taken. # of: reports; needs: clients
        participation.reported_by_zone.least | | Like by_zone.least, of the reports that were taken. # of: reports; needs: clients
        participation.availability.TENTH | share | Share of the run for which a device of that tenth was available, on average. # needs: clients
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return those of quantities that differ; nothing where no device took part, or fewer than ten are known."""
        reported, counts = run.clients["reported"].to_numpy(), run.clients["participations"].to_numpy()
        metrics = _tenths(run, "participation.by", counts) | _tenths(run, "participation.reported_by", reported)
        zones = run.clients["time_zone"].unique().sort().to_list()
        for zone in zones if len(zones) > 1 and reported.any() else ():
            in_zone = reported[(run.clients["time_zone"] == zone).to_numpy()]
            metrics |= _below_half(f"zone.{metric_part(zone)}.", in_zone, reported)
        for name, members in () if run.setting.taken is None or not reported.any() else run.setting.taken.by_class():
            metrics |= _below_half(f"class.{name}.", reported[members], reported)
            metrics[f"class.{name}.reported_ratio"] = float(reported[members].mean() / reported.mean())
        return metrics


def _tenths(run: RunPart, name: str, counts: Ints) -> dict[str, float]:
    if not counts.any():
        return {}
    metrics = _by_tenth(f"{name}_speed", run.clients["speed"].to_numpy(), counts, counts.mean())
    if run.available is not None:
        followed, share = run.available.clients, run.available.share
        sample = counts[followed]
        if sample.any():
            metrics |= _by_tenth(f"{name}_availability", share, sample, sample.mean())
            metrics |= _by_tenth("participation.availability", share, share)
    zones = run.clients["time_zone"].unique().sort()
    if len(zones) > 1:
        of_zone = run.clients["time_zone"].cast(pl.Enum(zones)).to_physical().to_numpy()
        each = np.bincount(of_zone, weights=counts) / np.bincount(of_zone) / counts.mean()
        metrics |= {f"{name}_zone.most": float(each.max()), f"{name}_zone.least": float(each.min())}
    return metrics


def _by_tenth(name: str, key: Floats, values: Floats | Ints, unit: float = 1.0) -> dict[str, float]:
    if len(key) < TENTHS or key.min() == key.max():
        return {}
    return {f"{name}.{number}": float(value) for number, value in enumerate(tenths(key, values / unit), start=1)}


def tenths(key: Floats, values: Floats | Ints) -> Floats:
    """Return the mean value (10,) of each tenth of some devices, in the order of a key.

    Devices of the same key are alike: each tenth that they lie in has its part of all of them, so that their order
    makes no difference.
    """
    _, of_level, sizes = np.unique(key, return_inverse=True, return_counts=True)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    summed = np.concatenate([[0.0], np.cumsum(np.bincount(of_level, weights=values))])
    cuts = np.linspace(0, len(key), TENTHS + 1)
    return np.asarray(np.diff(np.interp(cuts, edges, summed)) / (len(key) / TENTHS), dtype=np.float64)
