"""Two runs or sweeps side by side."""

import json
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from fedsim.common.errors import RunError
from fedsim.common.intervals import NORMAL
from fedsim.run.files import ABSENT, changes
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.trials import store
from fedsim.trials.compare import compare
from fedsim.trials.contrasts import Standing, contrasts, differences
from fedsim.trials.decision import bias_metric, judge_settings
from fedsim.trials.executors import backend_of
from fedsim.trials.plan import plan_sweep
from fedsim.trials.results import read_results
from fedsim.trials.sweep import run_sweep
from fedsim.trials.trials import Trials
from tests.command import fedsim
from tests.conftest import SMALL, Write
from tests.pages.sweeps import write_sweep

PAIR = SMALL + "sweep: {seeds: 3, grid: {population.*.separation: [0, 2]}}\n"


@pytest.fixture
def folders(write: Write, tmp_path: Path) -> tuple[Path, Path]:
    """Two sweeps that differ in the cohort."""
    for name, text in (("a", PAIR), ("b", PAIR.replace("cohort: 3", "cohort: 2"))):
        plan = plan_sweep(Scenario.load(write(text, f"{name}.yaml")))
        run_sweep(plan, tmp_path / name, backend_of("concurrent.futures:ThreadPoolExecutor", 2))
    return tmp_path / "a", tmp_path / "b"


def test_sweeps_are_compared_point_by_point_and_seed_by_seed(folders: tuple[Path, Path]) -> None:
    """Compared with differences taken by hand."""
    a, b = map(read_results, folders)
    found = compare(*folders)
    assert ("server.cohort", 3, 2) in found.configuration
    assert [path for path, *_ in found.configuration] == ["name", "server.cohort"]
    assert found.notes == []
    row = found.metrics.filter((found.metrics["metric"] == "participation.l1_uniform") & (found.metrics["point"] == 1))
    ours, theirs = (
        frame.filter((frame["metric"] == "participation.l1_uniform") & (frame["point"] == 1))["value"]
        for frame in (a, b)
    )
    assert row["seeds"].item() == 3
    assert row["difference"].item() == pytest.approx((theirs - ours).mean())
    assert row["low"].item() < row["difference"].item() < row["high"].item()


def test_points_of_one_sweep_are_compared_as_paired_does(folders: tuple[Path, Path]) -> None:
    found = compare(f"{folders[0]}@0", f"{folders[0]}@1")
    assert found.configuration == [("population[0].separation.value", 0, 2)]
    trials = Trials.read(folders[0])
    expected = differences(trials, trials.beside())
    assert found.metrics["difference"].to_list() == expected["difference"].to_list()
    assert found.metrics["low"].to_list() == expected["low"].to_list()


def test_a_sweep_is_the_same_as_itself(folders: tuple[Path, Path]) -> None:
    found = compare(folders[0], folders[0])
    assert found.configuration == []
    assert set(found.metrics["difference"]) == {0.0}


def test_runs_are_compared_and_different_worlds_are_told(write: Write, tmp_path: Path) -> None:
    path = write(SMALL)
    for name, overrides, seed in (("a", [], 0), ("b", ["server.cohort=2"], 0), ("c", [], 1)):
        simulate(Scenario.load(path, overrides, seed)).save(tmp_path / name)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.configuration == [("server.cohort", 3, 2)]
    assert found.notes == []
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    same = compare(tmp_path / "a", tmp_path / "a").metrics
    assert dict(zip(same["metric"], same["mean"], strict=True)) == {k: v for k, v in metrics.items() if v is not None}
    assert "different worlds" in compare(tmp_path / "a", tmp_path / "c").notes[0]


def test_limits_are_judged_by_each_side_s_own_scenario(write: Write, tmp_path: Path) -> None:
    limits = "expect: [rounds.count >= 50, {check: rounds.count < 10, severity: warn}, rounds.wait.mean > 1h]\n"
    simulate(Scenario.load(write(SMALL + limits, "a.yaml"))).save(tmp_path / "a")
    simulate(Scenario.load(write(SMALL, "b.yaml"))).save(tmp_path / "b")
    ours, theirs = compare(tmp_path / "a", tmp_path / "b").missed
    assert [(each.check, each.severity, each.runs, each.of, each.worst) for each in ours] == [
        ("rounds.count < 10", "warn", 1, 1, 60.0),
        ("rounds.wait.mean > 1h", "error", 1, 1, 0.0),
    ]
    assert theirs == ()


