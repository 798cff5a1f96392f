"""What theory says about a scenario: the question of ``fedsim chain``, asked of a scenario as a whole."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsim.common.arguments import whole
from fedsim.common.errors import ScenarioError
from fedsim.experiment.budget import check_budget
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.scenario.imports import as_scenario
from fedsim.theory import Stationary
from fedsim.theory.questions import Extras, Target, chain_results


@dataclass(frozen=True, eq=False)
class Answer(Stationary):
    """The long-run participation under one separation, and what was asked beside it.

    Attributes
    ----------
    as_json
        The whole answer as ``fedsim chain --json`` gives it, what was asked beside the stationary law included.
    """

    as_json: Mapping[str, Any] = field(default_factory=dict)


def chain(
    scenario: Scenario | str | os.PathLike[str],
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
) -> list[Answer]:
    """Ask theory what participation separations leave, without simulating; devices are taken to be always available.

    Parameters
    ----------
    scenario
        A scenario, or the name of its file.
    separation
        Rounds, or several; by default the scenario's own separations.
    method
        ``auto``, ``closed-form``, ``exact``, ``mean-field`` or ``monte-carlo``.
    law
        Instead of the scenario's selection law.
    target_l1, target_tv, target_ratio
        At most one: find the smallest separation whose distance from uniform (or max pi / min pi) is no larger.
    precision
        Also the rounds until every debiasing weight is within this relative distance of its limit.
    convergence
        Also the law of the participants from the start, over this many rounds.
    mixing
        Also the mixing time and the spectral gap; small systems.

    Returns
    -------
    An answer for each separation.

    Raises
    ------
    ScenarioError
        If the scenario cannot be read, or does not fit into the memory.
    ChainError
        If a question has no answer, or none by the method asked for.
    """
    scenario = as_scenario(scenario)
    if too_much := check_budget(scenario):
        raise ScenarioError(too_much)
    asked = None
    if separation is not None:
        several = separation if isinstance(separation, Iterable) and not isinstance(separation, str) else [separation]
        asked = [whole("separation", each) for each in several]
    target = Target(target_l1, target_tv, target_ratio)
    extras = Extras(precision, convergence, mixing)
    results = chain_results(scenario, build_population(scenario), asked, method, law, target, extras)
    return [Answer(**vars(result), as_json=found) for result, found in results]
