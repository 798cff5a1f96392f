"""All that can be known to be wrong with a scenario before it is run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fedsim.analysis.metrics.own import Own, made_metrics
from fedsim.availability import open_models
from fedsim.availability.cells import Cells, cells
from fedsim.availability.models import Opened
from fedsim.availability.place import Place
from fedsim.availability.shocks import check_shocks, describe
from fedsim.availability.trace import RecordedAvailability
from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.registry import Findings, brought
from fedsim.experiment.budget import check_budget
from fedsim.experiment.cautions import of_separation, of_shocks
from fedsim.limits.expectations import check_study
from fedsim.population import Population, build_population, check_feasible, residence
from fedsim.scenario import Scenario
from fedsim.scenario.learning import Learning
from fedsim.scenario.server import BufferedServer
from fedsim.scenario.units import format_duration
from fedsim.selection import check_law, theory_of
from fedsim.theory.available_prediction import why_not
from fedsim.theory.prediction import covers

MOST_PROCESSES = 2_000_000


@dataclass(frozen=True)
class Ready:
    """What was made of a scenario to check it.

    Attributes
    ----------
    population, devices
        Its population, and the cells of that.
    own
        Its own metrics.
    notes
        What is worth knowing about its availability models, as what was repaired in its traces.
    """

    population: Population
    devices: Cells
    own: Sequence[Own]
    notes: Sequence[str]


def preflight(scenario: Scenario, replicate: int = 0) -> Population:
    """Return the scenario's population, after checking it as `made_ready` does, with the same errors."""
    return made_ready(scenario, replicate).population


def made_ready(scenario: Scenario, replicate: int = 0) -> Ready:
    """Return what was made of a scenario to see that everything it names exists and fits together.

    Raises
    ------
    ScenarioError
        With every mistake, each with its place in the file.
    """
    if too_much := check_budget(scenario):
        raise ScenarioError(too_much)
    own, of_own = made_metrics(scenario)
    named = [*_check_selection(scenario), *_check_learning(scenario), *of_own]
    opened = open_models(scenario)
    mistakes = [*opened.mistakes, *named, *check_study(scenario, own)]
    try:
        population = build_population(scenario, replicate)
    except ScenarioError as error:
        raise ScenarioError([*error.mistakes, *mistakes]) from None
    mistakes = [*check_shocks(scenario, population), *mistakes]
    mistakes = [*check_feasible(scenario, population), *_check_privacy(scenario, population), *mistakes]
    if scenario.engine == "process" and len(population) > MOST_PROCESSES:
        message = f"the process engine takes up to {MOST_PROCESSES:,} devices, and these are {len(population):,}"
        mistakes.append(scenario.mistake(("engine",), f"{message}; the vectorized engine takes more"))
    mistakes = mistakes or [
        *_check_replays(scenario, population, opened),
        *_check_theory(scenario, population),
        *_check_predicted(scenario, population),
    ]
    if mistakes:
        raise ScenarioError(mistakes)
    models = [opened.models[index] for index in range(len(scenario.population))]
    return Ready(population, cells(scenario, population, models), own, opened.notes)


def _check_selection(scenario: Scenario) -> list[Mistake]:
    choice = scenario.server.selection
    mistakes = [scenario.mistake(("server", "selection", *path), message) for path, message in check_law(choice)]
    if not mistakes and scenario.theory.convergence is not None and theory_of(choice) is None:
        message = f"no theory covers the selection law {choice.kind!r}, so there is no convergence to study"
        return [scenario.mistake(("theory", "convergence"), message)]
    return mistakes


def _check_privacy(scenario: Scenario, population: Population) -> list[Mistake]:
    privacy = scenario.privacy
    if privacy is None:
        return []
    from fedsim.privacy.enforced import enforced
    from fedsim.privacy.guarantee import check_mechanism, guarantee

    path: KeyPath = ("privacy", "mechanism")
    mistakes = [scenario.mistake((*path, *inner), message) for inner, message in check_mechanism(privacy)]
    if privacy.training != "none":
        mistakes += _check_private_training(scenario)
    try:
        bounds = enforced(scenario, population)
        if not mistakes and brought(privacy.mechanism.kind):  # the built-in ones have a guarantee, whatever the bounds
            guarantee(privacy, bounds)
    except ScenarioError as error:
        mistakes += error.mistakes
    except PluginError as error:
        mistakes.append(scenario.mistake(path, str(error)))
    return mistakes


def _check_private_training(scenario: Scenario) -> list[Mistake]:
    from fedsim.learning.optimizers import OPTIMIZERS
    from fedsim.learning.private import can_be_private

    if scenario.learning is None:
        message = "there is no learning, so that no training could clip or add noise"
        return [scenario.mistake(("privacy", "training"), message)]
    mistakes = []
    for index, choice in enumerate(scenario.learning.optimizers):
        if not OPTIMIZERS.check(choice.kind, {}) and not can_be_private(OPTIMIZERS.find(choice.kind)):
            message = (
                f"{choice.kind!r} makes more of the updates than their mean, so that noise on their sum would promise "
                "nothing; privacy.training knows fedavg, fedprox, debiased_fedavg and oracle_weighted"
            )
            mistakes.append(scenario.mistake(("learning", "optimizers", index), message))
    return mistakes


