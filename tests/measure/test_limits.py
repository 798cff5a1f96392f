"""Limits are judged on what was observed; names that no run has are told before one."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import simulate
from fedsim.common.errors import ScenarioError
from fedsim.measure.grammar import parse_condition
from fedsim.measure.limits import Judgement, UnknownMetricError, find_metric, judge
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.trials.plan import points_of
from tests.conftest import SMALL, Load, Write

LEARNING = "learning: {problem: robust_regression, optimizers: [fedavg, {kind: fedavg, name: again}], step_size: 0.1}\n"


def judged(write: Write, check: str, *runs: float | None, head: str = "") -> Judgement:
    """Judge ``check`` on runs with these values of its metric."""
    scenario = Scenario.load(write(SMALL + head + f"expect:\n  - {check}\n"))
    metric = parse_condition(scenario.expect[0].check).metric
    (judgement,) = judge(scenario, [{} if value is None else {metric: value} for value in runs])
    return judgement


def test_observed_limit_and_margin(write: Write) -> None:
    missed = judged(write, "{check: rounds.count < 50, why: it should be short}", 60.0)
    assert (missed.status, missed.observed, missed.limit, missed.margin) == ("fail", 60.0, 50.0, -10.0)
    assert missed.place.endswith("case.fedsim.yaml:6:13")
    assert missed.figures == "observed 60, limit 50, margin -10"
    assert judged(write, "40 <= rounds.count <= 65", 60.0).limit == [40.0, 65.0]
    assert judged(write, "rounds.count == 60", 60.0).status == "pass"


def test_a_warning_does_not_fail(write: Write) -> None:
    judgement = judged(write, "{check: rounds.count < 50, severity: warn}", 60.0)
    assert judgement.status == "warn"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_metric_without_samples_fails(write: Write, value: float | None) -> None:
    judgement = judged(write, "rounds.count >= 0", value)
    assert (judgement.status, judgement.observed, judgement.margin) == ("fail", None, None)
    assert "no samples" in judgement.figures


@given(values=st.lists(st.floats(-100, 100), min_size=2, max_size=30), limit=st.floats(-100, 100))
def test_replicates_are_judged_by_their_mean_percentile_or_worst(values: list[float], limit: float) -> None:
    """The mean, the percentile and the worst of replicates are numpy's."""
    for over, sign, counts in (
        ("every", "<=", max(values)),
        ("every", ">=", min(values)),
        ("mean", "<=", float(np.mean(values))),
        ("p95", "<=", float(np.quantile(values, 0.95))),
        ("p95", ">=", float(np.quantile(values, 0.05))),
    ):
        check = {"check": f"rounds.count {sign} {limit!r}", "over": over}
        scenario = Scenario.model_validate(
            {
                "stop": {"rounds": 1},
                "population": [{"devices": 3}],
                "server": {"cohort": 1},
                "expect": [check],
                "replicates": len(values),
            }
        )
        (judgement,) = judge(scenario, [{"rounds.count": value} for value in values])
        assert judgement.observed == pytest.approx(counts, abs=1e-9)
        if abs(counts - limit) > 1e-6:
            assert (judgement.status == "pass") == (counts <= limit if sign == "<=" else counts >= limit)


def test_amounts_are_shown_in_the_unit_that_suits_them(write: Write) -> None:
    judgement = judged(write, "fleet.bytes_down <= 40TB", 4.1e13)
    assert judgement.status == "fail"
    assert judgement.limit == 4e13
    assert judgement.figures == "observed 41TB, limit 40TB, margin -1TB"
    assert judged(write, "updates.per_day >= 35/d", 36.0).figures == "observed 36/d, limit 35/d, margin 1/d"


def test_a_replicate_without_samples_fails(write: Write) -> None:
    judgement = judged(write, "{check: rounds.count > 0, over: mean}", 5.0, None, head="replicates: 2\n")
    assert judgement.status == "fail"
    assert "in replicate 1" in judgement.note


