"""Which of several settings to choose: each is tuned on seeds of its own, and compared with the others on fresh ones.

A decision answers in stages: by facts of short runs without training, which settings that surely miss a condition do
not survive; where training takes long, coarsely, with few variants and seeds; and in full.

Participation does not depend on training, so one run of a setting trains every variant (step size, clip) over its log.
After each tuning seed the best third of the variants goes on. The settings, each with its best variant, are then run
with seeds that tuned nothing, a few at first; those that can hardly be the best, or surely miss a condition, stop.
All is done by sweeps, each in a folder of its own, which a second call finds done.
"""

import copy
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.common.arguments import path_of
from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ScenarioError, TimeIsOverError
from fedsim.common.files import name_of_file, pasteable, sole_writer
from fedsim.common.progress import Report, silent
from fedsim.learning.components import check_optimizer
from fedsim.measure.grammar import parse_condition
from fedsim.run.files import Provenance
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.learning import OptimizerChoice
from fedsim.selection import needs_feedback
from fedsim.trials.contrasts import contrasts, spent
from fedsim.trials.decision import feasible, open_settings, reached
from fedsim.trials.executors import Backend
from fedsim.trials.plan import Plan, PlannedRun, Point, plan_sweep
from fedsim.trials.stages import Stage, by_facts, choosing_by, coarsely, in_full, is_trained
from fedsim.trials.sweep import Swept, run_sweep
from fedsim.trials.trials import COARSE, COMPARED, FACTS, FINAL, Trials
from fedsim.trials.worker import RunOutcome, Task, work

_STEPS, _CLIPS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.25, 0.5, 1.0, 2.0, 4.0)
"""By what the scenario's own step size and clip are multiplied, where `decide.tune` says nothing."""
_KEPT = 3  # one of so many variants goes on to the next tuning seed
_SEEDS, _TUNING_SEEDS = 8, 3
_FIRST, _MORE = 3, 2  # seeds at first, and with each further stage
_APART = 10**6  # of the tuning seeds from the others
_TRAINED = re.compile(r"learning\.(.+)\.([a-z_]+)")
_ALIKE = {"above_optimum": "loss", "excess_loss": "loss", "average_excess_loss": "average_loss"}
"""What is least for the same variant, and needs no further training."""
_FOR_ALL = {"local_step_size": ("learning.step_size",), "update_clip": ("privacy.clip",)}
"""Where a value of all optimizers stands that an optimizer's own goes before."""
_RISING = {"accuracy"}  # metrics of which more is better
_Tell = Callable[[str], None]


@dataclass(frozen=True)
class Decision:
    """What became of a decision."""

    directory: Path  # holds the folders of the stages
    stages: tuple[Swept, ...]
    whole: bool = True  # whether its time was enough for all of it

    @property
    def final(self) -> Path:
        """The sweep that decides."""
        return self.directory / FINAL


@dataclass(frozen=True)
class _Tuning:
    """What is tuned: an optimizer's variants, and by which of its metrics."""

    index: int  # of the optimizer
    figure: str  # the last part of the metric's name
    grid: dict[str, list[Any]]  # by key of the optimizer, such as ``server.step_size``, or by a whole path

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """Every combination of the values."""
        return [dict(zip(self.grid, row, strict=True)) for row in itertools.product(*self.grid.values())]

    def elsewhere(self, k: int) -> dict[str, Any]:
        """Return the values by path of a variant, outside its optimizer."""
        return {key: value for key, value in self.variants[k].items() if _is_path(key)}

    def run_of(self, k: int) -> str:
        """Name the run that trains a variant: those that differ in the optimizer alone share it."""
        return json.dumps(self.elsewhere(k))

    def path(self, key: str) -> str:
        """Return the path of a key in the scenario."""
        return key if _is_path(key) else f"learning.optimizers.{self.index}.{key}"


def _is_path(key: str) -> bool:
    """Say whether what is tuned stands outside the optimizer; ``server`` is its update: who takes part is chosen."""
    return key.partition(".")[0] in {*Scenario.model_fields} - {"server"}


_Do = Callable[[Plan, str, str], Trials]
"""Does the runs of a stage, kept in a folder and told in words; returns the trials of the decision so far."""


