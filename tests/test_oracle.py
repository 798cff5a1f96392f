"""fedsim against a simulator written apart from it, against its own theory, and against SIGKILL: few cases, or many.

`make oracle` runs many; FEDSIM_ORACLE is how many times as many as here, FEDSIM_ORACLE_FROM the first seed.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from fedsim.common.errors import StalledError
from fedsim.log.recorder import InMemoryLog
from fedsim.measure.session_costs import Taken
from fedsim.population import Population, build_population, check_feasible
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.theory.prediction import theory_or_why_not
from tests.oracle import StuckError, World
from tests.worlds import scenario, with_fleet, with_nights, with_partial, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]
TIMES, FROM = int(os.environ.get("FEDSIM_ORACLE", "1")), int(os.environ.get("FEDSIM_ORACLE_FROM", "0"))
MADE = {"times": lambda data, _: data, "fleet": with_fleet, "partial": with_partial, "nights": with_nights}
REPLICATES, ROUNDS, DEALS = 20, 300, 100


def figures(number: int, engine: str, kind: str = "times") -> tuple[np.ndarray, np.ndarray] | None:
    """Return what fedsim and the oracle measure of a world in each replicate; None where one of them stalls.

    How often each client was selected, and reported, and when the last round closed, in seconds; with a fleet also the
    bytes down and up, and the Wh, in all; of partial reports also the local steps of each client.
    """
    data = world(number, buffered=number % 4 == 0 and kind != "nights")
    data = MADE[kind](data, number)
    partial, fleet = "partial" in data["server"], any("work" in each for each in data["groups"])
    case = scenario(data, engine=engine, seed=number)
    population = build_population(case)
    if check_feasible(case, population):
        return None
    ours, theirs = [], []
    try:
        for replicate in range(REPLICATES):
            log = simulate_log(case, population, replicate)
            rows = log.participations
            done = rows.filter(outcome="reported")
            counts = [np.bincount(each["client"].to_numpy(), minlength=len(population)) for each in (rows, done)]
            if partial:
                counts.append(np.bincount(done["client"].to_numpy(), done["steps"].to_numpy(), len(population)))
            totals = taken(case, population, log, replicate) if fleet else []
            ours.append(np.concatenate([*counts, [log.rounds["closed_s"][-1]], totals]))
            other = World(data, seed=1000 * number + replicate)
            (other.versions if "buffer" in data["server"] else other.rounds)()
            names = ("selected", "reported", "steps")[: 2 + partial]
            counted = [[getattr(each, name) for each in other.devices] for name in names]
            totals = np.sum([each.took for each in other.devices], axis=0).tolist() if fleet else []
            theirs.append(np.concatenate([*counted, [other.closed / 1000], totals]))
    except (StalledError, StuckError):
        return None
    return np.array(ours), np.array(theirs)


def taken(case: Scenario, population: Population, log: InMemoryLog, replicate: int) -> list[float]:
    """Return the bytes down and up, and the Wh, of a run with a fleet."""
    if population.device is None:
        return [0.0, 0.0, 0.0]
    found = Taken(case, population)
    found.add(log.participations)
    measured = found.figures(len(log.rounds))
    return [measured[f"fleet.{name}"] for name in ("bytes_down", "bytes_up", "energy")]


def z_of(ours: np.ndarray, theirs: np.ndarray, certain: np.ndarray) -> np.ndarray:
    """Return how far the means are apart, in the standard deviation of that if chance deals out the replicates of both.

    The mean of z**2 over all deals is exactly 1, whatever the law: also of what is rarely not zero, or has heavy tails.
    With a variance for each side it is not, and the rms varies more.
    """
    deviation: np.ndarray = np.sqrt(np.concatenate([ours, theirs]).var(axis=0, ddof=1) * 2 / len(ours))
    return np.where(certain, 0.0, (ours - theirs).mean(axis=0) / np.where(certain, 1.0, deviation))


@pytest.mark.parametrize("kind", MADE)
def test_an_independent_simulator_agrees(kind: str) -> None:
    """The z of all means have rms 1: within three standard deviations of it, in 99.7 % of choices of seeds.

    Figures of a world go together, so that the deviation is computed with its replicates dealt out anew, `DEALS` times:
    0.014 for 280 worlds.
    """
    wanted, number, stalled = 4 * TIMES, FROM, 0
    worlds, count, found = 0, 0, np.zeros(1 + DEALS)  # sums of z**2, as simulated and dealt out anew
    draws = np.random.default_rng(FROM)
    while worlds < wanted:
        number += 1
        began = time.process_time()
        measured = figures(number, ["process", "vectorized"][number % 2], kind)
        took_s = time.process_time() - began
        if measured is None:
            stalled += 1
            sys.stdout.write(f"world {number}: {took_s:.1f} s, refused or stalled\n")
            continue
        worlds += 1
        ours, theirs = measured
        # Bytes are whole numbers in each session, and energy whole mJ.
        size = 1.0 + np.abs(theirs.mean(axis=0))
        certain = np.maximum(ours.std(axis=0), theirs.std(axis=0)) < 1e-12 * size
        apart = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / size
        assert apart[certain].max(initial=0.0) < (1e-11 if kind == "times" else 1e-5), f"world {number}"
        z, both = z_of(ours, theirs, certain), np.concatenate(measured)
        assert np.abs(z).max(initial=0.0) < 4.3, f"world {number}: {z.round(1)}"  # a t of 6
        new = int((~certain).sum())
        sys.stdout.write(f"world {number}: {took_s:.1f} s, {new} figures, sum of z**2 {np.square(z).sum():.2f}\n")
        count += new
        deals = [draws.permutation(2 * REPLICATES) for _ in range(DEALS)]
        dealt = [z_of(both[one[:REPLICATES]], both[one[REPLICATES:]], certain) for one in deals]
        found += [np.square(each).sum() for each in (z, *dealt)]
    rms, null = np.sqrt(found[0] / count), np.sqrt(found[1:] / count)
    told = f"{worlds} worlds, {stalled} more refused or stalled, {count:,} figures, z rms {rms:.3f}"
    sys.stdout.write(f"oracle: {told}; dealt out anew {null.mean():.3f}, with a deviation of {null.std():.3f}\n")
    assert abs(rms - 1.0) < 3.0 * null.std()


def test_theory_is_attached_only_where_it_holds() -> None:
    """The L1 distance of a run from theory is at most 3 times its noise, that of replicates, in 99 % of the worlds."""
    wanted, number, far, refused = 5 * TIMES, FROM, list[int](), 0
    worlds = 0
    while worlds < wanted:
        number += 1
        case = scenario(world(number, always=True, rounds=ROUNDS), seed=number, engine="vectorized")
        population = build_population(case)
        if check_feasible(case, population) or isinstance(theory := theory_or_why_not(case, population), str):
            refused += 1
            continue
        try:
            logs = [simulate_log(case, population, replicate) for replicate in range(4)]
        except StalledError:
            refused += 1
            continue
        worlds += 1
        counts = np.array([np.bincount(log.participations["client"], minlength=len(population)) for log in logs])
        shares = counts / counts.sum(axis=1, keepdims=True)
        noise = float(np.abs(shares - shares.mean(axis=0)).sum(axis=1).mean()) * np.sqrt(4 / 3)
        # Runs of some length cannot be closer to frequencies than one participation of each client.
        least = len(population) / counts[0].sum()
        if float(np.abs(shares[0] - theory.pi).sum()) > 3.0 * noise + least:
            far.append(number)
    sys.stdout.write(f"theory: {worlds} worlds, {refused} more without; far from it: {far}\n")
    assert len(far) <= max(1, worlds // 100)


def test_what_is_refused_fills_not_all_its_rounds() -> None:
    """Scenarios that `validate` refuses for their separations or caps are run all the same."""
    wanted, number, worlds = 3 * TIMES, FROM, 0
    draws = random.Random(7)
    while worlds < wanted:
        number += 1
        data = world(number, always=number % 3 > 0, rounds=draws.choice([5, 40, 120]))
        for each in data["groups"]:
            each["separation"], each["on_off"] = draws.choice([3, 6, 12, 50]), each["on_off"] and (300, 100)
        stop = draws.choice(
            [{"rounds": data["rounds"]}, {"rounds": data["rounds"], "duration": "1h"}, {"duration": "1h"}]
        )
        case = scenario(data, seed=number, stop=stop, engine="vectorized")
        population = build_population(case)
        if not check_feasible(case, population):
            continue
        worlds += 1
        try:
            log = simulate_log(case, population)
        except StalledError:
            continue
        full = log.rounds.filter(log.rounds["selected"] >= max(1, case.sync_server.least))
        assert len(full) < len(log.rounds) or len(full) < (case.stop.rounds or 0), number
    sys.stdout.write(f"refused: {worlds} worlds of {number - FROM}, none of which fills its rounds\n")


RUNS = """
import os, sys
from pathlib import Path
import fedsim.pages
from fedsim import Scenario
from fedsim.run.simulate import record
from fedsim.run.files import Provenance
from fedsim.log import journal
journal.SOONEST_S, journal.PATIENCE = 0.01, 0.0
def page(_, path, **__):
    path.write_text("")
    return path
