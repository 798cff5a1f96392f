"""The tournament of methods: which one debiases best in which regime of noise, local steps, cohorts and memory.

Regimes are the points of ``scenarios/studies/tournament.fedsim.yaml``: a reference, what differs from it in one
respect, and a network. In each, every method has the same budget: 24 candidates over one participation (six lengths of
the step with all else as usual, six drawn from the ladders of its hyperparameters, and twelve beside the best so far);
the best eight over three participations, the best three over five. A value that was best and is the least or largest
tried is tried beyond, until its ladder ends by nature. What was best is written into the scenario, which is run as a
sweep over ten other seeds. `fedsim report` makes the page, and this what docs/learning.md says.
"""

import json
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fedsim import Scenario, simulate
from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import listing, number
from fedsim.log import fingerprint
from fedsim.trials import store
from fedsim.trials.contrasts import paired, rejected
from fedsim.trials.optimizers import MEMORY, by_optimizer, in_case, winners
from fedsim.trials.plan import points_of
from fedsim.trials.results import FIXED, read_results
from fedsim.trials.trials import Trials
from reports.make.kept import REPORTS, SCENARIOS, kept_sweep, read_store, write_store
from reports.make.runs import kept_sweep_page, run_kept_sweep

SCENARIO = SCENARIOS / "studies" / "tournament.fedsim.yaml"
DRAWN = 12  # candidates
BESIDE = 4  # the best, and as often as that three times
HALVING = ((8, 3), (3, 5))  # candidates, and over how many of the tuning seeds
TUNING_SEEDS = (101, 102, 103, 104, 105)
WIDENINGS = 12
AT_ONCE = 200  # optimizers of a scenario
SEEDS = 10

Place = tuple[int, ...]
"""A candidate: the rung on each ladder of its method."""


class Ladder(NamedTuple):
    """Values of a hyperparameter, to its ends by nature."""

    values: tuple[Any, ...]
    drawn: tuple[int, int]  # the first and last rung that candidates are drawn from
    usual: int = 0  # the rung where no one tunes


def steps(first: int, last: int, usual: int = 0) -> Ladder:
    """Return a ladder of half decades from 1e-6 to 1e3, drawn from 10^(first/2) to 10^(last/2)."""
    return Ladder(tuple(float(f"{10 ** (k / 2):.1g}") for k in range(-12, 7)), (first + 12, last + 12), usual + 12)


