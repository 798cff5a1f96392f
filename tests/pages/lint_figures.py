"""What a run measured, computed from its Parquet files by code that shares nothing with fedsim: for the linter."""

import json
import math
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

HOUR_S, DAY_S = 3600.0, 86400.0
OUTCOMES = ("reported", "dropped", "late", "stale", "failed", "aborted")


class Measured:
    """The tables of a run directory, and what they say."""

    def __init__(self, directory: Path) -> None:
        tables = {file.stem: pl.read_parquet(file) for file in directory.glob("*.parquet")}
        self.rounds, self.clients = tables["rounds"].sort("round"), tables["clients"].sort("client")
        self.learning, self.sessions = tables.get("learning"), tables["participations"]
        self.manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        self.metrics: dict[str, float | None] = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
        self.scenario: Mapping[str, Any] = self.manifest["scenario"]
        self.server: Mapping[str, Any] = self.scenario["server"]
        outcome = self.sessions["outcome"].cast(pl.String)
        self.outcome, self.client = outcome.to_numpy(), self.sessions["client"].to_numpy().astype(np.int64)
        self.selections = np.bincount(self.client, minlength=len(self.clients))
        self.reports = np.bincount(self.client[self.outcome == "reported"], minlength=len(self.clients))
        self.group = self.clients["group"].cast(pl.String).to_numpy()

    @property
    def buffered(self) -> bool:
        """Whether its server is."""
        return self.server.get("mode") == "buffered"

    @property
    def simulated_s(self) -> float:
        """How long it was simulated."""
        return float(self.manifest["simulated_s"])

    @property
    def groups(self) -> tuple[str, ...]:
        """Name its groups."""
        return tuple(dict.fromkeys(map(str, self.group)))

    @property
    def named(self) -> set[str]:
        """Everything that a person named in its scenario."""
        return {*self.groups, self.manifest["name"], *named(self.scenario)}

    @property
    def caps(self) -> dict[str, int]:
        """Return the most participations of the clients of a group, for groups in which it is one number."""
        found = {}
        for each in self.scenario["population"]:
            most = (each.get("participations") or {}).get("most")
            most = most.get("value") if isinstance(most, Mapping) else most
            if isinstance(most, int):
                found[str(each["name"])] = most
        return found

    def counts_of(self, group: str) -> tuple[int, int]:
        """Return how often the clients of a group were selected, and how many of their reports were taken."""
        own = self.group == group
        return int(self.selections[own].sum()), int(self.reports[own].sum())

    @cached_property
    def figures(self) -> dict[str, float]:
        """All that can be computed of the tables, by the names that metrics have."""
        return self._of_rounds() | self._of_sessions() | self._of_participation() | self._of_groups() | self._learnt()

    def _of_rounds(self) -> dict[str, float]:
        rounds, found = self.rounds, {"rounds.count": float(len(self.rounds))}
        if self.simulated_s > 0:
            found["rounds.per_day"] = len(rounds) * DAY_S / self.simulated_s
        if not len(rounds):
            return found
        outcomes = rounds["outcome"].cast(pl.String).to_numpy()
        opened, selected, closed = (rounds[f"{name}_s"].to_numpy() for name in ("opened", "selected", "closed"))
        found["rounds.target_share"] = float(np.mean(outcomes == "target"))
        begun = opened if self.buffered else selected
        lasted = (closed - begun)[~np.isnan(begun)]
        if len(lasted):
            found["rounds.duration.mean"] = float(lasted.mean())
            found["rounds.duration.p50"], found["rounds.duration.p95"] = map(float, np.quantile(lasted, [0.5, 0.95]))
        if not self.buffered:
            found["rounds.failed_share"] = float(np.mean(outcomes == "failed"))
            waits = np.where(np.isnan(selected), closed - opened, selected - opened)
            found["rounds.wait.max"] = float(waits.max())
            if self.simulated_s > 0:
                found["rounds.waiting_share"] = min(1.0, float(waits.sum()) / self.simulated_s)
        return found

    def _of_sessions(self) -> dict[str, float]:
        begun, ended = (self.sessions[name].to_numpy() for name in ("selected_s", "ended_s"))
        spent = ended - begun
        found = {"sessions.count": float(len(spent)), "sessions.device_hours": float(spent.sum()) / HOUR_S}
        if len(spent):
            found |= {f"sessions.{each}_share": float(np.mean(self.outcome == each)) for each in OUTCOMES}
            if spent.sum() > 0:
                found["sessions.wasted_share"] = float(spent[self.outcome != "reported"].sum() / spent.sum())
        return found

    def _of_participation(self) -> dict[str, float]:
        found: dict[str, float] = {}
        clients = len(self.clients)
        for name, counts in (("", self.selections), ("reported_", self.reports)):
            if not counts.sum():
                continue
            distance = float(np.abs(counts / counts.sum() - 1 / clients).sum())
            found[f"participation.{name}l1_uniform"], found[f"participation.{name}tv_uniform"] = distance, distance / 2
            found[f"participation.{name}coverage"] = float(np.mean(counts > 0))
            found[f"participation.{name}mean"] = float(counts.mean())
            found[f"participation.{name}most"] = float(counts.max())
            found[f"participation.{name}never_share"] = float(np.mean(counts == 0))
            found[f"participation.{name}once_share"] = float(np.mean(counts == 1))
            ordered = np.sort(counts)
            found[f"participation.{name}p99"] = float(ordered[math.ceil(0.99 * clients) - 1])
        if len(self.reports) and self.reports.sum():
            found |= self._pulls()
        return found

    def _pulls(self) -> dict[str, float]:
        """Return the distance of pulls: each round's weight of one is shared alike by its reports."""
        if self.buffered:
            return {}
        taken = self.outcome == "reported"
        numbers, client = self.sessions["round"].to_numpy()[taken], self.client[taken]
        sizes = np.bincount(numbers)
        if (self.scenario.get("privacy") or {}).get(
            "training", "none"
        ) != "none":  # a sum is divided by the same number in every round
            sizes = np.minimum(sizes, 1)
        share = np.bincount(client, 1.0 / sizes[numbers], len(self.clients))
        pull = share / share.sum()
        distance = float(np.abs(pull - 1 / len(pull)).sum())
        return {"participation.pull_l1_uniform": distance, "participation.pull_tv_uniform": distance / 2}

    def _of_groups(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for group in self.groups if len(self.groups) > 1 else ():
            size = float(np.mean(self.group == group))
            selected, reported = self.counts_of(group)
            if total := int(self.selections.sum()):
                found[f"group.{group}.share"] = selected / total
                found[f"group.{group}.ratio"] = selected / total / size
            if total := int(self.reports.sum()):
                found[f"group.{group}.reported_share"] = reported / total
                found[f"group.{group}.reported_ratio"] = reported / total / size
        return found

    def _learnt(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if self.learning is None:
            return found
        last = int(self.learning["round"].to_numpy().max(initial=-1)) + 1
        for name, rows in self.learning.group_by("optimizer"):
            steps, loss = rows.sort("round")["round"].to_numpy() + 1, rows.sort("round")["loss"].to_numpy()
            if len(late := loss[2 * steps > last]):
                found[f"learning.{name[0]}.loss"] = float(late.mean())
            found[f"learning.{name[0]}.final_loss"] = float(loss[-1])
            found[f"learning.{name[0]}.diverged"] = float(not np.isfinite(loss[-1]))
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def figure(self, quantity: str, scope: str = "", against: str = "") -> float | None:
        """Return what the tables say of a quantity, of a group or an optimizer if these are its scope.

        A loss above another is the difference of both, where `against` names that other.
        """
        if quantity.endswith("excess_loss") or (against and f"learning.{scope}.loss" in self.figures):
            twin = re.search(r"\((.+) under uniform participation\)", against)
            other = f"{twin[1].strip('“”')}_uniform" if twin else against.strip("“”")
            ends = [self.figures.get(f"learning.{name}.loss") for name in (scope, other)]
            return None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
        return next((self.figures[name] for name in _names(quantity, scope) if name in self.figures), None)

    def metric(self, quantity: str, scope: str = "") -> float | None:
        """Return what `metrics.json` says of it: for what the tables alone do not tell."""
        names = _names(quantity, scope)
        return next((self.metrics[name] for name in names if self.metrics.get(name) is not None), None)

    def wrong_metrics(self) -> list[str]:
        """Return which figures of `metrics.json` differ from what the tables say."""
        return [
            f"{name}: {self.metrics[name]} in metrics.json, {value} by the tables"
            for name, value in self.figures.items()
            if self.metrics.get(name) is not None
            and not math.isclose(self.metrics[name] or 0.0, value, rel_tol=1e-6, abs_tol=1e-9)
        ]


class MeasuredSweep:
    """The results of the runs of a sweep directory."""

    def __init__(self, directory: Path) -> None:
        self.sweep: dict[str, Any] = json.loads((directory / "sweep.json").read_text(encoding="utf-8"))
        files = [*(directory / "runs").glob("[!.]*.parquet"), *directory.glob("[!.]*.parquet")]
        tables = [table for file in files if "metric" in (table := pl.read_parquet(file)).columns]
        point_of = {each["run_id"]: each["point"] for each in self.sweep["runs"]}
        rows = [row for table in tables for row in table.select("run_id", "metric", "value").iter_rows()]
        seed_of = {each["run_id"]: each["seed"] for each in self.sweep["runs"]}
        self._by_seed: dict[tuple[str, int], dict[int, float]] = {}
        for run_id, metric, value in dict.fromkeys(rows):
            if value is not None and math.isfinite(value):
                self._by_seed.setdefault((metric, point_of[run_id]), {})[seed_of[run_id]] = value
        self.complete = len({run_id for run_id, *_ in rows})

    @property
    def named(self) -> set[str]:
        """Everything that a person named in it."""
        return named(self.sweep["scenario"]) | {self.sweep["name"]}

    def means(self, metric: str) -> dict[int, float]:
        """Return the mean of a metric over the seeds, by the number of the point."""
        found = ((point, own) for (name, point), own in self._by_seed.items() if name == metric)
        return {point: float(np.mean([*own.values()])) for point, own in found}

    def differences(self, metric: str) -> list[float]:
        """Return the mean difference between each two points, over the seeds that both have."""
        rows = [own for (name, _), own in self._by_seed.items() if name == metric]
        pairs = [(one, other, one.keys() & other.keys()) for one in rows for other in rows]
        return [float(np.mean([one[seed] - other[seed] for seed in both])) for one, other, both in pairs if both]


def _names(quantity: str, scope: str) -> list[str]:
    head, _, rest = quantity.partition(".")
    return [quantity, f"{head}.{scope}.{rest}", f"group.{scope}.{quantity}", f"learning.{scope}.{quantity}"]


def named(scenario: Mapping[str, Any]) -> set[str]:
    """Return what a person named in a scenario: groups, shocks, optimizers."""
    learning = scenario.get("learning") or {}
    things = [*scenario["population"], *(scenario.get("shocks") or ()), *(learning.get("optimizers") or ())]
    return {each["name"] for each in things if isinstance(each, Mapping) and each.get("name")}