def notes_of(scenario: Scenario, population: Population) -> list[str]:
    """Say what a person should know of a scenario before it is run: of its privacy, its separations and cool-downs."""
    cautions = of_separation(scenario, population.separation, population.cooldown_s)
    return [*_privacy_notes(scenario, population), *describe(scenario), *of_shocks(scenario), *cautions]


def _privacy_notes(scenario: Scenario, population: Population) -> list[str]:
    """Say what the guarantee of a scenario with ``privacy`` does not cover."""
    if scenario.privacy is None:
        return []
    from fedsim.privacy.enforced import caveats

    return [f"privacy: {each}" for each in caveats(scenario, population)]


def _check_replays(scenario: Scenario, population: Population, opened: Opened) -> list[Mistake]:
    """Find the groups whose trace has nobody available while the run lasts, in any of their time zones."""
    duration, mistakes = scenario.stop.duration, []
    within = "after the run begins" if duration is None else f"in the {format_duration(duration)} of the run"
    group, zone, _ = residence(population)
    for index, model in opened.models.items():
        if not isinstance(model, RecordedAvailability):
            continue
        places = [Place(scenario.start, ZoneInfo(population.zone_names[each])) for each in zone[group == index]]
        if not any(model.enterable(place, math.inf if duration is None else duration) for place in places):
            message = (
                f"none of the {len(model.pattern.names):,} devices of the trace is available {within}, so that nobody "
                "can be selected; `since` and `until` say which part of the trace is used, `repeat` and `start` when "
                "it is"
            )
            mistakes.append(scenario.mistake(("population", index, "availability"), message))
    return mistakes


def _check_theory(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the optimizers that want to know from theory what it does not know of this scenario."""
    wanting = {
        "oracle_weighted": ("source", "theory", "log for those of the whole log, or predicted for a mean field's"),
        "debiased_fedavg": ("prior_from", "uniform", "uniform"),
    }
    mistakes = []
    for index, each in enumerate(() if scenario.learning is None else scenario.learning.optimizers):
        key, default, other = wanting.get(each.kind, ("", "", ""))
        if each.options.get(key, default) == "theory" and not covers(scenario, population):
            message = (
                f"theory does not cover this scenario's participation, so it knows no frequencies; write {key}: {other}"
            )
            mistakes.append(scenario.mistake(("learning", "optimizers", index, key), message))
    return mistakes


def _check_predicted(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the optimizers that want to know what cannot be predicted."""
    choices = () if scenario.learning is None else scenario.learning.optimizers
    asking = [
        index
        for index, each in enumerate(choices)
        if each.kind == "oracle_weighted" and each.options.get("source") == "predicted"
    ]
    if not asking or (unknown := why_not(scenario, population)) is None:
        return []
    message = f"the participation cannot be predicted: the mean field does not know of {unknown}"
    return [scenario.mistake(("learning", "optimizers", index, "source"), message) for index in asking]


def _check_learning(scenario: Scenario) -> list[Mistake]:
    learning = scenario.learning
    if learning is None:
        return []
    from fedsim.learning import check_optimizer, check_problem

    checked: list[tuple[KeyPath, Findings]] = [
        (("problem",), check_problem(learning.problem.kind, learning.problem.options)),
        *((("optimizers", i), check_optimizer(each.kind, each.options)) for i, each in enumerate(learning.optimizers)),
    ]
    mistakes = [scenario.mistake(("learning", *at, *path), words) for at, found in checked for path, words in found]
    return mistakes or [*_check_update_clips(scenario, learning), *_check_above_optimum(scenario, learning)]


def _check_update_clips(scenario: Scenario, learning: Learning) -> list[Mistake]:
    if scenario.privacy is not None and scenario.privacy.training != "none":
        return []
    message = "nothing is clipped: give the scenario a mapping privacy, with training: clip or training: noise"
    return [
        scenario.mistake(("learning", "optimizers", index, "update_clip"), message)
        for index, choice in enumerate(learning.optimizers)
        if choice.update_clip is not None
    ]


def _check_above_optimum(scenario: Scenario, learning: Learning) -> list[Mistake]:
    from fedsim.learning import OPTIMIZERS, PROBLEMS
    from fedsim.learning.expected import can_be_expected

    above = {"loss_parts": learning.loss_parts, "target_above_optimum": learning.target_above_optimum is not None}
    problem = PROBLEMS.find(learning.problem.kind)
    mistakes = [
        scenario.mistake(
            ("learning", key),
            f"the optimum of {learning.problem.kind!r} is not known, so that no loss can be told above it; that of "
            "quadratic and softmax_regression is",
        )
        for key, asked in above.items()
        if asked and not hasattr(problem, "rest") and not hasattr(problem, "solve")
    ]
    if not learning.loss_parts:
        return mistakes
    path: KeyPath = ("learning", "loss_parts")
    if isinstance(scenario.server, BufferedServer):
        message = "what clients send on average is known of synchronous rounds alone, and this server is buffered"
        mistakes.append(scenario.mistake(path, message))
    for index, choice in enumerate(learning.optimizers):
        if not can_be_expected(OPTIMIZERS.find(choice.kind)):
            message = (
                f"{choice.kind!r} makes more of the updates than their mean, so that its loss has no such parts; "
                "learning.loss_parts knows fedavg, debiased_fedavg and oracle_weighted"
            )
            mistakes.append(scenario.mistake(("learning", "optimizers", index), message))
    return mistakes