def decide(
    scenario: Scenario,
    directory: str | Path,
    backend: Backend,
    *,
    retries: int = 2,
    timeout: float | None = None,
    provenance: Provenance | None = None,
    progress: Report = silent,
    tell: _Tell = lambda _: None,
    do: Callable[[Task], RunOutcome] = work,
    until: float = math.inf,
    answered: Callable[[Trials], None] = lambda _: None,
) -> Decision:
    """Choose among the settings of a scenario (`choose`), by its `decide`; a second call does only what is missing.

    The arguments, and what is raised, are those of `fedsim.trials.sweep.run_sweep`, but that a decision which runs out
    of time has the answer of the stage before; a `ScenarioError` also says that the scenario does not say what may be
    chosen, or by what. `answered` is called with the trials of each stage that is over.
    """
    for key, example in (("choose", "population.*.separation: [0, 10, 20]"), ("decide", "minimize: METRIC")):
        if not getattr(scenario, key):
            raise ScenarioError([scenario.mistake((), f"has no `{key}`, such as `{key}: {{{example}}}`")])
    provenance = provenance or Provenance(permissions=scenario.permissions)
    folder, done = path_of("directory", directory, "the folder to write"), list[Swept]()
    command = provenance.command("decide", "--out", pasteable(str(folder)))
    how: dict[str, Any] = {"retries": retries, "timeout": timeout, "provenance": provenance, "command": command}
    how |= {"tell": tell, "do": do}
    left: Sequence[int] = range(len(_settings(scenario)))
    last, tuning = in_full(scenario), _tuning(scenario)
    assert last.scenario.decide is not None
    settings, rule = _columns(_settings(last.scenario)), choosing_by(last.scenario.decide)
    plan_sweep(_swept(last.scenario, settings, [], [scenario.seed], decide=rule))  # mistakes, before anything is run

    def doing(stage: Stage, inside: Path) -> _Do:
        looks, part = list[Plan](), stage.about(scenario, len(_settings(scenario)) - len(left))

        def run(plan: Plan, name: str, words: str) -> Trials:
            def named_progress(_what: str, share: float, beside: str = "", /) -> None:
                progress(words, share, beside)

            try:
                done.append(
                    run_sweep(plan, inside / name, backend, progress=named_progress, until=until, part=part, **how)
                )
            except (KeyboardInterrupt, TimeIsOverError):
                if name == FINAL and looks:  # the last look that is whole answers
                    run_sweep(looks[-1], inside / name, backend, part=part, **how)
                raise
            looks[:] = [plan] if name == FINAL else []
            return Trials.read(inside / name, COMPARED if name in {FINAL, FACTS} else name)

        return run

    with sole_writer(folder, "decision"):
        try:
            if (planned := _facts(scenario)) is not None:
                facts, plan = planned
                trials = doing(facts, folder)(plan, FACTS, f"facts of {len(plan.points)} settings")
                answered(trials)
                left = _left(scenario, facts, trials)
            coarse = coarsely(scenario, len(left), {} if tuning is None else tuning.grid) if left else None
            if coarse is not None:
                _go_through(_without_parts(coarse.scenario), doing(coarse, folder / COARSE), left)
                answered(Trials.read(folder))
            if left:
                _go_through(last.scenario, doing(last, folder), left)
                answered(Trials.read(folder))
        except TimeIsOverError as over:
            tell(str(over))
            return Decision(folder, tuple(done), whole=False)
    return Decision(folder, tuple(done))


def _facts(scenario: Scenario) -> tuple[Stage, Plan] | None:
    """Return the first stage and its runs; None where nothing can be run without training."""
    if needs_feedback(scenario.server.selection):
        return None
    with suppress(ScenarioError):
        stage = by_facts(scenario, len(_settings(scenario)))
        if stage.scenario.choose:
            decide, values = stage.scenario.as_written["decide"], _columns(_settings(stage.scenario))
            return stage, plan_sweep(_swept(stage.scenario, values, [], [scenario.seed], decide=decide))
    return None


def _left(scenario: Scenario, facts: Stage, trials: Trials) -> list[int]:
    """Return the settings that may keep the conditions: those that differ in training share their facts."""
    names = [json.dumps({path: each[path] for path in facts.scenario.choose}) for each in _settings(scenario)]
    rows = {name: row for row, name in enumerate(dict.fromkeys(names))}
    return [index for index, name in enumerate(names) if open_settings(trials)[rows[name]]]


def _without_parts(scenario: Scenario) -> Scenario:
    """Return a scenario that trains no more than tells the loss above another by which it chooses."""
    decide, learning = scenario.decide, scenario.learning
    assert decide is not None
    match, metrics = _TRAINED.fullmatch(decide.metric), [parse_condition(each).metric for each in decide.subject_to]
    if learning is None or match is None or match[2] not in _ALIKE or any(map(is_trained, metrics)):
        return scenario
    quiet = {"learning.loss_parts": False, "learning.target_above_optimum": None}
    return scenario.with_values(quiet | ({"learning.reference": "none"} if scenario.chooses_by_optimum else {}))


