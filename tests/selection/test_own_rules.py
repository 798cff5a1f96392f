"""A law of one's own whose theory is in the same file: systematic sampling. And theory names no law."""

import ast
from pathlib import Path

import numpy as np
import pytest

import fedsim.theory
from fedsim import Scenario, simulate
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import ChainError, PluginError
from fedsim.log import fingerprint
from fedsim.selection import LAWS, Candidates, Request, SelectionRule
from fedsim.selection.built_in import everyone_eligible
from fedsim.selection.rules import bernoulli_chances
from fedsim.theory import closed_form, exact, mean_field, monte_carlo, stationary

WEIGHTS = 1.0 / np.arange(1.0, 10.0)
QUESTION = (WEIGHTS, 2, 2)
L1 = 0.2518


def taken(chances: Floats, point: float) -> Bools:
    """Return who holds one of the points u, u + 1, ... when clients lie beside each other, as long as their chances."""
    return np.diff(np.ceil(np.cumsum(chances) - point), prepend=0.0) > 0


class SystematicRule(SelectionRule):
    """Every client with the chance min(1, s p_i), by one draw for all of them."""

    name = "systematic"

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        chances = bernoulli_chances(weights, size)
        cuts = np.unique(np.append(np.cumsum(chances) % 1.0, [0.0, 1.0]))
        lengths = np.diff(cuts)
        kept = lengths > 1e-12
        return np.array([taken(chances, u) for u in (cuts[:-1] + lengths / 2.0)[kept]]), lengths[kept]

    def mean_chance(self, first: Floats, size: int) -> Floats:
        return np.minimum(1.0, size * first)


@LAWS.register("systematic")
class Systematic:
    theory = SystematicRule()

    def __init__(self, weights: Floats) -> None:
        self._weights = weights

    def select(self, request: Request, candidates: Candidates) -> Ints:
        eligible = everyone_eligible(request, candidates)
        return eligible[taken(bernoulli_chances(self._weights[eligible], request.count), request.uniforms(0)[0])]


def test_it_has_theory_by_every_method_but_the_one_that_it_does_not_declare() -> None:
    rule = Systematic.theory
    found = exact(*QUESTION, rule)
    assert found.l1_uniform == pytest.approx(L1, abs=5e-5)
    assert stationary(*QUESTION, rule).method == "exact"
    np.testing.assert_allclose(mean_field(*QUESTION, rule).pi, found.pi, rtol=0.1)
    drawn = monte_carlo(*QUESTION, rule, replicas=8, rounds=200)
    assert drawn.standard_error is not None
    assert float(np.abs((drawn.pi - found.pi) / drawn.standard_error).max()) < 5.0  # 1 in 10,000 seeds
    with pytest.raises(ChainError, match="has no closed form"):
        closed_form(*QUESTION, rule)


def test_what_no_rule_says_is_unknown() -> None:
    class Silent(SelectionRule):
        name = "silent"

    class Enumerated(SystematicRule):
        name = "enumerated"
        mean_chance = SelectionRule.mean_chance

    for method in (exact, mean_field, stationary):
        with pytest.raises(ChainError, match=r"law 'silent' does not say .*: no other method knows it either"):
            method(*QUESTION, Silent())
    with pytest.raises(ChainError, match=r"'enumerated' .* use the method 'exact' or 'monte-carlo'"):
        mean_field(*QUESTION, Enumerated())


class Odd(SystematicRule):
    name = "odd"

    def cohorts(self, weights: Floats, size: int) -> tuple[Bools, Floats]:
        raise ValueError(f"{size} of {len(weights)} is odd")


@LAWS.register("odd")
class OddSelection(Systematic):
    theory = Odd()


def test_a_rule_that_fails_is_named() -> None:
    data = {"stop": {"rounds": 5}, "population": [{"devices": 9}], "server": {"cohort": 2, "selection": "odd"}}
    with pytest.raises(PluginError, match=r"the theory of the selection law 'odd': ValueError: 2 of 9 is odd"):
        simulate(Scenario.model_validate(data))


def test_runs_have_the_theory_of_their_rule_in_both_engines() -> None:
    data = {
        "stop": {"rounds": 1500},
        "population": [{"devices": 9, "weight": {"kind": "zipf", "exponent": 1}, "separation": 2}],
        "server": {"cohort": 2, "selection": "systematic"},
        "records": {"gauges": None},
    }
    runs = [simulate(Scenario.model_validate(data | {"engine": engine})) for engine in ("process", "vectorized")]
    assert fingerprint(runs[0].participations) == fingerprint(runs[1].participations)
    np.testing.assert_allclose(np.sort(runs[0].clients["pi"]), np.sort(exact(*QUESTION, Systematic.theory).pi))
    assert runs[0].metrics["participation.l1_uniform"] == pytest.approx(L1, abs=0.04)
    assert runs[0].metrics["participation.l1_chain"] < 0.04


@pytest.mark.parametrize("file", sorted(Path(fedsim.theory.__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_theory_names_no_law(file: Path) -> None:
    """Neither alone nor in a message, but for words that describe mathematics in a docstring."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings, and what describes constants
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            assert node.value not in LAWS.built_in
            assert not [kind for kind in LAWS.built_in if f"'{kind}'" in node.value]
