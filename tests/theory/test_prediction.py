"""What theory adds to a run: the tables of its studies."""

import pytest

from fedsim.common.errors import ChainError
from fedsim.population import build_population
from fedsim.run.simulate import simulate
from fedsim.scenario.studies import ConvergenceStudy
from fedsim.theory import Stationary
from fedsim.theory.prediction import convergence_table, theory_or_why_not
from tests.conftest import Load


def test_a_convergence_study_is_a_table_of_the_run(small: Load) -> None:
    study = "theory={convergence: {separations: [0, 1, 3], rounds: 40, replicas: 500}}"
    result = simulate(small(study))
    table = result.convergence
    assert table is not None
    assert table.columns == ["separation", "round", "tv", "noise_floor", "method"]
    assert table["separation"].unique(maintain_order=True).to_list() == [0, 1, 3]
    assert table.filter(separation=0)["tv"].max() == pytest.approx(0, abs=1e-12)  # independent rounds: there at once
    later = table.filter(separation=1)
    assert later["tv"][-1] < later["tv"][0]
    assert "convergence" in result.tables


def test_a_separation_that_cannot_be_kept_has_no_convergence(small: Load) -> None:
    scenario = small()
    with pytest.raises(ChainError, match="3"):
        convergence_table(scenario, build_population(scenario), ConvergenceStudy(separations=[4], rounds=5))


def test_theory_applies_to_full_rounds_of_available_clients(small: Load) -> None:
    for overrides, applies in [
        ([], True),
        (["server.over_select=1.3"], True),
        (["server.cooldown_from=reported"], True),
        (["server.cooldown_from=reported", "server.over_select=1.3"], False),
        (["population.0.availability={kind: renewal, on: 1h, off: 1s}"], False),
    ]:
        scenario = small(*overrides)
        assert isinstance(theory_or_why_not(scenario, build_population(scenario)), Stationary) == applies