fedsim.pages.write_report = page
for line in sys.stdin:
    file, folder = line.split()
    if (child := os.fork()) == 0:
        record(Scenario.load(file), Path(folder), Provenance(), resume=True)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
KILLED = """
seed: SEED
stop: {rounds: 500}
engine: ENGINE
population:
  - devices: 30
    separation: 2
    weight: {kind: zipf, exponent: 1}
    availability: {kind: renewal, on: 2h, off: 1h}
    session: {train: {kind: exponential, mean: 60s}}
  - {devices: 30, cooldown: 10m, session: {speed: 0.2}}
  - devices: 30
    joins: {kind: uniform, low: 0s, high: 2h}
    leaves: {kind: exponential, mean: 40h}
    session:
      model: 2MB
      samples: 900
      device: {snapdragon-410: 1, raspberry-pi-zero-2: 1, snapdragon-660: 3}
      needs: 1GB
      link: {down: {kind: lognormal, median: 2Mbps, sigma: 1}, up: 1Mbps}
server:
  cohort: 4
  deadline: 3m
  over_select: 1.5
  secure_aggregation: {threshold: 3, unmasking: 20s, drop_out: 0.1}
  check_ins: {PACE, window: 5m}
  uplink: 500kbps
prices: {gigabyte: 0.1, carbon: 400g}
"""

