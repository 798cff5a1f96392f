"""Partial reports: what sessions that would be cut have done by then, by hand, and what all rooms make of it."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

import fedsim
from fedsim import Scenario, live
from fedsim.common.errors import ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, build_optimizer, build_problem, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.population import build_population
from fedsim.run.preflight import preflight
from fedsim.theory.prediction import theory_or_why_not

PLAIN = {"download": "10s", "train": "60s", "upload": "5s"}
ENGINES = ["process", "vectorized"]


def case(engine: str = "auto", session: Any = None, **more: Any) -> Scenario:
    learning = {"problem": {"kind": "quadratic", "dimension": 3}, "optimizers": ["fedavg"], "step_size": 0.05}
    learning |= {"local_steps": 6} | more.pop("learning", {})
    server = {"cohort": 4, "selection": "uniform", "deadline": "50s", "partial": True} | more.pop("server", {})
    group = {"devices": 4, "session": (session or PLAIN) | {"speed": [0.25, 1.0, 1.1, 2.0]}} | more.pop("group", {})
    base = {"seed": 3, "engine": engine, "stop": {"rounds": 1}, "population": [group]}
    return Scenario.model_validate(base | {"server": server, "learning": learning} | more)


@pytest.mark.parametrize("engine", ENGINES)
def test_sessions_report_what_fits_before_the_deadline(engine: str) -> None:
    """At speed 1, 50 s less 15 s of transfers hold 3.5 of the steps of 10 s; 1.1 holds 4. At 0.25 none fits: late."""
    found = fedsim.simulate(case(engine)).participations.sort("client")
    assert found["outcome"].to_list() == ["late", "reported", "reported", "reported"]
    assert found["steps"].to_list() == [6, 3, 4, 6]
    assert found["ended_s"].to_list() == [300.0, 45.0, 50.0, 37.5]
    metrics = fedsim.simulate(case(engine)).metrics
    assert metrics["sessions.steps_mean"] == pytest.approx(13 / 3)
    assert "sessions.steps_mean" not in fedsim.simulate(case(engine, server={"partial": False})).metrics
    assert "steps" not in fedsim.simulate(case(engine, server={"partial": False})).participations.columns


@pytest.mark.parametrize("engine", ENGINES)
def test_sessions_report_before_their_device_leaves(engine: str) -> None:
    """It is gone from 40 s on: two steps fit at speed 1, and a report at 40 s sharp would come too late at speed 0.875.

    There, as at the deadline, a step ends at 40 s exactly: 15 s and two steps of 10 s at speed 0.875.
    """
    away = [{"name": "gone", "windows": [{"begin": "2026-01-05T00:00:40Z", "end": "2026-01-05T02:00:00Z"}]}]
    group = {"session": PLAIN | {"speed": [0.25, 1.0, 0.875, 2.0]}}
    found = fedsim.simulate(
        case(engine, group=group, shocks=away, start="2026-01-05T00:00:00Z", server={"deadline": None})
    )
    rows = found.participations.sort("client")
    assert rows["outcome"].to_list() == ["dropped", "reported", "reported", "reported"]
    assert rows["steps"].to_list() == [6, 2, 1, 6]
    assert rows["ended_s"].to_list() == [40.0, 35.0, pytest.approx(25 / 0.875, abs=1e-3), 37.5]


def test_a_failure_is_not_foreseen() -> None:
    """Sessions that fail by themselves, five in six here, report nothing."""
    session = PLAIN | {"fails": {"per_hour": 200}}
    found = fedsim.simulate(case(session=session, stop={"rounds": 60})).participations
    assert 0.5 < len(found.filter(outcome="dropped")) / len(found) < 0.95


def mixed(engine: str, *, buffered: bool, steps: Any) -> Scenario:
    server: dict[str, Any] = {"cohort": 4, "over_select": 1.5, "shortage": "proceed"}
    if buffered:
        server = {"mode": "buffered", "concurrency": 5, "buffer": 3, "max_staleness": 1}
    away = {"kind": "renewal", "on": "400s", "off": "200s"}
    plain = PLAIN | {
        "train": {"kind": "exponential", "mean": "100s"},
        "speed": {"kind": "lognormal", "median": 1, "sigma": 1},
    }
    work = {"samples": 900, "device": "snapdragon-410", "model": "2MB", "link": {"down": "2Mbps", "up": "1Mbps"}}
    groups = [
        {"name": "a", "devices": 12, "availability": away, "session": plain},
        {"name": "b", "devices": 6, "session": work | {"fails": {"per_hour": 5}}},
    ]
    methods = ["fedavg", "fednova", "scaffold", {"kind": "debiased_fedavg", "counts": "steps"}]
    learning = {"problem": {"kind": "sampled_quadratic", "samples": 20}, "optimizers": methods, "step_size": 0.05}
    learning |= {"local_steps": steps, "batch_size": 3, "reference": "uniform"}
    made = {"seed": 3, "engine": engine, "stop": {"rounds": 40}, "population": groups, "learning": learning}
    return Scenario.model_validate(made | {"server": server | {"deadline": "90s", "partial": True}})


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("steps", [6, {"kind": "uniform", "low": 1, "high": 9}, {"kind": "deadline", "most": 8}])
def test_both_engines_and_a_stepped_run_agree(buffered: bool, steps: Any) -> None:
    """Tables, figures and models; sessions end in all ways, and reports have all numbers of steps."""
    one, other = (fedsim.simulate(mixed(engine, buffered=buffered, steps=steps)) for engine in ENGINES)
    assert one.participations.equals(other.participations)
    assert one.learning is not None
    assert other.learning is not None
    assert one.learning.equals(other.learning)
    np.testing.assert_equal(one.metrics, other.metrics)
    taken = one.participations.filter(outcome="reported")
    assert taken["steps"].n_unique() > 3
    assert {"dropped", "aborted"} <= set(one.participations["outcome"].cast(pl.String))
    total = 0
    for closed in live(mixed("auto", buffered=buffered, steps=steps)):
        assert closed.steps is not None
        total += int(closed.steps[closed.reported].sum())
    assert total == taken["steps"].sum()


def test_clients_train_as_many_steps_as_they_report() -> None:
    """Against a loop over clients, to 1e-12, for a method that divides by steps and one that does not."""
    found = fedsim.simulate(mixed("auto", buffered=False, steps=6)).participations
    problem = build_problem("quadratic", {"dimension": 3}, clients=18, seed=1)
    rounds = pl.DataFrame({"round": range(40), "closed_s": np.arange(40.0)})
    made = {name: build_optimizer(name, {}) for name in ("fedavg", "fednova")}
    course = Course(Cohorts.read(rounds, found, 18), made, stream(1, 0, Purpose.OPTIMIZER))
    ends = replay_together([course], LocalWork.checked(problem, 6, 0.05))[0].ends
    models = {name: np.zeros(3) for name in made}
    for (_,), cohort in found.filter(outcome="reported").sort("round").group_by("round", maintain_order=True):
        taken = cohort["steps"].to_numpy()
        for name, x in models.items():
            changes = []
            for client, steps in zip(cohort["client"].to_list(), taken.tolist(), strict=True):
                y = x[None].copy()
                for _ in range(steps):
                    y = y - 0.05 * problem.gradients(np.array([client]), y)
                changes.append((y[0] - x) / (steps if name == "fednova" else 1.0))
            models[name] = x + np.mean(changes, axis=0) * (taken.mean() if name == "fednova" else 1.0)
    for name, x in models.items():
        np.testing.assert_allclose(ends[name].last, x, rtol=1e-12, atol=1e-12)


def test_a_partial_report_is_sent_whole() -> None:
    """All bytes of the update, and the energy of the steps that were taken."""
    link = {"down": "2Mbps", "up": "1Mbps"}
    work = {"samples": 900, "device": "snapdragon-410", "model": "2MB", "update": "1MB", "link": link}
    group = {"devices": 4, "session": work}
    whole, cut = (fedsim.simulate(case(group=group, server={"deadline": each})) for each in (None, "150s"))
    assert set(cut.participations["steps"]) == {3}
    assert whole.metrics["fleet.bytes_up"] == cut.metrics["fleet.bytes_up"] == 4e6
    trained = 900 * 0.246 * 3.6 / 3600 * 4
    assert whole.metrics["fleet.energy"] - cut.metrics["fleet.energy"] == pytest.approx(trained / 2, abs=1e-5)


def test_what_does_not_know_them_says_so() -> None:
    population = build_population(case())
    assert "server.partial" in str(theory_or_why_not(case(), population))
    assert "server.partial" not in str(theory_or_why_not(case(server={"deadline": None}), population))
    assert "learning.fedavg.bias_predicted" not in fedsim.simulate(case()).metrics


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"learning": {"optimizers": ["focus"]}}, "optimizers[0]: its clients must all take as many local steps"),
        ({"learning": {"loss_parts": True}}, "learning.loss_parts: how many steps a client sends on average"),
        (
            {
                "learning": {
                    "local_steps": {"kind": "epochs"},
                    "batch_size": 2,
                    "problem": {"kind": "sampled_quadratic", "samples": 4},
                }
            },
            "server.partial: how many steps fit is not known",
        ),
    ],
)
def test_what_does_not_go_with_them_is_said_with_its_place(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as told:
        preflight(case(**more))
    assert words in str(told.value)


def test_they_need_learning_and_uploads_that_do_not_slow_each_other() -> None:
    with pytest.raises(ScenarioError, match=r"server.partial: partial reports are local steps, and without learning"):
        preflight(
            Scenario.model_validate(
                {"stop": {"rounds": 1}, "population": [{"devices": 4}], "server": {"cohort": 2, "partial": True}}
            )
        )
    with pytest.raises(ValidationError, match="leave out partial or uplink"):
        case(server={"uplink": "1Mbps"})
