"""Local steps that a scenario gives by a source: who takes how many, how long sessions get, and what is refused."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import fedsim
from fedsim import Scenario
from fedsim.common.errors import ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.population import build_population
from fedsim.population.sessions import session_phases, steps_by_deadline
from fedsim.run.chain import participation_of
from fedsim.run.preflight import preflight
from fedsim.run.training import _work
from fedsim.theory.prediction import theory_or_why_not
from fedsim.trials.stages import by_facts

GROUPS = [
    {"name": "fast", "devices": 3, "session": {"download": "10s", "train": "60s", "upload": "20s", "speed": [1, 2, 4]}},
    {
        "name": "slow",
        "devices": 2,
        "session": {"train": {"kind": "lognormal", "median": "60s", "sigma": 0.5}, "speed": 0.4},
    },
]


def case(steps: Any, **more: Any) -> Scenario:
    learning = {"problem": {"kind": "sampled_quadratic", "samples": 10}, "optimizers": ["fedavg"], "step_size": 0.1}
    learning |= {"local_steps": steps} | more.pop("learning", {})
    server = {"cohort": 2, "deadline": "60s", "shortage": "proceed"} | more.pop("server", {})
    base = {"seed": 2, "stop": {"rounds": 9}, "population": GROUPS, "server": server, "learning": learning}
    return Scenario.model_validate(base | more)


def test_as_many_steps_as_fit_before_the_deadline() -> None:
    """At speed 1, 60 s less 30 s of transfers leave half of 60 s; the slow ones are late even with a single step."""
    scenario = case({"kind": "deadline", "most": 10})
    population = build_population(scenario)
    assert steps_by_deadline(scenario, population).tolist() == [5, 10, 10, 1, 1]  # type: ignore[union-attr]
    draws = stream(2, 0, Purpose.SESSION)
    whole = session_phases(case(10), population, draws)(np.arange(5), 3)
    shorter = session_phases(scenario, population, draws)(np.arange(5), 3)
    np.testing.assert_allclose(shorter[1] / whole[1], [0.5, 1, 1, 0.1, 0.1])
    np.testing.assert_array_equal(shorter[[0, 2]], whole[[0, 2]])
    assert "local_steps" in str(theory_or_why_not(scenario, population))
    ends = fedsim.simulate(scenario).participations.filter(pl.col("client") < 3)
    assert set(ends["outcome"].cast(pl.String)) == {"reported"}


def test_who_takes_how_many_steps() -> None:
    """From a list, by passes over minibatches, and by a law, whatever the order in which clients are asked."""

    def found(steps: Any, **learning: Any) -> list[int]:
        scenario = case(steps, learning=learning)
        work = _work(scenario, scenario.learning, build_population(scenario))  # type: ignore[arg-type]
        return work.steps_of(np.arange(5)).tolist()  # type: ignore[no-any-return]

    assert found([3, 1, 4, 1, 5]) == [3, 1, 4, 1, 5]
    assert found(7) == found({"kind": "constant", "value": 7}) == [7] * 5
    assert found({"kind": "epochs", "epochs": 2.5}, batch_size=4) == [7] * 5
    drawn = found({"kind": "uniform", "low": 1, "high": 9})
    assert len(set(drawn)) > 2
    assert all(1 <= each <= 9 for each in drawn)


@pytest.mark.parametrize(
    ("steps", "more", "words"),
    [
        ([1, 2], {}, "learning.local_steps: has 2 values for 5 devices"),
        ([1, 2, 0, 1, 1], {}, "learning.local_steps: must be a whole number of at least 1, but value 2 is 0"),
        ([1, 2, 100_001, 1, 1], {}, "learning.local_steps: must be at most 100,000, but value 2 is 100,001"),
        ({"kind": "deadline", "most": 4}, {"server": {"deadline": None}}, "the server has no deadline"),
        ({"kind": "epochs"}, {}, "give batch_size"),
        ([1, 2, 1, 1, 1], {"learning": {"optimizers": ["focus"]}}, "optimizers[0]: its clients must all take as many"),
        (
            {"kind": "epochs"},
            {
                "learning": {"batch_size": 2, "optimizers": [{"kind": "debiased_fedavg", "counts": "steps"}]},
                "privacy": {"noise_multiplier": 1.0, "delta": 1e-6, "clip": 1.0, "training": "noise"},
            },
            "optimizers[0].counts: steps go by how many samples a client has",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(steps: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as told:
        preflight(case(steps, **more))
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("steps", "partial"), [({"kind": "deadline", "most": 9}, False), (7, True), ([1, 2, 3, 4, 9], True)]
)
def test_where_nothing_is_trained_sessions_are_the_same(steps: Any, partial: bool) -> None:
    """What a decision looks at first, a mean field and a back-test leave learning out, but not its steps."""
    scenario = case(steps, server={"partial": partial})
    found = fedsim.simulate(scenario).participations
    without = fedsim.simulate(scenario.with_values({"learning": scenario.untrained})).participations
    assert found.equals(without)
    assert participation_of(scenario).learning is not None
    chosen = {"choose": {"server.partial": [False, True]}, "decide": {"minimize": "participation.l1_uniform"}}
    assert by_facts(case(7, **chosen), 2).scenario.learning is not None
    assert case(7).untrained is None


def test_a_job_alone_has_the_sessions_that_it_has_without_the_others() -> None:
    job = {"server": {"cohort": 2, "deadline": "60s", "partial": True}}
    job["learning"] = {"problem": "quadratic", "optimizers": ["fedavg"], "step_size": 0.1, "local_steps": 8}
    jobs = {"jobs": {"a": job, "b": job}, "alone": True, "seed": 2, "stop": {"rounds": 9}, "population": GROUPS}
    scenario = Scenario.model_validate(jobs)
    metrics = fedsim.simulate(scenario).metrics
    alone = fedsim.simulate(scenario.of_job("a", alone=True)).metrics
    for name in ("updates.per_day", "participation.l1_uniform"):
        assert metrics[f"job.a.alone.{name}"] == alone[name]