def planned_decision(scenario: Scenario) -> Plan:
    """Return the runs of the last stage of a decision that drops no setting, its points named by what is chosen.

    A `ScenarioError` has every mistake in a setting.
    """
    stages, scenario = dict[str, Plan](), in_full(scenario).scenario

    def rehearse(plan: Plan, stage: str, _words: str) -> Trials:
        stages[stage] = plan
        return Trials.in_memory(scenario.name, {}, {(point.index, scenario.seed): {} for point in plan.points})

    _go_through(scenario, rehearse, range(len(_settings(scenario))))
    points, runs, last = list[Point](), list[PlannedRun](), stages[FINAL]
    for plan in stages.values():
        at = len(points)
        runs += [PlannedRun(each.run_id(seed), at + each.index, seed) for each in plan.points for seed in plan.seeds]
        points += [replace(each, values={path: each.values[path] for path in scenario.choose}) for each in plan.points]
    points = [replace(each, index=index) for index, each in enumerate(points)]
    droppable = frozenset(each.run_id(seed) for each in last.points for seed in last.seeds[_FIRST:])
    return Plan(scenario, points, [scenario.seed], runs, droppable)


def _settings(scenario: Scenario) -> list[dict[str, Any]]:
    return [dict(zip(scenario.choose, row, strict=True)) for row in itertools.product(*scenario.choose.values())]


def _go_through(scenario: Scenario, do: _Do, left: Sequence[int]) -> None:
    """Tune and compare the settings that are left."""
    settings = [_settings(scenario)[index] for index in left]
    _compare(scenario, settings, _tune(scenario, settings, do), do)


def default_decision_directory(scenario: Scenario) -> Path:
    """Return where a decision is kept unless another folder is asked for: ``decisions/NAME``."""
    return Path("decisions") / name_of_file(scenario.name, "decision")


def _swept(
    scenario: Scenario, values: Mapping[str, list[Any]], tuned: Sequence[str], seeds: list[int], **changes: Any
) -> Scenario:
    """Return the scenario with a sweep over settings, whose values by path go together; some of these are tuned."""
    sweep = {"zip": values, "tuned": tuned, "seeds": seeds}
    place = scenario.mistake(("choose",), "").place
    changes = {"choose": {}, "sweep": sweep, "expect": [], "drift": None, "charts": [], **changes}
    return scenario.with_values(changes, dict.fromkeys(changes, place))


def _columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {path: [each[path] for each in settings] for path in settings[0]}


