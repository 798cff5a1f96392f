"""What the sessions from work of a run took: bytes, energy, a share of the battery."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import each_to_ms
from fedsim.log import SPENT
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES


class Taken:
    """What the sessions of a run have taken; sums are whole numbers, which no order of adding changes."""

    def __init__(self, scenario: Scenario, population: Population) -> None:
        self.uplink, self._prices = scenario.server.uplink, scenario.prices  # bits a second that the server can receive
        assert population.device is not None
        self._device = population.device.astype(np.int64)  # place of the class; -1 where sessions have plain times
        left_out = np.array([group.left_out for group in scenario.population])
        self._small = int((~left_out[population.group[population.barred]]).sum())  # devices whose memory is too small
        # Bytes in all, bytes and mJ of sessions whose report was not taken, and ms spent by devices of the fleet
        self.sums = Counter[str]()
        self.peak = 0  # sessions at once, all groups
        self.battery = list[Floats]()  # share of it that each session takes
        self.of_device = np.zeros(len(population), dtype=np.int64)  # mJ
        self._running: Ints = np.empty(0, dtype=np.int64)  # when sessions end that ran at the last selection

    def by_class(self) -> Iterator[tuple[str, Bools]]:
        """Yield the name of each class of devices, where there are several, and which devices (N,) are of it."""
        places = np.unique(self._device[self._device >= 0])
        for place in places.tolist() if len(places) > 1 else ():
            yield DEVICE_CLASSES[place].name, self._device == place

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations, in order."""
        selected, ended = (each_to_ms(part[name].to_numpy()) for name in ("selected_s", "ended_s"))
        self._count(selected, ended)
        work: Bools = part[SPENT[0]].is_not_null().to_numpy()
        client, energy = (part[name].to_numpy()[work].astype(np.int64) for name in ("client", "energy_mj"))
        np.add.at(self.of_device, client, energy)
        self.sums["spent_ms"] += int((ended - selected)[work].sum())
        for prefix, some in (("", part), ("wasted_", part.filter(pl.col("outcome") != "reported"))):
            self.sums.update({f"{prefix}{name}": some[name].sum() for name in SPENT})
        watt_hours = _BATTERY_WH[self._device[client]]
        powered = watt_hours > 0
        self.battery.append(energy[powered] / _MJ_PER_WH / watt_hours[powered])

    def _count(self, selected: Ints, ended: Ints) -> None:
        """Count the sessions that run at each selection; one that ends there does not."""
        ends = np.sort(np.concatenate([self._running, ended]))
        begun = len(self._running) + np.searchsorted(selected, selected, side="right")
        running = begun - np.searchsorted(ends, selected, side="right")
        self.peak = max(self.peak, int(running.max(initial=0)))
        self._running = ends[ends > selected[-1]] if len(selected) else ends

    def figures(self, rounds: int) -> dict[str, float]:
        """Return the metrics; `rounds` changed the model."""
        prices, sums = self._prices, self.sums
        total_wh, took_part = int(self.of_device.sum()) / _MJ_PER_WH, self.of_device[self.of_device > 0]
        figures = {
            **{name: sums[name] for name in ("bytes_down", "bytes_up", "wasted_bytes_down", "wasted_bytes_up")},
            "bytes": sums["bytes_down"] + sums["bytes_up"],
            "energy": total_wh,
            "wasted_energy": sums["wasted_energy_mj"] / _MJ_PER_WH,
            "peak_sessions": float(self.peak),
            "too_small_share": self._small / max(1, int((self._device >= 0).sum())),
        }
        if len(took_part):
            figures |= {
                **({"energy_per_round": total_wh / rounds} if rounds else {}),
                "energy_per_device.mean": total_wh / len(took_part),
                "energy_per_device.max": float(took_part.max()) / _MJ_PER_WH,
            }
        if len(battery := np.concatenate([np.empty(0), *self.battery])):
            figures |= {"battery_share.mean": math.fsum(battery) / len(battery), "battery_share.max": battery.max()}
        if prices is not None:
            of_bytes = prices.gigabyte * figures["bytes"] / 1e9
            hours = prices.device_hour * sums["spent_ms"] / 3_600_000
            figures["cost"] = of_bytes + prices.kilowatt_hour * total_wh / 1000 + hours
            if prices.carbon is not None:
                figures["carbon"] = prices.carbon * total_wh / 1000
        return {f"fleet.{name}": float(value) for name, value in figures.items()}


_MJ_PER_WH = 3.6e6
_BATTERY_WH = np.array([each.battery_wh for each in DEVICE_CLASSES])
