"""Checks a scenario before it is run."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from inspect import signature
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability import open_models
from fedsim.availability.civil import Place
from fedsim.availability.kinds import Opened
from fedsim.availability.population import strata
from fedsim.availability.shocks import check_shocks, describe_shocks
from fedsim.availability.trace import RecordedAvailability
from fedsim.common.errors import FedsimError, KeyPath, Mistake, PluginError, ScenarioError, of_job
from fedsim.common.formatting import listing
from fedsim.common.registry import Findings, is_own
from fedsim.measure.limits import check_study
from fedsim.measure.metrics.own import made_metrics
from fedsim.population import Population, build_population, check_feasible, residence
from fedsim.run import cautions
from fedsim.run.budget import check_budget
from fedsim.run.check import Grade
from fedsim.run.federation import PreparedFederation
from fedsim.run.repeated import unrepeatable
from fedsim.scenario import Scenario
from fedsim.scenario.learning import Learning
from fedsim.scenario.sources import ByDeadline, ByEpochs
from fedsim.scenario.units import format_duration
from fedsim.selection import check_law, needs_feedback, theory_of
from fedsim.selection.matching import POLICIES
from fedsim.theory import available_prediction
from fedsim.theory.prediction import known_pulls
from fedsim.theory.question import largest_separation

MOST_PROCESSES = 2_000_000


def preflight(scenario: Scenario, replicate: int = 0, *, live: bool = False) -> PreparedFederation:
    """Check that everything a scenario names exists and fits together; return what was made of it.

    In a `live` run somebody else tells the outcome of each round, so that the scenario need not train, nor have memory
    for it.
    A `ScenarioError` has every mistake, each with its place in the file.
    """
    if too_much := check_budget(scenario.check_one(), training=not live):
        raise ScenarioError(too_much)
    if scenario.log is not None:
        message = "is of a log, which is measured (fedsim run, replay, fedsim.simulate) and cannot be simulated"
        raise ScenarioError([scenario.mistake(("log",), f"{message}; fedsim calibrate makes a scenario of it")])
    own_metrics, of_own = made_metrics(scenario)
    named = [*_check_selection(scenario), *_check_learning(scenario, live=live), *of_own]
    named = named or [*_check_feedback(scenario, live=live)]
    opened = open_models(scenario)
    mistakes = [*opened.mistakes, *named, *check_study(scenario, own_metrics)]
    try:
        population = build_population(scenario, replicate)
    except ScenarioError as error:
        raise ScenarioError([*error.mistakes, *mistakes]) from None
    mistakes = [*check_shocks(scenario, population), *mistakes]
    mistakes = [*check_feasible(scenario, population), *_check_privacy(scenario, population), *mistakes]
    if scenario.engine == "process" and len(population) > MOST_PROCESSES:
        message = f"the process engine takes up to {MOST_PROCESSES:,} devices, and these are {len(population):,}"
        mistakes.append(scenario.mistake(("engine",), f"{message}; the vectorized engine takes more"))
    mistakes = mistakes or [*_check_replays(scenario, population, opened), *_check_frequencies(scenario, population)]
    if mistakes:
        raise ScenarioError(mistakes)
    models = [opened.models[index] for index in range(len(scenario.population))]
    if unseeded := unrepeatable(scenario):
        raise ScenarioError(unseeded)
    return PreparedFederation(
        scenario, population, strata(scenario, population, models), replicate, own_metrics, opened.notes
    )


def checked(scenario: Scenario, replicate: int = 0) -> dict[str, PreparedFederation]:
    """Check each server of a scenario as `preflight` does; return what was made of each, by the name of its job.

    A `ScenarioError` has every mistake.
    """
    federations, servers, policy = dict[str, PreparedFederation](), scenario.servers(), scenario.matching
    findings = [] if policy is None else POLICIES.check(policy.kind, policy.options)
    mistakes = [scenario.mistake(("matching", *path), message) for path, message in findings]
    for name, each in servers.items():
        try:
            federations[name] = preflight(each, replicate)
        except ScenarioError as error:
            mistakes += error.in_job(name).mistakes
    if mistakes := [*mistakes, *([] if "" in servers else check_study(scenario))]:
        raise ScenarioError(mistakes)
    return federations


def _check_selection(scenario: Scenario) -> Iterator[Mistake]:
    server, study = scenario.server, scenario.theory.convergence
    wrong = check_law(server.selection)
    yield from (scenario.mistake(("server", "selection", *path), message) for path, message in wrong)
    if study is None:
        return
    if not wrong and theory_of(server.selection) is None:
        message = f"no theory covers the selection law {server.selection.kind!r}, so there is no convergence to study"
        yield scenario.mistake(("theory", "convergence"), message)
    most = largest_separation(scenario.devices, server.wanted) if server.selects_once else -1
    message = f"{scenario.devices:,} clients in cohorts of {server.wanted:,} can keep a separation of {most:,} at most"
    for place, each in enumerate(study.separations):
        if each > most >= 0:
            yield scenario.mistake(("theory", "convergence", "separations", place), message)


def _check_feedback(scenario: Scenario, *, live: bool) -> list[Mistake]:
    """Find out whether training in step with the simulation can give the feedback that the rule needs."""
    from fedsim.learning import OPTIMIZERS, PROBLEMS

    choice, learning = scenario.server.selection, scenario.learning
    if not needs_feedback(choice):
        return []
    rule, goes = ("server", "selection"), f"selection by {choice.kind!r} goes by the losses of clients"
    if learning is None:
        message = f"{goes}, and the scenario has no learning to give them; or step it yourself by fedsim.live"
        return _mistakes(scenario, (rule, not live, message))
    first, problem = learning.optimizers[0], learning.problem.kind
    kind = OPTIMIZERS.find(first.kind)
    source = getattr(kind, "frequency_option", None)
    even = source is not None and first.options.get(source.name, source.default) == "uniform"
    knows = not even and {"pi", "frequency", "shares", "predicted"} & signature(kind).parameters.keys()
    parts = f"{goes}, so that who takes part depends on the noise that loss_parts would leave out"
    silent = f"{goes}, and {problem!r} does not tell them: it has no method losses"
    before = f"{goes}, those of the first optimizer, and {first.kind!r} has to know the log before it begins; put "
    return _mistakes(
        scenario,
        (rule, scenario.job, f"{goes}, which jobs do not know"),
        (("learning", "loss_parts"), learning.loss_parts, parts),
        (("learning", "problem"), not live and not hasattr(PROBLEMS.find(problem), "losses"), silent),
        (("learning", "optimizers", 0), not live and knows, f"{before}another one first, such as fedavg"),
    )


def _mistakes(scenario: Scenario, *rows: tuple[KeyPath, object, str]) -> list[Mistake]:
    """Return a mistake for each row that is so: where, whether it is so, and what is wrong."""
    return [scenario.mistake(path, message) for path, so, message in rows if so]


def _check_privacy(scenario: Scenario, population: Population) -> list[Mistake]:
    privacy = scenario.privacy
    if privacy is None:
        return []
    from fedsim.privacy.bounds import enforced_bounds
    from fedsim.privacy.guarantee import guarantee
    from fedsim.privacy.mechanisms import MECHANISMS

    path: KeyPath = ("privacy", "mechanism")
    findings = MECHANISMS.check(privacy.mechanism.kind, privacy.mechanism.options)
    mistakes = [scenario.mistake((*path, *inner), message) for inner, message in findings]
    if privacy.training != "none":
        mistakes += _check_private_training(scenario)
    try:
        bounds = enforced_bounds(scenario, population)
        # The built-in ones have a guarantee, whatever the bounds, but where it is to be amplified.
        if not mistakes and (is_own(privacy.mechanism.kind) or bounds.sampling is not None):
            guarantee(privacy, bounds)
    except ScenarioError as error:
        mistakes += error.mistakes
    except PluginError as error:
        mistakes.append(scenario.mistake(path, str(error)))
    return mistakes


def _check_private_training(scenario: Scenario) -> list[Mistake]:
    from fedsim.learning.private import can_be_private

    if scenario.learning is None:
        message = "there is no learning, so that no training could clip or add noise"
        return [scenario.mistake(("privacy", "training"), message)]
    if scenario.learning.loss_parts and scenario.privacy is not None and scenario.privacy.adaptive_clip is not None:
        message = "an adaptive clip follows the updates of cohorts, so that the parts of a loss are not known"
        return [scenario.mistake(("learning", "loss_parts"), message)]
    by_data = [
        scenario.mistake(
            ("learning", "optimizers", index, "counts"),
            "steps go by how many samples a client has (local_steps: epochs), and would scale the updates of others, "
            "which no noise hides: take counts: pulls, or other local_steps",
        )
        for index, choice in enumerate(scenario.learning.optimizers)
        if isinstance(scenario.learning.local_steps, ByEpochs) and choice.options.get("counts") == "steps"
    ]
    if by_data:
        return by_data
    why = "noise on their sum would promise nothing; privacy.training"
    return _other_optimizers(scenario, scenario.learning, can_be_private, why)


def _other_optimizers(scenario: Scenario, learning: Learning, fits: Callable[[type], bool], why: str) -> list[Mistake]:
    """Return a mistake for each optimizer that does not fit since it does not use the mean of the updates alone."""
    from fedsim.learning.optimizers import OPTIMIZERS

    return [
        scenario.mistake(
            ("learning", "optimizers", index),
            f"{choice.kind!r} makes more of the updates than their mean, so that {why} knows "
            f"{_built_in(OPTIMIZERS, fits)}",
        )
        for index, choice in enumerate(learning.optimizers)
        if not OPTIMIZERS.check(choice.kind, {}) and not fits(OPTIMIZERS.find(choice.kind))
    ]


def _built_in(registry: Mapping[str, type], holds: Callable[[type], bool]) -> str:
    """Return the names of the built-in classes of which something holds: "a, b and c"."""
    return listing([name for name in registry if not is_own(name) and holds(registry[name])])


def notes_of(federation: PreparedFederation, job: str = "") -> list[str]:
    """Return lines about a scenario, or a job of several, before it runs, each with its state: note, caution or bad.

    Notes are on models, privacy and shocks; the rest is what the checks before a run find.
    """
    scenario, notes = federation.scenario, [*federation.notes, *describe_shocks(federation.scenario)]
    if scenario.privacy is not None:
        from fedsim.learning.private import caveats

        notes += [f"privacy: {each}" for each in caveats(scenario, federation.population)]
    lines = [("note", each) for each in notes]
    lines += [
        ("note" if each.state is Grade.OK else each.state, f"{each.text} {each.remedy}".rstrip())
        for each in cautions.before(federation)
    ]
    return [f"{state}: {of_job(job, text)}" for state, text in lines]


def _check_replays(scenario: Scenario, population: Population, opened: Opened) -> Iterator[Mistake]:
    """Find the groups whose trace has no available device during the run, in any of their time zones."""
    run_s = scenario.stop.most_s
    within = "after the run begins" if run_s == math.inf else f"in the {format_duration(run_s)} of the run"
    group, zone, _ = residence(population)
    for index, model in opened.models.items():
        if not isinstance(model, RecordedAvailability):
            continue
        places = [Place(scenario.start, ZoneInfo(population.zone_names[each])) for each in zone[group == index]]
        if not any(model.enterable(place, run_s) for place in places):
            message = (
                f"none of the {len(model.pattern.names):,} devices of the trace is available {within}, so that nobody "
                "can be selected; `since` and `until` say which part of the trace is used, `repeat` and `start` when "
                "it is"
            )
            yield scenario.mistake(("population", index, "availability"), message)


def _check_frequencies(scenario: Scenario, population: Population) -> Iterator[Mistake]:
    """Find the optimizers that ask for frequencies which theory does not know or the mean field cannot predict."""
    if scenario.learning is None:
        return
    from fedsim.learning import OPTIMIZERS

    for index, choice in enumerate(scenario.learning.optimizers):
        wanted = getattr(OPTIMIZERS.find(choice.kind), "frequency_option", None)
        if wanted is None:
            continue
        path, source = ("learning", "optimizers", index, wanted.name), choice.options.get(wanted.name, wanted.default)
        if source == "theory" and isinstance(why := known_pulls(scenario, population), str):
            message = f"theory does not cover this scenario's participation ({why}), so it knows no frequencies; write "
            yield scenario.mistake(path, f"{message}{wanted.name}: {wanted.instead_of_theory}")
        elif source == "predicted" and (unknown := available_prediction.why_not(scenario, population)) is not None:
            message = f"the participation cannot be predicted: the mean field does not know of {unknown}"
            yield scenario.mistake(path, message)


def _check_learning(scenario: Scenario, *, live: bool) -> list[Mistake]:
    learning = scenario.learning
    if learning is None:
        unknown = "partial reports are local steps, and without learning there are none: add learning, or leave it out"
        return _mistakes(scenario, (("server", "partial"), scenario.server.partial, unknown))
    from fedsim.learning import PROBLEMS, check_optimizer

    checked: list[tuple[KeyPath, Findings]] = [
        (("problem",), PROBLEMS.check(learning.problem.kind, learning.problem.options)),
        *((("optimizers", i), check_optimizer(each.kind, each.options)) for i, each in enumerate(learning.optimizers)),
    ]
    mistakes = [scenario.mistake(("learning", *at, *path), words) for at, wrong in checked for path, words in wrong]
    if mistakes:
        return mistakes
    return [*([] if live else _check_data(scenario, learning)), *_check_fit(scenario, learning)]


def _check_fit(scenario: Scenario, learning: Learning) -> list[Mistake]:
    """Find the keys of learning that the problem, the server, the privacy or the decision do not go with."""
    from fedsim.learning import OPTIMIZERS, PROBLEMS
    from fedsim.learning.expected import can_be_expected
    from fedsim.learning.problems.problem import has_optimum, has_samples

    kind, parts, decide = learning.problem.kind, learning.loss_parts, scenario.decide
    problem, solved = PROBLEMS.find(kind), has_optimum(PROBLEMS.find(kind))
    unsolved = f"the optimum of {kind!r} is not known, so that no loss can be told above it; that of "
    unsolved += f"{_built_in(PROBLEMS, has_optimum)} is"
    samples = f"{kind!r} has no samples to draw minibatches from: leave batch_size out for full local gradients; "
    samples += f"{_built_in(PROBLEMS, has_samples)} have samples"
    steps, passes = ("learning", "local_steps"), "epochs are passes over minibatches: give batch_size, and a problem "
    passes += f"with samples; {_built_in(PROBLEMS, has_samples)} have samples"
    epochs, timed = (isinstance(learning.local_steps, each) for each in (ByEpochs, ByDeadline))
    silent = f"{kind!r} does not tell losses of single clients: it has no method by_client"
    alike = "its clients must all take as many local steps: give learning.local_steps as a number"
    alike += " and no server.partial" * scenario.server.partial
    whole = scenario.privacy is None or scenario.privacy.training == "none"
    unclipped = "nothing is clipped: give the scenario a mapping privacy, with training: clip or training: noise"
    buffered = "what clients send on average is known of synchronous rounds alone, and this server is buffered"
    partial = "how many steps a client sends on average is not known where the server takes partial reports"
    by_data = "how many steps fit is not known where the data decide on them (epochs): give learning.local_steps as a "
    by_data += "number, a law, a list or a column"
    key = "minimize" if decide is None or decide.minimize is not None else "maximize"
    mistakes = _mistakes(
        scenario,
        *(
            (("learning", "optimizers", index, "update_clip"), choice.update_clip is not None and whole, unclipped)
            for index, choice in enumerate(learning.optimizers)
        ),
        *(
            (("learning", "optimizers", index), getattr(OPTIMIZERS.find(choice.kind), "equal_steps", False), alike)
            for index, choice in enumerate(learning.optimizers)
            if scenario.server.partial or not isinstance(learning.local_steps, int)
        ),
        (("learning", "batch_size"), learning.batch_size is not None and not has_samples(problem), samples),
        (("learning", "held_out"), learning.held_out is not None and not hasattr(problem, "by_client"), silent),
        (steps, epochs and (learning.batch_size is None or not has_samples(problem)), passes),
        (steps, timed and scenario.server.deadline is None, "the server has no deadline; give server.deadline"),
        (("learning", "loss_parts"), parts and not solved, unsolved),
        (("learning", "target_above_optimum"), learning.target_above_optimum is not None and not solved, unsolved),
        (("learning", "loss_parts"), parts and not scenario.server.selects_once, buffered),
        (("learning", "loss_parts"), parts and scenario.server.partial, partial),
        (("server", "partial"), scenario.server.partial and epochs, by_data),
        (("decide", key), scenario.chooses_by_optimum and not solved, unsolved),
    )
    why = "its loss has no such parts; learning.loss_parts"
    return mistakes + (_other_optimizers(scenario, learning, can_be_expected, why) if parts else [])


def _check_data(scenario: Scenario, learning: Learning) -> list[Mistake]:
    """Find data and models in files that the run could not train with, before anything is simulated."""
    from fedsim.learning.failures import AbsentDataError, LearningError
    from fedsim.learning.kept_models import model_named, read_models

    options, start = learning.problem.options, learning.start
    data = options.get("data")
    file = str(data["path"]) if isinstance(data, Mapping) and "path" in data else ""
    where = ("data", "path") if file else ("data",) if data else ()
    try:
        dimension = buildable(scenario)
    except FedsimError as error:
        if isinstance(error.__cause__, AbsentDataError):  # which is no mistake of the scenario
            return []
        message = str(error.__cause__ or error)
        message = message if file in message else f"{file}: {message}"
        return [scenario.mistake(("learning", "problem", *where), message)]
    if start is None:
        return []
    try:
        model_named(read_models(scenario.folder / start.path), start.model, start.path, dimension)
    except LearningError as error:
        return [scenario.mistake(("learning", "start"), str(error))]
    return []


def buildable(scenario: Scenario) -> int | None:
    """Build the problem that a scenario trains, if it reads data, or must fit a model to start from; return its size.

    None where it is not built: a user's own code is left to the training. Raises a `LearningError` if it cannot be.
    """
    from fedsim.learning.problems import PROBLEMS

    if scenario.learning is None:
        return None
    problem, options = scenario.learning.problem, scenario.learning.problem.options
    is_users = is_own(problem.kind) or any(":" in str(options.get(key, "")) for key in ("module", "loss"))
    if is_users or not (scenario.learning.start or hasattr(PROBLEMS.find(problem.kind), "load")):
        return None
    clients = scenario.devices + (scenario.learning.held_out or 0)
    return _size(problem.kind, json.dumps(options, sort_keys=True), clients, scenario.folder)


@lru_cache(maxsize=64)
def _size(kind: str, options: str, clients: int, folder: Path) -> int:
    """Return the dimension of a problem, whatever its draws: the points of a sweep ask for the same one."""
    from fedsim.learning import build_problem

    traits = dict.fromkeys(("group", "time_zone", "speed", "availability"), np.zeros(clients))
    return build_problem(kind, json.loads(options), clients=clients, seed=0, folder=folder, traits=traits).dimension
