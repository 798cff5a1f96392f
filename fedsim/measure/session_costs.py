"""What sessions from work take: bytes, energy, a share of the battery; cut where a session ended before its time."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import each_to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.population import Population
from fedsim.population.sessions import session_phases, upload_bits, whole_steps
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES
from fedsim.scenario.work import Work


class Taken:
    """What the sessions of a run have taken; sums are whole numbers, which no order of adding changes."""

    def __init__(self, scenario: Scenario, population: Population, replicate: int) -> None:
        works = [group.session if isinstance(group.session, Work) else None for group in scenario.population]
        self.phases = session_phases(scenario, population, stream(scenario.own_seed, replicate, Purpose.SESSION))
        self._steps = whole_steps(scenario, population) if scenario.server.partial else None
        self.uplink, self._prices = scenario.server.uplink, scenario.prices  # bits a second that the server can receive
        # Whether sessions are keyed by the instant of their selection, and not by the round.
        self._by_instant, self._group = not scenario.server.selects_once, population.group
        assert population.device is not None
        self._device = population.device.astype(np.int64)  # place of the class; -1 where sessions have plain times
        # (groups,) bytes that are downloaded, and uploaded.
        self._model = np.array([0.0 if work is None else work.model for work in works])
        self._update = upload_bits(scenario) / 8
        left_out = np.array([group.left_out for group in scenario.population])
        self._small = int((~left_out[population.group[population.barred]]).sum())  # devices whose memory is too small
        # Bytes in all, bytes and mJ of sessions whose report was not taken, and ms spent by devices of the fleet
        self.sums = Counter[str]()
        self.peak = 0  # sessions at once, all groups
        self.battery = list[Floats]()  # share of it that each session takes
        self.of_device = np.zeros(len(population), dtype=np.int64)  # mJ
        self._running: Ints = np.empty(0, dtype=np.int64)  # when sessions end that ran at the last selection
        self._begun: pl.DataFrame | None = None  # of a round of which more may come; its uploads share the uplink

    def by_class(self) -> Iterator[tuple[str, Bools]]:
        """Yield the name of each class of devices, where there are several, and which devices (N,) are of it."""
        places = np.unique(self._device[self._device >= 0])
        for place in places.tolist() if len(places) > 1 else ():
            yield DEVICE_CLASSES[place].name, self._device == place

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations, in order."""
        if self.uplink is not None and len(part):
            part = part if self._begun is None else pl.concat([self._begun, part])
            last = part["round"] == part["round"][-1]
            self._begun, part = part.filter(last), part.filter(~last)
        self._add(part)

    def _add(self, part: pl.DataFrame) -> None:
        client, number = (part[name].to_numpy().astype(np.int64) for name in ("client", "round"))
        selected, ended = (each_to_ms(part[name].to_numpy()) for name in ("selected_s", "ended_s"))
        self._count(selected, ended)
        work = self._device[client] >= 0
        keys, spent = (selected if self._by_instant else number)[work], (ended - selected)[work]
        client = client[work]
        wasted: Bools = (part["outcome"] != "reported").to_numpy()[work]
        lengths, group = self.phases(client, keys), self._group[client]
        if self._steps is not None:
            lengths[1] *= part["steps"].to_numpy()[work] / self._steps[client]
        if self.uplink is not None:
            cut = part["outcome"].is_in(_CUT).to_numpy()[work]
            sent = _together(self.uplink, lengths, keys, self._update[group], spent, cut)
        whole = spent >= each_to_ms(lengths[0] + lengths[1] + lengths[2])
        begins = np.cumsum(lengths, axis=0) - lengths
        parts = np.where(whole, lengths, np.clip(spent / 1000 - begins, 0.0, lengths))
        done = np.divide(parts, lengths, out=np.where(whole, 1.0, 0.0) + np.zeros_like(parts), where=lengths > 0)
        if self.uplink is not None:
            done[2] = sent
        classes = self._device[client]
        down = np.rint(self._model[group] * done[0]).astype(np.int64)
        up = np.rint(self._update[group] * done[2]).astype(np.int64)
        energy = np.rint(1000 * (_POWER_W[classes].T * parts).sum(axis=0)).astype(np.int64)
        np.add.at(self.of_device, client, energy)
        self.sums.update(bytes_down=int(down.sum()), bytes_up=int(up.sum()), spent_ms=int(spent.sum()))
        self.sums.update(wasted_bytes_down=int(down[wasted].sum()), wasted_bytes_up=int(up[wasted].sum()))
        self.sums.update(wasted_mj=int(energy[wasted].sum()))
        powered = _BATTERY_WH[classes] > 0
        self.battery.append(energy[powered] / _MJ_PER_WH / _BATTERY_WH[classes][powered])

    def _count(self, selected: Ints, ended: Ints) -> None:
        """Count the sessions that run at each selection; one that ends there does not."""
        ends = np.sort(np.concatenate([self._running, ended]))
        begun = len(self._running) + np.searchsorted(selected, selected, side="right")
        running = begun - np.searchsorted(ends, selected, side="right")
        self.peak = max(self.peak, int(running.max(initial=0)))
        self._running = ends[ends > selected[-1]] if len(selected) else ends

    def figures(self, rounds: int) -> dict[str, float]:
        """Return the metrics; `rounds` changed the model."""
        if self._begun is not None:
            self._add(self._begun)
            self._begun = None
        prices, sums = self._prices, self.sums
        total_wh, took_part = int(self.of_device.sum()) / _MJ_PER_WH, self.of_device[self.of_device > 0]
        figures = {
            **{name: sums[name] for name in ("bytes_down", "bytes_up", "wasted_bytes_down", "wasted_bytes_up")},
            "bytes": sums["bytes_down"] + sums["bytes_up"],
            "energy": total_wh,
            "wasted_energy": sums["wasted_mj"] / _MJ_PER_WH,
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


def _together(uplink: float, lengths: Floats, number: Ints, update: Floats, spent: Ints, cut: Bools) -> Floats:
    """Make the uploads of whole rounds as long as they took together; return what share of its bytes each sent, (n,).

    A session that was not `cut` may be late and have ended with the run: until then it had its part of the uplink.
    """
    from fedsim.population.uplink import shared  # only where needed: it compiles

    share = np.zeros(len(number))
    for rows in np.split(np.arange(len(number)), np.flatnonzero(np.diff(number)) + 1):
        phases, bits, gone_s = lengths[:, rows], 8 * update[rows], spent[rows] / 1000
        lengths[2, rows], sent = shared(phases, bits, np.where(cut[rows], gone_s, np.inf), uplink)
        whole = (sent == bits) & (spent[rows] >= each_to_ms(phases[0] + phases[1] + lengths[2, rows]))
        if not (whole | cut[rows]).all():
            _, sent = shared(phases, bits, np.where(whole, np.inf, gone_s), uplink)
        share[rows] = sent / bits
    return share


_CUT = [name for name, each in SESSION_OUTCOMES.items() if each.is_cut]
_MJ_PER_WH = 3.6e6
_POWER_W = np.array([(each.down_w, each.train_w, each.up_w) for each in DEVICE_CLASSES])
_BATTERY_WH = np.array([each.battery_wh for each in DEVICE_CLASSES])