UNEQUAL = """
seed: SEED
start: 2026-01-05T00:00:00Z
stop: {rounds: 200}
engine: ENGINE
population:
  - devices: 30
    separation: 2
    availability:
      kind: habits
      require: [charging]
      drift: {over: 3d, night_chance: 0.3, plug_in: "20:00"}
      holidays: [{first: 2026-01-06, last: 2026-01-07}]
    session:
      {download: 5s, train: {kind: exponential, mean: 80s}, upload: 2s, speed: {kind: lognormal, median: 1, sigma: 1}}
  - devices: 30
    availability: {kind: renewal, on: 5m, off: 5m}
    session: {download: 5s, train: 60s, upload: 2s}
server:
  {cohort: 6, over_select: 1.5, deadline: 70s, pause: 10m, shortage: proceed, partial: true, cooldown_from: reported}
learning:
  problem: {kind: sampled_quadratic, samples: 20, clusters: 2, cluster_spread: 1}
  optimizers:
    - fedavg
    - fednova
    - {kind: feddyn, mu: 5}
    - {kind: debiased_fedavg, counts: steps, forgetting: 0.02}
  local_steps: STEPS
  step_size: 0.02
  batch_size: 5
  held_out: 20
  reference: uniform
"""


@pytest.mark.parametrize("text", [KILLED, UNEQUAL], ids=["fleet", "unequal"])
def test_runs_that_are_killed_resume_to_the_same_bytes(tmp_path: Path, text: str) -> None:
    """SIGKILL at random instants, several times in a row; the tables and figures are those of a run that was not.

    One process, which has imported fedsim, forks for each run and waits for it.
    """
    wanted, kills, draws, runs = 2 * TIMES, 0, random.Random(FROM), FROM
    with subprocess.Popen([sys.executable, "-c", RUNS], stdin=PIPE, stdout=PIPE, text=True) as forks:
        asked, told = forks.stdin, forks.stdout
        assert asked is not None
        assert told is not None

        def run(file: Path, folder: Path, killed_after_s: float | None = None) -> bool:
            """Run a scenario in a process of its own, and say whether it was killed."""
            print(file, folder, file=asked, flush=True)
            process = int(told.readline())
            if killed_after_s is not None:
                time.sleep(killed_after_s)
                with suppress(ProcessLookupError):  # it is over
                    os.kill(process, signal.SIGKILL)
            status = int(told.readline())
            assert status in {0, signal.SIGKILL}
            return status != 0

        while kills < wanted:
            runs += 1
            file = tmp_path / f"{runs}.fedsim.yaml"
            engine, pace = ["process", "vectorized"][runs % 2], ["every: 20m", "wanted: 12"][runs // 2 % 2]
            steps = ["8", "{kind: deadline, most: 12}", "{kind: uniform, low: 1, high: 9}"][runs % 3]
            written = text.replace("SEED", str(runs)).replace("ENGINE", engine).replace("PACE", pace)
            file.write_text(written.replace("STEPS", steps))
            plain, killed = tmp_path / f"plain-{runs}", tmp_path / f"killed-{runs}"
            run(file, plain)  # it may compile what the next one finds compiled
            begun = time.monotonic()
            run(file, tmp_path / f"again-{runs}")
            long_s = time.monotonic() - begun
            kills += sum(run(file, killed, draws.uniform(0.0, 0.8 * long_s)) for _ in range(4))
            run(file, killed)
            tables = sorted(each.name for each in plain.iterdir() if each.suffix == ".parquet")
            assert len(tables) > 2
            for name in [*tables, "metrics.json"]:
                assert (plain / name).read_bytes() == (killed / name).read_bytes(), name
    sys.stdout.write(f"kills: {kills} in {runs - FROM} runs, all with the same bytes\n")