def _tune(scenario: Scenario, settings: list[dict[str, Any]], do: _Do) -> list[dict[str, Any]]:
    """Return the best variant at each setting; nothing, where nothing is to be tuned."""
    tuning = _tuning(scenario)
    if tuning is None:
        return [{} for _ in settings]
    assert scenario.decide is not None
    alive = [list(range(len(tuning.variants))) for _ in settings]
    scores = np.full((len(settings), len(tuning.variants), scenario.decide.tuning_seeds or _TUNING_SEEDS), np.nan)
    for stage in range(scores.shape[2]):
        points = list[tuple[int, dict[str, Any], list[int]]]()  # setting, values elsewhere, variants
        for row, variants in enumerate(alive):
            for _, together in itertools.groupby(sorted(variants, key=tuning.run_of), key=tuning.run_of):
                alike = list(together)
                points.append((row, settings[row] | tuning.elsewhere(alike[0]), alike))
        values = _columns([each for _, each, _ in points])
        written = (_optimizers(scenario, each)[tuning.index] for _, each, _ in points)
        values["learning.optimizers"] = [
            [_variant(each, tuning.variants[k], k) for k in alike]
            for each, (_, _, alike) in zip(written, points, strict=True)
        ]
        quiet = {"decide": None, "learning.reference": "none", "learning.loss_parts": False, "records.gauges": None}
        seed = (scenario.seed + _APART + stage) % 2**63
        words = f"tuning {stage + 1} of {scores.shape[2]}, {max(map(len, alive))} variants at {len(settings)} settings"
        name = f"tuning-{stage + 1}"
        trials = do(plan_sweep(_swept(scenario, values, ["learning.optimizers"], [seed], **quiet)), name, words)
        for point, variant, _, value in trials.scores(name, f"learning.{tuning.figure}").iter_rows():
            scores[points[point][0], int(variant[1:]), stage] = math.nan if value is None else value
        for row, variants in enumerate(alive):
            order = _best_first(scores[row, variants, : stage + 1], maximize=tuning.figure in _RISING)
            alive[row] = [variants[at] for at in order[: max(1, -(-len(variants) // _KEPT))]]
    return [dict(tuning.variants[variants[0]]) for variants in alive]


def _best_first(scores: Floats, *, maximize: bool) -> list[int]:
    """Order variants by their mean score (variants, seeds); those without one for some seed come last."""
    missing = np.isnan(scores).sum(axis=1)
    mean = np.where(missing < scores.shape[1], np.nansum(scores, axis=1) / np.maximum(1, scores.shape[1] - missing), 0)
    order: list[int] = np.lexsort((-mean if maximize else mean, missing)).tolist()
    return order


def _tuning(scenario: Scenario) -> _Tuning | None:
    """Find what `decide` is about, and the variants of that optimizer; None where nothing is tuned.

    A `ScenarioError` has what `decide.tune` asks for and cannot be tuned.
    """
    decide, learning = scenario.decide, scenario.learning
    assert decide is not None
    labels = [] if learning is None else [each.label for each in learning.optimizers]
    metrics = [decide.metric, *(parse_condition(each).metric for each in decide.subject_to)]
    trained = [(match[1], match[2]) for each in metrics if (match := _TRAINED.fullmatch(each)) and match[1] in labels]
    if learning is None or not trained:
        if decide.tune:
            message = "nothing to tune: neither the metric nor a condition of `decide` is of an optimizer of `learning`"
            raise ScenarioError([scenario.mistake(("decide", "tune"), message)])
        return None
    name, figure = trained[0]
    index, figure = labels.index(name), _ALIKE.get(figure, figure)
    optimizer, privacy = learning.optimizers[index], scenario.privacy
    default = _default_grid(scenario, optimizer)
    given = {
        key: [path for path in scenario.choose if _gives(path, key, index)] for key in (*default, *(decide.tune or {}))
    }
    if decide.tune:
        unfit = {key: f"`choose` gives it by {paths[0]}" for key, paths in given.items() if paths}
        if optimizer.server is None:
            unfit["server.step_size"] = f"the optimizer {name!r} has no `server`"
        if privacy is None or privacy.training == "none":
            unfit["update_clip"] = "nothing is clipped"
        wrong = [
            scenario.mistake(("decide", "tune", key), f"cannot be tuned: {unfit[key]}")
            for key in decide.tune
            if key in unfit
        ]
        if math.prod(map(len, decide.tune.values())) < 2:
            message = "one value leaves nothing to tune: write it into `learning`, or give two"
            wrong.append(scenario.mistake(("decide", "tune"), message))
        wrong = wrong or [
            scenario.mistake(("decide", "tune", key), message)
            for key, values in decide.tune.items()
            for message in _mistakes(scenario, index, key, values)
        ]
        if wrong:
            raise ScenarioError(wrong)
    grid = decide.tune or {}
    if decide.tune is None:
        grid = {key: values for key, values in default.items() if not given[key]}
    return _Tuning(index, figure, {key: list(values) for key, values in grid.items()}) if grid else None


def _mistakes(scenario: Scenario, index: int, key: str, values: Sequence[Any]) -> list[str]:
    """Return what is wrong with the first value of a key that makes no scenario."""
    tries: list[dict[str, Any]] = [{key: value} for value in values]
    if not _is_path(key):
        optimizer = _optimizers(scenario)[index]
        variants = [_variant(optimizer, each, k) for k, each in enumerate(tries)]
        tries = [{"learning.optimizers": variants, "choose": {}, "decide": None}]
    for each in tries:
        try:
            learning = scenario.with_values(each).learning
        except ScenarioError as error:
            return [one.message for one in error.mistakes[:1]]
        checks = [check_optimizer(each.kind, each.options) for each in (learning.optimizers if learning else ())]
        if wrong := [message for findings in checks for _, message in findings]:
            return wrong[:1]
    return []


def _gives(chosen: str, key: str, index: int) -> bool:
    """Say whether a path of `choose` is that of a value that is tuned, of what holds it, or stands in its place."""
    parts = chosen.replace("[", ".").replace("]", "").split(".")
    paths = [key] if _is_path(key) else [f"learning.optimizers.{index}.{key}", *_FOR_ALL.get(key, ())]
    return any(all(a in {b, "*"} for a, b in zip(parts, path.split("."), strict=False)) for path in paths)


def _default_grid(scenario: Scenario, optimizer: OptimizerChoice) -> dict[str, list[float]]:
    """Return values around those of the scenario: of the server's step, else the clients'; and of the clip."""
    learning, privacy, grid = scenario.learning, scenario.privacy, dict[str, list[float]]()
    assert learning is not None
    step = None if optimizer.server is None else optimizer.server.options.get("step_size")
    local = optimizer.local_step_size or learning.step_size
    start: Any = step or (local.initial if local.kind == "constant" else None)
    key = "server.step_size" if step else "local_step_size"
    if isinstance(start, int | float):
        grid[key] = [float(f"{start * factor:.3g}") for factor in _STEPS]
    if privacy is not None and privacy.training != "none" and (clip := optimizer.update_clip or privacy.clip):
        grid["update_clip"] = [float(f"{clip * factor:.3g}") for factor in _CLIPS]
    return grid


def _variant(optimizer: Mapping[str, Any], values: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Return what a setting's `learning.optimizers` has for a variant of an optimizer, called ``v`` and its number."""
    written = Document({**copy.deepcopy(dict(optimizer)), "name": f"v{k}"})
    for path, value in values.items():
        if not _is_path(path):
            written.put(path, value, path)
    return dict(written.data)


def _optimizers(scenario: Scenario, setting: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the optimizers as they are written, as mappings, and so their server updates."""
    there = scenario.with_values({"choose": {}, **(setting or {})}).as_written["learning"]["optimizers"]
    optimizers: list[dict[str, Any]] = [{"kind": each} if isinstance(each, str) else each for each in there]
    for each in optimizers:
        if isinstance(each.get("server"), str):
            each["server"] = {"kind": each["server"]}
    return optimizers


def _compare(scenario: Scenario, settings: list[dict[str, Any]], tuned: Sequence[Mapping[str, Any]], do: _Do) -> None:
    """Run the settings, each as it was tuned, on fresh seeds, and give those that can hardly be the best no more."""
    decide, tuning, values = scenario.decide, _tuning(scenario), _columns(settings)
    assert decide is not None
    changes: dict[str, Any] = {"decide": choosing_by(decide)}
    if tuning is not None:
        changes["learning.optimizers"] = _optimizers(scenario)
        changes["decide"]["tune"] = tuning.grid
        values |= {tuning.path(key): [each[key] for each in tuned] for key in tuned[0]}
    count = decide.seeds or _SEEDS
    seeds = [(scenario.seed + k) % 2**63 for k in range(count)]
    plan = plan_sweep(_swept(scenario, values, [*values][len(scenario.choose) :], seeds, **changes))
    given = np.full(len(settings), min(_FIRST, count))  # seeds of each setting
    looks = [*range(int(given[0]), count, _MORE), count]  # seeds at each
    while True:
        at = int(given.max())
        going = int((given == at).sum())
        words = f"comparing {going} of {len(settings)} settings on {at} seeds"
        runs = [run for run in plan.runs if plan.seeds.index(run.seed) < given[run.point]]
        trials = do(replace(plan, runs=runs), FINAL, words)
        left = still_open(trials, plan.scenario, given == at, float(spent(looks)[looks.index(at)]))
        if at >= count or left.sum() < 2:
            return
        given[left] = min(count, at + _MORE)


def still_open(trials: Trials, scenario: Scenario, going: Bools, level: float) -> Bools:
    """Say which of the settings that are `going` may be the best, at a look that may lose the best at that level."""
    decide = scenario.decide
    assert decide is not None
    less, metric = decide.minimize is not None, decide.metric
    conditions = [parse_condition(each) for each in decide.subject_to]
    values = trials.samples(metric)
    judged = feasible(conditions, [trials.samples(each.metric) for each in conditions], len(going))
    going = going & ~(judged.sure & ~judged.kept)
    eligible = going & judged.kept & reached(metric, values, going & judged.kept)
    best = contrasts(trials, metric, less_is_better=less, eligible=eligible).best
    if best is None:
        return going
    # What misses a condition, as far as these seeds tell, beats nothing, but can be beaten.
    contrast = contrasts(trials, metric, less_is_better=less, reference=best, eligible=going, level=level)
    without = np.isnan(values).all(axis=1) & (np.isfinite(values[best]).sum() < 2)
    return np.asarray(going & (contrast.may_be_best | without))