def test_one_run_of_several_leaves_the_mean_unjudged(write: Write) -> None:
    assert judged(write, "{check: rounds.count > 0, over: mean}", 5.0, head="replicates: 2\n").status == "unjudged"
    assert judged(write, "rounds.count > 0", 5.0, head="replicates: 2\n").status == "pass"


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        ("participation.l1_chian < 1", "6:5: error: expect[0]: unknown metric 'participation.l1_chian'; did you mean "),
        ('"rounds.cuont < 1"', "6:6: error: expect[0]: unknown metric 'rounds.cuont'; did you mean 'rounds.count'?"),
        (
            "rounds.count < 5m",
            "6:20: error: expect[0]: rounds.count has no unit, and cannot be compared with a duration",
        ),
        ("rounds.wait.p95 < 5", "6:23: error: expect[0]: rounds.wait.p95 is a time, so the limit needs a unit: "),
        ("rounds.wait.p95 < 5%", "6:23: error: expect[0]: rounds.wait.p95 is in s, and cannot be compared with a perc"),
        ("updates.per_day < 5GB", "6:23: error: expect[0]: updates.per_day is in 1/d, and cannot be compared with a"),
        ("versions.per_hour < 5/h", "versions.per_hour is in 1/h, and cannot be compared with a value in 1/d"),
        ("learning.fedavg.sent_mb < 5GB", "is in MB, and cannot be compared with a value in B"),
        ("{check: rounds.count = 1}", "6:26: error: expect[0]: '=' is no comparison; did you mean '=='?"),
        ("{check: rounds.count > 1, over: mean}", "6:37: error: expect[0].over: over: mean needs several replicates"),
        ("{check: rounds.count > 1, over: median}", "must be one of 'every', 'mean' or 'p95', not 'median'"),
        ("learning.fedvag.loss < 1", "no optimizer is called 'fedvag'; did you mean 'fedavg'?"),
        ("learning.fedavg.los < 1", "did you mean 'learning.fedavg.loss'?"),
        ("group.phones.share < 1", "no group is called 'phones'; known are everyone"),
        ("population.available_share.utc.24 > 0", "unknown metric"),
        ("group.GROUP.share > 0", "no group is called 'GROUP'"),
    ],
)
def test_mistakes_in_expectations_have_their_place(write: Write, check: str, complaint: str) -> None:
    path = write(SMALL + f"expect:\n  - {check}\n" + LEARNING)
    with pytest.raises(ScenarioError) as caught:
        preflight(Scenario.load(path))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("decide", "complaint"),
    [
        ("{}", ":5:9: error: decide: needs either `minimize` or `maximize`, a metric each, and it has neither"),
        ("{minimize: rounds.count, maximize: rounds.count}", "and it has both"),
        ("{minimise: rounds.count}", ":5:10: error: decide.minimise: unknown key; did you mean 'minimize'?"),
        (
            "{minimize: participation.l1_unifrm}",
            ":5:20: error: decide.minimize: unknown metric 'participation.l1_unifrm'; did you mean 'participation",
        ),
        ("{maximize: learning.fedvag.loss}", "decide.maximize: no optimizer is called 'fedvag'; did you mean"),
        ("{maximize: rounds.count, subject_to: rounds.count > 3}", "decide.subject_to: must be a list"),
        (
            "{maximize: rounds.count, subject_to: [rounds.per_dya >= 200]}",
            ":5:47: error: decide.subject_to[0]: unknown metric 'rounds.per_dya'; did you mean 'rounds.per_day'?",
        ),
        (
            "{maximize: rounds.count, subject_to: [rounds.count > 1, rounds.per_day => 200]}",
            ":5:80: error: decide.subject_to[1]: '=>' is no comparison; did you mean '>='?",
        ),
    ],
)
def test_mistakes_of_what_to_decide_by_have_their_place(write: Write, decide: str, complaint: str) -> None:
    path = write(SMALL + f"decide: {decide}\n" + LEARNING)
    with pytest.raises(ScenarioError) as caught:
        preflight(Scenario.load(path))
    assert complaint in str(caught.value)


def test_what_to_decide_by_changes_no_run(write: Write) -> None:
    plain, decided = (
        Scenario.load(write(SMALL + more, name))
        for more, name in (
            ("", "a.yaml"),
            ("decide: {minimize: rounds.count, subject_to: [rounds.count >= 1]}\n", "b.yaml"),
        )
    )
    preflight(decided)
    assert "decide" not in plain.model_dump(mode="json")
    assert [point.digest for point in points_of(plain)] == [point.digest for point in points_of(decided)]


@pytest.mark.parametrize(
    ("drift", "complaint"),
    [
        ("{figures: [rounds.cuont]}", "drift.figures[0]: unknown metric 'rounds.cuont'; did you mean 'rounds.count'?"),
        ("{figures: [rounds.count, {name: rounds.count}]}", "drift.figures[1]: 'rounds.count' is listed twice"),
        ("{fingerprint: [round]}", "did you mean 'rounds'?"),
        ("{fingerprint: [rounds, rounds]}", "drift.fingerprint[1]: 'rounds' is listed twice"),
        ("{fingerprint: [transitions]}", "records.transitions names no clients"),
        ("{fingerprint: [convergence]}", "theory.convergence asks for none"),
        ("{figures: [rounds.count], rel: -1}", "drift.rel: must be at least 0"),
    ],
)
def test_mistakes_in_drift(write: Write, drift: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        preflight(Scenario.load(write(SMALL + f"drift: {drift}\n")))
    assert complaint in str(caught.value)


def test_every_metric_of_a_run_can_be_named(write: Write) -> None:
    """What a run measures and what a condition may name are the same: two lists of names, made independently."""
    text = SMALL.replace("  - {devices: 12,", "  - {name: a b/c, devices: 6}\n  - {name: d, devices: 6,")
    scenario = Scenario.load(write(text + LEARNING.replace("}\n", ", reference: uniform}\n")))
    metrics = simulate(scenario).metrics
    assert len(metrics) > 100
    for name in metrics:
        assert find_metric(name, scenario).name
    for name in ("group.a b/c.share", "group.a-b-c", "learning.fedavg", "learning", "", "rounds"):
        with pytest.raises(UnknownMetricError):
            find_metric(name, scenario)


def test_without_learning_its_metrics_have_no_samples(write: Write) -> None:
    path = write(SMALL + LEARNING + "expect: [learning.fedavg.loss < 100]\n")
    (judgement,) = simulate(Scenario.load(path, ["learning=null"])).verdict
    assert (judgement.status, judgement.note[:10]) == ("fail", "no samples")


def test_the_manifest_holds_the_verdict(small: Load, tmp_path: Path) -> None:
    result = simulate(small("expect=[rounds.count == 60, {check: rounds.wait.p95 > 1h, why: because}]"))
    manifest = json.loads((result.save(tmp_path / "run") / "manifest.json").read_text())
    first, second = manifest["verdict"]
    assert {"check", "severity", "why", "observed", "limit", "margin", "status", "place"} <= set(first)
    assert (first["status"], first["observed"], first["margin"]) == ("pass", 60.0, 0.0)
    assert (second["status"], second["limit"], second["margin"], second["why"]) == ("fail", 3600.0, -3600.0, "because")