def test_limits_of_a_sweep_are_counted_over_its_runs(folders: tuple[Path, Path]) -> None:
    about = json.loads((folders[0] / "sweep.json").read_text())
    about["scenario"]["expect"] = [{"check": "participation.gap.min >= 2"}, {"check": "no.metric > 1"}]
    store.write_sweep(folders[0], about)
    whole, alone = compare(*folders).missed[0], compare(f"{folders[0]}@1", f"{folders[0]}@1").missed[0]
    assert [(each.runs, each.of, each.worst) for each in whole] == [(3, 6, 1.0), (6, 6, None)]
    assert [(each.runs, each.of) for each in alone] == [(3, 3)]


def test_the_console_says_what_it_does_and_what_is_missed(write: Write, tmp_path: Path) -> None:
    more = "learning: {problem: robust_regression, optimizers: [fedavg], step_size: 0.1}\nexpect: [rounds.count < 10]\n"
    path = write(SMALL.replace("60", "600") + more)
    for name, overrides in (("a", []), ("b", ["server.cohort=2"])):
        simulate(Scenario.load(path, overrides)).save(tmp_path / name)
    done = fedsim("compare", tmp_path / "a", tmp_path / "b")
    assert done.returncode == 0
    assert "Distance of participation from uniform without noise (TV): " in done.stdout
    headline = done.stdout.splitlines()[1]
    assert done.stdout.count(headline) == 1
    for side in "AB":
        text = f"Rounds that were opened below 10: missed at {side} (1 of 1 run, worst 600)."
        text = f"note: Of 1 expectation, 1 missed. {text}"
        assert text in done.stderr
    assert "l1_uniform_se" not in done.stdout
    assert "l1_uniform " in done.stdout
    asked = fedsim("compare", tmp_path / "a", tmp_path / "b", "--metric", "*_se")
    assert "l1_uniform_se" in asked.stdout
    data = json.loads(fedsim("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert data["missed"]["a"][0]["check"] == "rounds.count < 10"
    (settled,) = (each["state"] == "ok" for each in data["checks"] if each["name"] == "converged")
    assert any("Loss of “fedavg”: " in each["text"] for each in data["sentences"]) == settled
    assert data["answer"]


def test_what_cannot_be_compared_is_said(folders: tuple[Path, Path], write: Write, tmp_path: Path) -> None:
    simulate(Scenario.load(write(SMALL))).save(tmp_path / "run")
    with pytest.raises(
        RunError, match=r"sweeps population\.\*\.separation, .* nothing: their points do not correspond"
    ):
        compare(folders[0], tmp_path / "run")
    assert len(compare(f"{folders[0]}@1", tmp_path / "run").metrics)
    with pytest.raises(RunError, match="neither a run directory nor a sweep"):
        compare(folders[0], tmp_path)
    with pytest.raises(RunError, match="has no point '2'; its points are 0 to 1"):
        compare(folders[0], f"{folders[0]}@2")
    (tmp_path / "run" / "metrics.json").write_text("[]")
    with pytest.raises(RunError, match="holds no JSON object"):
        compare(tmp_path / "run", tmp_path / "run")


def test_changes_of_configurations() -> None:
    a = {"x": 1, "list": [1, 2], "groups": [{"n": 1}, {"n": 2}], "gone": {"deep": 0}}
    b = {"x": True, "list": [1, 3], "groups": [{"n": 1}, {"n": 3}], "new": None}
    assert list(changes(a, b)) == [
        ("x", 1, True),
        ("list", [1, 2], [1, 3]),
        ("groups[1].n", 2, 3),
        ("gone.deep", 0, ABSENT),
        ("new", ABSENT, None),
    ]
    assert list(changes(a, a)) == []


def test_the_command_compares_and_refuses(folders: tuple[Path, Path]) -> None:
    done = fedsim("compare", *folders, "--metric", "participation.l1*")
    assert done.returncode == 0, done.stderr
    assert "server.cohort: 3 -> 2" in done.stdout
    assert "participation.l1_uniform " in done.stdout
    assert "rounds.count" not in done.stdout
    data = json.loads(fedsim("compare", *folders, "--json").stdout)
    assert {"path": "server.cohort", "a": 3, "b": 2} in data["configuration"]
    assert {"metric", "difference", "low", "high", "seeds"} <= data["metrics"][0].keys()
    for arguments, complaint in (
        ([folders[0], "nowhere"], "it has no manifest.json"),
        ([*folders, "--metric", "participation.l2"], "no metric that both have"),
        ([*folders, "--confidence", "95"], "must lie between 0 and 1"),
    ):
        wrong = fedsim("compare", *arguments)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert complaint in " ".join(wrong.stderr.split())
        assert "Traceback" not in wrong.stderr


def test_no_report_is_no_success_of_a_comparison_or_a_plan(write: Write, tmp_path: Path, no_charts: None) -> None:
    text = "stop: {rounds: 3}\npopulation: [{devices: 4, session: {train: 20m}}]\nserver: {cohort: 2, deadline: 10m}\n"
    file = write(text)
    for seed in ("1", "2"):
        assert fedsim("run", file, "--seed", seed, "--out", tmp_path / seed).returncode == 3
    done = fedsim("compare", tmp_path / "1", tmp_path / "2")
    assert done.returncode == 3
    assert done.stderr.count("all 6 sessions missed the deadline") == 2
    assert "100% of the sessions would be late" in fedsim("plan", file).stderr


def test_results_are_compared_as_their_directories(tmp_path: Path) -> None:
    population = [{"devices": 12, "separation": 2}]
    data = {"stop": {"rounds": 20}, "population": population, "server": {"cohort": 3}}
    one = simulate(Scenario.model_validate(data))
    other = simulate(one.scenario.with_values({"population.*.separation": 0}))
    found, stored = compare(one, other), compare(one.save(tmp_path / "a"), other.save(tmp_path / "b"))
    assert found.configuration == stored.configuration == [("population[0].separation.value", 2, 0)]
    assert_frame_equal(found.metrics, stored.metrics)
    assert (found.notes, len(compare(one, tmp_path / "a").configuration)) == ([], 0)


def test_the_intervals_that_single_runs_state_judge_their_differences(tmp_path: Path) -> None:
    population = [{"devices": 40, "separation": 2, "weight": {"kind": "lognormal", "sigma": 1}}]
    data = {"stop": {"rounds": 400}, "population": population, "server": {"cohort": 3}}
    one = simulate(Scenario.model_validate(data))
    trials = compare(one, simulate(one.scenario.with_values({"population.*.weight": 1}))).trials
    found = contrasts(trials, "participation.l1_uniform", less_is_better=True)
    assert (found.best, found.states[0]) == (1, Standing.DIFFERS)
    errors = trials.errors("participation.l1_uniform")
    assert errors is not None
    assert errors[0] == pytest.approx(one.metrics["participation.l1_uniform_se"])
    assert contrasts(trials, "rounds.per_day", less_is_better=False).untested


def test_single_runs_that_differ_in_chance_alone_do_not_differ() -> None:
    """Participation is uniform, and more regular with a wait: called significantly more even in 47 of 50 pairs."""
    group = {"devices": 20, "separation": 0}
    data = {"seed": 1, "stop": {"rounds": 300}, "population": [group], "server": {"cohort": 3}, "engine": "vectorized"}
    one = simulate(Scenario.model_validate(data))
    trials = compare(one, simulate(one.scenario.with_values({"population.*.separation": 4}))).trials
    assert contrasts(trials, "participation.l1_uniform", less_is_better=True).differs.any()
    assert bias_metric(trials) == "participation.l1_uniform_corrected"
    assert not judge_settings(trials).contrast.differs.any()
    known, halves = one.facts.filter(key=bias_metric(trials)).row(0, named=True), trials.errors(bias_metric(trials))
    assert halves is not None
    assert halves[0] == pytest.approx((known["high"] - known["value"]) / NORMAL)
    assert known["high"] - known["value"] > known["value"] - known["low"]


def test_a_run_that_crashed_is_in_no_pair(tmp_path: Path) -> None:
    """It has a row without a metric in the results, which was taken for one."""
    found = compare(write_sweep(tmp_path / "a"), write_sweep(tmp_path / "b", crash=True))
    assert set(found.metrics["seeds"]) == {2, 3}
    assert found.nothing == ()
