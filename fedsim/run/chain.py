"""What theory says about a scenario: participation, inverse questions, fluctuation, convergence, mixing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack, cast, overload

import numpy as np
import polars as pl

from fedsim import theory
from fedsim.common.arguments import whole
from fedsim.common.errors import CannotAnswerError, ChainError, ScenarioError
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.markup import fragment
from fedsim.population import Population, build_population
from fedsim.run.budget import check_budget
from fedsim.run.preflight import preflight
from fedsim.scenario import GivenScenario, Scenario, as_scenario
from fedsim.scenario.server import BufferedServer
from fedsim.selection.laws import law_of
from fedsim.simulation.engine import simulate_log
from fedsim.theory.available_prediction import by_weights
from fedsim.theory.buffered import Flow
from fedsim.theory.busy import is_busy
from fedsim.theory.prediction import flow_of, predicted
from fedsim.theory.question import separations

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class ChainAnswer(theory.Stationary):
    """The long-run participation under one separation; `as_json` is the whole answer of ``fedsim chain --json``."""

    as_json: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each client: `client`, `weight`, `pi`, and where they are known `standard_error`, `pull`."""
        columns = {"weight": self.weights, "pi": self.pi, "standard_error": self.standard_error, "pull": self.pull}
        given = {name: values for name, values in columns.items() if values is not None}
        return pl.DataFrame(given).with_row_index("client")

    def _repr_html_(self) -> str:
        return Answers([self])._repr_html_()