LENGTH = steps(-5, 0)
DECAY = Ladder((0.0, 0.5, 1.0), (0, 2))  # the exponent by which steps fall
MOMENTUM = Ladder((0.0, 0.5, 0.9, 0.97, 0.99), (0, 2))
SERVER = steps(-1, 1)
PRIOR = Ladder((0, 1, 5, 20, 80, 320, 1280), (0, 3))
CLIP = Ladder((None, 80, 40, 20, 10, 5, 2.5, 1), (0, 5))
WARM_UP = Ladder((0, 30, 100, 300, 1000), (0, 3))
INTERVAL = Ladder((1, 3, 10, 20, 50, 150, 500), (2, 4), 2)
AMPLIFICATION = Ladder((1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0), (1, 4), 2)
AGE = Ladder((None, 800, 200, 50, 20, 5, 2), (0, 3))
EXPONENT = Ladder((0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (0, 3), 2)
BETA = Ladder((0.0, 0.5, 0.9, 0.97, 0.99), (0, 3), 2)
BETA_2 = Ladder((0.5, 0.9, 0.99, 0.999, 0.9999), (1, 3), 2)
MU = Ladder((0.0, *(float(f"{10 ** (k / 2):.1g}") for k in range(-6, 7))), (3, 9), 5)


class Regime(NamedTuple):
    """A point of the scenario's sweep."""

    name: str
    law: str
    local_steps: int
    batch: int | None


class Method(NamedTuple):
    """An optimizer of the scenario, and the ladders of all that is tuned of it."""

    name: str  # in the scenario
    words: str  # on pages
    kind: str
    ladders: dict[str, Ladder]
    there: Callable[[Regime], bool] = lambda _: True
    rival: bool = True  # whether it is ranked, or beside the others to compare with


STEPS = {"local_step_size": LENGTH, "decay": DECAY}
ALL = STEPS | {"server": SERVER, "momentum": MOMENTUM}
AMPLIFIED = ALL | {"interval": INTERVAL, "amplification": AMPLIFICATION}
LATE = ALL | {"exponent": EXPONENT}


def _buffered(regime: Regime) -> bool:
    return regime.law == "buffered"


def _beside(name: str, words: str, kind: str, ladders: dict[str, Ladder]) -> Method:
    return Method(name, words, kind, ladders, rival=False)


METHODS = (
    Method("fedavg", "FedAvg", "fedavg", ALL),
    Method("fedprox", "FedProx", "fedprox", ALL | {"mu": MU}, lambda regime: regime.local_steps > 1),
    Method(
        *("debiased", "Debiased FedAvg", "debiased_fedavg"), ALL | {"prior": PRIOR, "clip": CLIP, "warm_up": WARM_UP}
    ),
    Method("fedau", "FedAU", "fedau", ALL | {"cutoff": AGE}),
    Method("fedbuff", "FedBuff", "fedbuff", LATE, _buffered),
    Method("debiased_fedbuff", "Debiased FedBuff", "debiased_fedbuff", LATE | {"clip": CLIP}, _buffered),
    Method("fedvarp", "FedVARP", "fedvarp", ALL),
    Method("mifa", "MIFA", "mifa", ALL),
    Method("scaffold", "SCAFFOLD", "scaffold", ALL),
    Method("amplified", "Amplified FedAvg", "amplified_fedavg", AMPLIFIED),
    Method("amplified_scaffold", "Amplified SCAFFOLD", "amplified_scaffold", AMPLIFIED),
    Method("fedawe", "FedAWE", "fedawe", ALL | {"step_size": steps(-3, 1)}),
    Method("focus", "FOCUS", "focus", ALL | {"server": steps(-5, -2, -4)}),
    Method("area", "AREA", "area", ALL),
    Method("ace", "ACE", "ace", ALL | {"max_age": AGE}),
    Method("fadas", "FADAS", "fadas", STEPS | {"step_size": steps(-5, -1, -4), "beta_1": BETA, "beta_2": BETA_2}),
    _beside("known", "Frequencies known", "oracle_weighted", ALL),
    _beside("debiased_plain", "as in the paper", "debiased_fedavg", {"local_step_size": LENGTH}),
    _beside("debiased_decay", "decaying steps", "debiased_fedavg", STEPS),
    _beside("debiased_clip", "`clip` too", "debiased_fedavg", STEPS | {"clip": CLIP}),
    _beside("debiased_prior", "`prior` too", "debiased_fedavg", STEPS | {"prior": PRIOR}),
    _beside("debiased_warm", "`warm_up` too", "debiased_fedavg", STEPS | {"warm_up": WARM_UP}),
)


def regimes() -> list[Regime]:
    """Return the points of the sweep, in its order."""
    found = []
    for each in points_of(Scenario.load(SCENARIO)):
        learning, server = each.scenario.learning, each.scenario.server
        assert learning is not None
        law = "buffered" if server.buffer is not None else "rounds"
        found.append(Regime(each.scenario.name, law, learning.local_steps, learning.batch_size))
    return found


def there(regime: Regime) -> list[Method]:
    """Return the methods that can differ from others in a regime."""
    return [method for method in METHODS if method.there(regime)]


def optimizer(method: Method, place: Place, rounds: int, name: str) -> dict[str, Any]:
    """Return a candidate as an optimizer of a scenario."""
    own = {key: ladder.values[rung] for (key, ladder), rung in zip(method.ladders.items(), place, strict=True)}
    initial, exponent, eta, beta = (own.pop(key, None) for key in ("local_step_size", "decay", "server", "momentum"))
    found: dict[str, Any] = {"kind": method.kind, "name": name, "local_step_size": initial}
    if exponent:
        scale = rounds // 10
        found["local_step_size"] = {"kind": "power", "initial": initial, "exponent": exponent, "scale": scale}
    if beta:
        found["server"] = {"kind": "momentum", "beta": beta, "step_size": float(f"{eta * (1 - beta):.3g}")}
    elif eta not in {None, 1.0}:
        found["server"] = {"kind": "sgd", "step_size": eta}
    if method.kind == "oracle_weighted":
        found["source"] = "log"
    return found | {key: value for key, value in own.items() if value is not None or key == "cutoff"}


def drawn(method: Method, many: int) -> list[Place]:
    """Return candidates, always the same of a method: each length with all else as it is usual, and then drawn ones."""
    rng, (first, last) = np.random.default_rng(zlib.crc32(method.name.encode())), LENGTH.drawn
    usual = [ladder.usual for ladder in method.ladders.values()]
    found = [(rung, *usual[1:]) for rung in range(first, last + 1)]
    for turn in range(20 * many):
        rungs = [int(rng.integers(ladder.drawn[0], ladder.drawn[1] + 1)) for ladder in method.ladders.values()]
        rungs[0] = first + turn % (last - first + 1)
        if tuple(rungs) not in found and len(found) < many:
            found.append(tuple(rungs))
    return found[:many]


def beside(method: Method, tried: Mapping[Place, Sequence[float]], many: int) -> list[Place]:
    """Return candidates one rung from the best on one ladder, then from the second, and so on."""
    rng, found = np.random.default_rng(len(tried)), list[Place]()
    ladders = list(method.ladders.values())
    for best in ranked(tried):
        moves = [(axis, by) for axis in range(len(ladders)) for by in (-1, 1)]
        for index in rng.permutation(len(moves)).tolist():
            axis, by = moves[index]
            near = (*best[:axis], best[axis] + by, *best[axis + 1 :])
            if 0 <= near[axis] < len(ladders[axis].values) and near not in tried and near not in found:
                found.append(near)
            if len(found) == many:
                return found
    return found


def ranked(tried: Mapping[Place, Sequence[float]]) -> list[Place]:
    """Return candidates, those over the most seeds first, and of these the best first."""
    return sorted(tried, key=lambda place: (-len(tried[place]), float(np.mean(tried[place]))))


def edges(method: Method, tried: Mapping[Place, Sequence[float]]) -> list[Place]:
    """Return what lies beyond the best on each ladder on which it is the least or largest tried."""
    best, found = ranked(tried)[0], list[Place]()
    for axis, ladder in enumerate(method.ladders.values()):
        rungs = {place[axis] for place in tried}
        for rung, by in ((min(rungs), -1), (max(rungs), 1)):
            beyond = best[axis] + by
            if best[axis] == rung and 0 <= beyond < len(ladder.values):
                found.append((*best[:axis], beyond, *best[axis + 1 :]))
    return found


def scores(scenario: Scenario, asked: Sequence[tuple[Method, Place]], seed: int) -> list[float]:
    """Train candidates over one participation: the distance of each, or loss of a network; infinite if it diverged."""
    rounds, metrics = scenario.stop.rounds or 0, dict[str, float]()
    named = [optimizer(method, place, rounds, f"a{k}") for k, (method, place) in enumerate(asked)]
    for first in range(0, len(named), AT_ONCE):
        some = {"learning.optimizers": named[first : first + AT_ONCE], "seed": seed}
        metrics |= simulate(scenario.with_values(some)).metrics
    what = "bias" if any(name.endswith(".bias") for name in metrics) else "average_loss"
    figures = [metrics.get(f"learning.a{k}.{what}", np.inf) for k in range(len(asked))]
    return [each if np.isfinite(each) else np.inf for each in figures]


def tune(index: int, methods: Sequence[Method]) -> dict[str, Any]:
    """Choose a candidate for these methods in a regime by successive halving; return them, and what it took."""
    begin, trained, scenario = time.process_time(), Counter[str](), points_of(Scenario.load(SCENARIO))[index].scenario
    fields: dict[str, dict[Place, list[float]]] = {method.name: {} for method in methods}

    def tries(asked: Mapping[str, Sequence[Place]], seeds: int) -> None:
        """Train these over the first tuning seeds, where they are not yet."""
        for turn, seed in enumerate(TUNING_SEEDS[:seeds]):
            todo = [
                (method, place)
                for method in methods
                for place in asked.get(method.name, ())
                if len(fields[method.name].get(place, ())) <= turn
            ]
            for (method, place), value in zip(todo, scores(scenario, todo, seed) if todo else (), strict=True):
                fields[method.name].setdefault(place, []).append(value)
                trained[method.name] += 1

    tries({method.name: drawn(method, DRAWN) for method in methods}, 1)
    for _ in range(3):
        tries({method.name: beside(method, fields[method.name], BESIDE) for method in methods}, 1)
    for many, seeds in HALVING:
        tries({name: ranked(tried)[:many] for name, tried in fields.items()}, seeds)
    for _ in range(WIDENINGS):
        wider = {method.name: edges(method, fields[method.name]) for method in methods}
        if not any(wider.values()):
            break
        tries(wider, len(TUNING_SEEDS))
    return {
        "chosen": {name: [*ranked(tried)[0]] for name, tried in fields.items()},
        "edges": [method.name for method in methods if edges(method, fields[method.name])],
        "trained": dict(trained),
        "seconds": round(time.process_time() - begin, 1),
    }


def compare(index: int, chosen: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """Return the scores over the seeds of the study of what is not ranked."""
    scenario = points_of(Scenario.load(SCENARIO))[index].scenario
    asked = [(method, tuple(chosen[method.name])) for method in there(regimes()[index]) if not method.rival]
    runs = [scores(scenario, asked, scenario.seed + turn) for turn in range(SEEDS)]
    return {method.name: [run[row] for run in runs] for row, (method, _) in enumerate(asked)}


def with_chosen(text: str, tuning: Mapping[str, Any]) -> str:
    """Return the scenario file with what was best."""
    lines = []
    for each, regime in zip(points_of(Scenario.load(SCENARIO)), regimes(), strict=True):
        chosen, rounds = tuning[regime.name]["chosen"], each.scenario.stop.rounds or 0
        own = [
            optimizer(method, tuple(chosen[method.name]), rounds, method.name)
            for method in there(regime)
            if method.rival
        ]
        lines.append(f"      - {json.dumps(own)}\n")
    return re.sub(r"(    learning\.optimizers:\n)(      - .*\n)*", lambda found: found[1] + "".join(lines), text)


def kept() -> dict[str, Any]:
    """Return what tuning chose, and how long it all took; nothing of it where there is none."""
    found: dict[str, Any] = read_store("tournament", {"tuning": {}})
    return found


def lighten() -> None:
    """Leave who pays out of the results, of which nothing is said; the fingerprint is that of what is left."""
    folder = REPORTS / "sweeps" / "tournament"
    file, about = folder / store.MERGED_FILE, store.read_sweep(folder)
    table = pl.read_parquet(file)
    table.filter(~pl.col("metric").str.contains(r"_of_|\.drawn_").fill_null(value=False)).write_parquet(file)
    store.write_sweep(folder, about | {"fingerprint": None})
    store.write_sweep(folder, about | {"fingerprint": fingerprint(read_results(folder).select(FIXED))})


def run() -> None:
    """Tune what is missing, write the choice into the scenario, run it, keep how long it took, and write the page."""
    known, begin = kept(), time.perf_counter()
    for index, regime in enumerate(regimes()):
        if regime.name not in known["tuning"]:
            found = known["tuning"][regime.name] = tune(index, there(regime))
            found["beside"] = compare(index, found["chosen"])
            write_store("tournament", known)
            sys.stderr.write(f"{regime.name}: {sum(found['trained'].values())} trainings, {found['seconds']} s\n")
    SCENARIO.write_text(with_chosen(SCENARIO.read_text(encoding="utf-8"), known["tuning"]), encoding="utf-8")
    run_kept_sweep("studies/tournament")
    lighten()
    known["wall_s"] = round(known.get("wall_s", 0.0) + time.perf_counter() - begin)
    write_store("tournament", known)
    sys.stderr.write(f"{known['wall_s']} s\n")
    kept_sweep_page("studies/tournament")


LEAST = 1e-6  # distances below are not told apart
HEAD = ("regime", *MEMORY)
HEAD_BESIDE = ("tuned", "ratio", "less", "more")
NETWORK = "Network"


def results() -> Trials:
    """Return the trials of the methods."""
    found = by_optimizer(kept_sweep("tournament"))
    assert found is not None
    return found


def cases_of(found: Trials) -> list[str]:
    """Return the names of the regimes."""
    return [case.strip("\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}") for case in found.meta["cases"]]


def figures_in(found: Trials, case: str) -> Floats:
    """Return the figures, (methods, seeds), in a regime, by its name among the cases."""
    return found.samples(in_case(found.meta["figure"], case))


def _words(name: str) -> str:
    return next(method.words for method in METHODS if method.name == name)


def _distance(value: float) -> str:
    return f"< {number(LEAST, 1)}" if value < LEAST else number(value, 1 if value < 1e-3 else 2)


def by_regime(found: Trials) -> list[list[str]]:
    """Return a row for each regime: who wins within each memory, who ties, and the distance of the first."""
    rows, names = list[list[str]](), found.settings["optimizer"]
    for case, name, cells in zip(found.meta["cases"], cases_of(found), winners(found), strict=True):
        texts = []
        for best in cells:
            ties = [_words(names[row]) for row in best]
            more = listing(ties) if len(ties) < 3 else f"{ties[0]} and {len(ties) - 1} more"
            texts.append(f"{more} ({_distance(float(figures_in(found, case)[best[0]].mean()))})" if best else "")
        rows.append([name.partition(":")[0] if rows else name, *texts])
    return rows


def sentences() -> list[str]:
    """Say who wins how often within each memory, alone or tied."""
    found, said = results(), []
    cells, names = winners(found), found.settings["optimizer"].to_list()
    for column, words in enumerate(MEMORY):
        often = Counter(names[row] for own in cells for row in own[column])
        alone = Counter(names[own[column][0]] for own in cells if len(own[column]) == 1)
        most = max(often.values())
        top = [method.words for method in METHODS if often[method.name] == most]
        sole = listing([f"{_words(name)} {times}" for name, times in alone.most_common(3)])
        of = f"{'is' if len(top) == 1 else 'are'} best or tied in {most} of {len(cells)} regimes"
        said.append(f"{words}: {listing(top)} {of}{sole and f'; alone {sole}'}.")
    return said


def tables_beside() -> tuple[dict[str, Floats], list[str]]:
    """Return the figures, (regimes, seeds), of Debiased FedAvg with more and more tuned, and of known frequencies."""
    found, tuning, names = results(), kept()["tuning"], list(unranked())
    table = {name: np.array([tuning[regime]["beside"][name] for regime in cases_of(found)]) for name in names}
    row = found.settings["optimizer"].to_list().index("debiased")
    table["debiased"] = np.stack([figures_in(found, case)[row] for case in found.meta["cases"]])
    return table, cases_of(found)


def unranked() -> list[str]:
    """Return what is beside the ranked methods, by name."""
    return [method.name for method in METHODS if not method.rival]


VARIANTS = ("debiased_decay", "debiased_clip", "debiased_prior", "debiased_warm", "debiased", "known")


def _against_plain(table: Mapping[str, Floats]) -> tuple[Floats, Bools, Bools]:
    """Return mean ratios of figures to the paper's, (variants, regimes), and where they are told to be less or more."""
    apart = np.stack([np.log(table[name] / table["debiased_plain"]) for name in VARIANTS])
    mean, p = apart.mean(axis=2), paired(apart, np.zeros(apart.shape[2])).p
    differs = rejected(p.ravel()).reshape(p.shape)
    return np.exp(mean), differs & (mean < 0), differs & (mean > 0)


def debiased(table: Mapping[str, Floats], cases: Sequence[str]) -> list[list[str]]:
    """Return a row for each way to tune Debiased FedAvg: its distance against the paper's, and in how many regimes."""
    (ratio, less, more), convex = _against_plain(table), [case != NETWORK for case in cases]
    rows = []
    for row, name in enumerate(VARIANTS):
        words = "all, server too" if name == "debiased" else _words(name)
        typical = float(np.exp(np.log(ratio[row, convex]).mean()))
        rows.append([words, number(typical, 2), str(int(less[row].sum())), str(int(more[row].sum()))])
    return rows


def recommended(table: Mapping[str, Floats], cases: Sequence[str]) -> str:
    """Say what of Debiased FedAvg's options is told to help, where, and what was chosen where all could be."""
    (_, less, _), tuning, better = _against_plain(table), kept()["tuning"], []
    for row, case in zip(*np.nonzero(less[:-1]), strict=True):
        name, regime = VARIANTS[row], cases[case]
        method = next(each for each in METHODS if each.name == name)
        found = optimizer(method, tuple(tuning[regime]["chosen"][name]), 1000, name)
        own = {key: found[key] for key in method.ladders if found.get(key) and key not in {"local_step_size", "server"}}
        exponent = found["local_step_size"]["exponent"] if isinstance(found["local_step_size"], dict) else 0
        setting = [f"`{key}: {value:g}`" for key, value in own.items()]
        setting += [f"steps falling by t^\N{MINUS SIGN}{exponent:g}"] * bool(exponent)
        was, now = (number(float(table[each][case].mean()), 3) for each in ("debiased_plain", name))
        better.append(f"{regime.partition(':')[0]} ({listing(setting)}: {now} for {was})")
    method, none = next(each for each in METHODS if each.name == "debiased"), list[str]()
    for axis, key in enumerate(method.ladders):
        if key in {"prior", "clip", "warm_up", "decay"}:
            times = sum(found["chosen"][method.name][axis] == 0 for found in tuning.values())
            none.append(f"{'decay' if key == 'decay' else f'`{key}`'} in {times}")
    only = f"no option is told from it{f' but in {listing(better)}' if better else ''}"
    chosen = f"Where all could be chosen, the best had no {listing(none)} of {len(tuning)} regimes."
    return f"Recommended: the paper's algorithm, its constant step tuned; {only}. {chosen}"