class Answers(list[ChainAnswer]):
    """The answers to one question, by separation: a list that a notebook shows as a table."""

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each separation, null where clients have different ones, with its distances from uniform."""
        figures = ("method", "l1_uniform", "tv_uniform", "ratio")
        separations = [each.separation if isinstance(each.separation, int) else None for each in self]
        columns = {name: [getattr(each, name) for each in self] for name in figures}
        return pl.DataFrame({"separation": separations, **columns})

    def _repr_html_(self) -> str:
        header = ("R", "method", "L1 from uniform", "TV from uniform", "max/min pi")
        rows = [
            (
                f"{each.separation:,}" if isinstance(each.separation, int) else "per client",
                each.method,
                f"{each.l1_uniform:.6f}",
                f"{each.tv_uniform:.2%}",
                f"{each.ratio:.4g}",
            )
            for each in self
        ]
        notes = dict.fromkeys(note for each in self for note in each.caveats)
        return fragment("Long-run participation, by theory", header, rows, words=2, notes=notes)


class _Options(TypedDict, total=False):
    """What `participation_theory` takes beside a scenario and its separations."""

    method: str
    law: str | None
    target_l1: float | None
    target_tv: float | None
    target_ratio: float | None
    precision: float | None
    convergence: int | None
    mixing: bool
    availability: bool


@overload
def participation_theory(
    scenario: GivenScenario, *, separation: int | None = ..., **options: Unpack[_Options]
) -> ChainAnswer: ...
@overload
def participation_theory(
    scenario: GivenScenario, *, separation: Iterable[int], **options: Unpack[_Options]
) -> Answers: ...
def participation_theory(
    scenario: GivenScenario,
    *,
    separation: int | Iterable[int] | None = None,
    method: str = "auto",
    law: str | None = None,
    target_l1: float | None = None,
    target_tv: float | None = None,
    target_ratio: float | None = None,
    precision: float | None = None,
    convergence: int | None = None,
    mixing: bool = False,
    availability: bool = False,
) -> ChainAnswer | Answers:
    """Return what theory says of participation, without simulating; devices are taken to be always available.

    The answer has the long-run share of each client, `pi`, and its distances from uniform. Of several separations it is
    a list, with an answer for each, that a notebook shows as a table.

    Parameters
    ----------
    scenario
        A scenario, the name of its file, or a mapping with its keys.
    separation
        Rounds between two participations of a client, or several such numbers; by default the scenario's own.
    method
        ``auto``, ``closed-form``, ``exact``, ``mean-field`` or ``monte-carlo``.
    law
        Instead of the scenario's selection law.
    target_l1, target_tv, target_ratio
        At most one: find the smallest separation whose distance from uniform (or max pi / min pi) is no larger.
    precision
        Also the rounds until every debiasing weight is within this relative distance of its limit.
    convergence
        Also the law of one round's participants from the start, and the running frequencies, over this many rounds.
    mixing
        Also the mixing time and the spectral gap; small systems.
    availability
        Ask, and nothing else, for shares of reports of devices as they come and go, by the mean field over the rounds
        of a simulation; `as_json` has their 95 % intervals.

    Raises
    ------
    ScenarioError
        If the scenario cannot be read, or does not fit into the memory.
    ChainError
        If a question has no answer, or none by the method asked for.

    >>> [round(answer.tv_uniform, 3) for answer in participation_theory("paper/synthetic", separation=[4, 12])]
    [0.358, 0.131]
    """
    scenario = as_scenario(scenario)
    if too_much := check_budget(scenario, training=False):
        raise ScenarioError(too_much)
    several = isinstance(separation, Iterable) and not isinstance(separation, str)
    of: Iterable[int | None] = cast("Any", separation) if several else [cast("int | None", separation)]
    asked = [each if each is None else whole("separation", each) for each in of]
    targets = {"target_l1": target_l1, "target_tv": target_tv, "target_ratio": target_ratio}
    given = any(value is not None for value in targets.values())
    if availability:
        asked_more = any(each is not None for each in (separation, law, precision, convergence))
        if given or asked_more or mixing or method != "auto":
            raise ChainError("with availability the shares of the scenario as it is are told, and nothing else")
        return _coming_and_going(scenario)
    population, server = build_population(scenario), scenario.server
    if not server.selects_once:
        if given or mixing or (precision, convergence) != (None, None):
            raise ChainError(
                "targets, precision, convergence and mixing are about synchronous rounds, and this scenario's server "
                "is buffered: of that, fedsim chain tells the long-run participation"
            )
        flows = [flow_of(scenario, server, population, each, method, law) for each in asked]
        answers = Answers(_answer(flow.stationary, {"buffered": _of_flow(flow, server, population)}) for flow in flows)
        return answers if several else answers[0]
    if given:
        results = [theory.smallest_separation(population.weight, server.wanted, law or law_of(server), **targets)]
    else:
        try:
            results = [predicted(scenario, population, each, method, law) for each in asked]
        except CannotAnswerError as error:
            raise ChainError(f"{error}; and leave mixing out, which is exact too") if mixing else error from None
    answers = Answers(_answer(each, _more(scenario.seed, each, precision, convergence, mixing)) for each in results)
    return answers if several else answers[0]


def participation_of(scenario: Scenario) -> Scenario:
    """Return a scenario without everything on which participation does not depend."""
    changes: dict[str, Any] = {"sweep": None, "decide": None, "expect": [], "drift": None}
    if scenario.learning is not None:
        changes |= {"learning": scenario.untrained} | ({} if scenario.privacy is None else {"privacy.training": "none"})
    return scenario.with_values(changes)


def _coming_and_going(scenario: Scenario) -> ChainAnswer:
    """Return what the mean field expects of devices that come and go over the rounds of a simulation."""
    scenario = participation_of(scenario)
    world = preflight(scenario)
    population = world.population
    rounds = simulate_log(scenario, population, devices=world.devices).rounds
    expected = by_weights(scenario, population, rounds, means=False)(population.weight)
    low, high = (np.minimum(end, 1.0).tolist() for end in expected.interval(_CONFIDENCE))
    result = theory.Stationary(
        population.weight,
        separations(population.separation, len(population)),
        scenario.server.wanted,
        law_of(scenario.server),
        expected.shares,
        "mean-field",
        caveats=(f"shares of reports in {len(rounds):,} simulated rounds, of devices as they come and go",),
    )
    return _answer(result, {"interval": {"confidence": _CONFIDENCE, "low": low, "high": high}})


def _of_flow(flow: Flow, server: BufferedServer, population: Population) -> dict[str, Any]:
    groups = {}
    for index, name in enumerate(population.group_names):
        members = population.group == index
        groups[name] = {
            "devices": int(members.sum()),
            "share": float(flow.stationary.pi[members].sum()),
            "participations_per_day": float(DAY_S * flow.rate[members].mean()),
            "wait_s": float(np.average(flow.wait_s[members], weights=flow.rate[members])),
        }
    return {
        "concurrency": server.concurrency,
        "buffer": server.buffer,
        "version_s": flow.version_s,
        "versions_per_hour": HOUR_S / flow.version_s,
        "utilisation": flow.utilisation,
        "groups": groups,
    }


def _answer(result: theory.Stationary, more: dict[str, Any]) -> ChainAnswer:
    return ChainAnswer(**vars(result), as_json=theory.answer(result) | more)


def _more(
    seed: int, result: theory.Stationary, precision: float | None, convergence: int | None, mixing: bool
) -> dict[str, Any]:
    """Return what is asked in addition to the long-run shares, as it stands in JSON."""
    if is_busy(result) and (mixing or (precision, convergence) != (None, None)):
        raise ChainError(f"precision, convergence and mixing are of the chain, and here {result.caveats[0]}")
    question = result.asked
    more: dict[str, Any] = {}
    if precision is not None:
        fluctuation = theory.asymptotic_variance(*question, seed=seed)
        every = theory.rounds_for_all(fluctuation, precision)
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = np.sqrt(fluctuation.variance) / fluctuation.pi
        more["fluctuation"] = {
            **_plain(fluctuation, "method", "variance"),
            "precision": precision,
            # of a count after T rounds, over its mean, times sqrt(T)
            "relative_deviation": [each if np.isfinite(each) else None for each in deviation.tolist()],
            "best_prior": prior if np.isfinite(prior := theory.best_prior(fluctuation, result.cohort)) else None,
            "rounds_for_all": int(every) if np.isfinite(every) else None,
            "rounds_needed": [
                int(each) if np.isfinite(each) else None  # there is a client for which no number of rounds is enough
                for each in theory.rounds_needed(fluctuation, precision).tolist()
            ],
        }
    if convergence is not None:
        distances = theory.convergence(*question, rounds=convergence, seed=seed, limit=result)
        more["convergence"] = {
            "quantity": "TV distance between the law of the participants of round t, all ready at round 0, and pi",
            **_plain(distances, "method", "replicas", "tv", "noise_floor"),
        }
        counted = theory.running_frequencies(*question, rounds=convergence, seed=seed, limit=result)
        more["running_frequencies"] = {
            "quantity": "E L1 distance between the shares of the participations of t = 1, 2, ... rounds, and pi",
            "method": "monte-carlo",
            **_plain(counted, "replicas", "l1", "standard_error"),
        }
    if mixing:
        more["mixing"] = {
            "quantity": "TV distance between the law of the chain's state and its stationary law, from the worst start",
            **vars(theory.mixing(*question)),
        }
    return more


def _plain(answer: object, *names: str) -> dict[str, Any]:
    """Return attributes as JSON has them: arrays as lists."""
    values = {name: getattr(answer, name) for name in names}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
