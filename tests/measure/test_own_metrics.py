"""Metrics of one's own: measured, judged, locked and swept like the built-in ones, and refused where they cannot be."""

import json
import math
import sys
from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli.main import app
from fedsim.common.errors import PluginError, ScenarioError
from fedsim.measure.facts import facts_of
from fedsim.measure.metrics import BUILTIN, METRICS, declared, describe, listed, scope
from fedsim.measure.metrics.metric import Metric
from fedsim.run.preflight import preflight
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from tests.conftest import Write

OWN = """\
class NightShare:
    name = "night.share"
    unit = "share"
    meaning = "Sessions that begin between midnight and six, UTC."
    scope = "both"

    def measure(self, run):
        night = total = 0
        for part in run.participations("selected_s"):
            night += int((part["selected_s"] / 3600 % 24 < 6).sum())
            total += len(part)
        return night / total if total else float("nan")


class Tail:
    def __init__(self, *, quantile: float, gives: str = "") -> None:
        self.quantile, self.gives = quantile, gives
        self.metrics = [("tail.length", "s", "A quantile of the lengths."), ("tail.rounds", "", "Of how many.")]

    def measure(self, run):
        if self.gives:
            return eval(self.gives)
        lengths = run.rounds["closed_s"] - run.rounds["opened_s"]
        return {"tail.length": lengths.quantile(self.quantile), "tail.rounds": len(lengths)}


class Counts:
    name = "rounds.count"

    def measure(self, run):
        return 1


class Silent:
    pass
"""
WORLD = """\
stop: {rounds: 120}
population:
  - {name: a, devices: 9, separation: 2}
  - {name: b, devices: 9, availability: {kind: renewal, on: 1h, off: 5m}}
server: {cohort: 3, pause: 10m}
"""
BOTH = "metrics: [own_metrics:NightShare, {kind: 'own_metrics:Tail', quantile: 0.5}]\n"


@pytest.fixture
def own(write: Write) -> Write:
    """Write a scenario with the module beside it."""

    def written(text: str, name: str = "case.fedsim.yaml") -> Path:
        path = write(WORLD + text, name)
        path.with_name("own_metrics.py").write_text(OWN)
        return path

    return written


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "own_metrics", raising=False)


def load(path: Path, *overrides: str) -> Scenario:
    return Scenario.load(path, overrides, allow_plugins=True)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_own_metrics_are_measured_in_both_engines(own: Write, engine: str) -> None:
    result = simulate(load(own(BOTH), f"engine={engine}"))
    early = result.participations["selected_s"] / 3600 % 24 < 6
    assert result.metrics["night.share"] == early.mean()
    assert {"group.a.night.share", "group.b.night.share"} <= set(result.metrics)
    length = result.rounds["closed_s"] - result.rounds["opened_s"]
    assert result.metrics["tail.length"] == length.quantile(0.5)
    assert result.metrics["tail.rounds"] == 120.0
    plain = simulate(load(own(""), f"engine={engine}"))
    assert {name: result.metrics[name] for name in plain.metrics} == plain.metrics
    assert plain.participations.equals(result.participations)


@pytest.mark.long
def test_from_the_command_line_with_permission(own: Write, tmp_path: Path) -> None:
    """Judged by expect, written to the run directory, locked by drift, compared, listed; refused without permission."""
    limits = "expect: [night.share <= 100%, tail.length < 3h]\ndrift: {figures: [night.share]}\n"
    path, out, runner = str(own(BOTH + limits)), str(tmp_path / "out"), CliRunner()
    refused = runner.invoke(app, ["run", path, "--out", out])
    assert isinstance(refused.exception, ScenarioError)
    assert "metrics[0]: 'own_metrics:NightShare' would run code" in str(refused.exception)
    done = runner.invoke(app, ["run", path, "--out", out, "--allow-plugins"])
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [each["observed"] for each in manifest["verdict"]] == [metrics["night.share"], metrics["tail.length"]]
    assert [each["name"] for each in manifest["own_metrics"]] == ["night.share", "tail.length", "tail.rounds"]
    listed_ = runner.invoke(app, ["metrics", path, "--allow-plugins", "--json"])
    assert [each["name"] for each in json.loads(listed_.output)][-3:] == ["night.share", "tail.length", "tail.rounds"]
    for option in ("--update", "--locked"):
        assert runner.invoke(app, ["replay", path, "--allow-plugins", option]).exit_code == 0
    lock = json.loads((tmp_path / "case.fedsim.lock.json").read_text())
    assert str(metrics["night.share"]) in json.dumps(lock)
    compared = runner.invoke(app, ["compare", out, out, "--json"])
    assert "night.share" in compared.output


def test_a_metric_without_samples_fails_its_condition(own: Write) -> None:
    choice = """metrics: [{kind: 'own_metrics:Tail', quantile: 0.5, gives: '{"tail.length": float("nan")}'}]\n"""
    result = simulate(load(own(choice + "expect: [tail.length < 3h, tail.rounds > 0]\n")))
    assert math.isnan(result.metrics["tail.length"])
    assert [(each.status, each.observed) for each in result.verdict] == [("fail", None), ("fail", None)]


@pytest.mark.parametrize(
    ("gives", "complaint"),
    [
        ("{'tail.length': None}", "returned None for tail.length, which is not a number"),
        ("{'tail.lenth': 1}", "returned 'tail.lenth', and declares only tail.length, tail.rounds"),
        ("7.5", "declares 2 metrics, so it must return a mapping, not 7.5"),
    ],
)
def test_what_goes_wrong_is_told_by_its_name(own: Write, gives: str, complaint: str) -> None:
    scenario = load(own(f"metrics: [{{kind: 'own_metrics:Tail', quantile: 0.5, gives: \"{gives}\"}}]\n"))
    with pytest.raises(PluginError, match=r"own_metrics:Tail") as caught:
        simulate(scenario)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("metrics: [own_metrics:Counts]", "metrics[0].kind: 'own_metrics:Counts' has the name 'rounds.count', which"),
        ("metrics: [rounds]", "'rounds' has the name 'rounds.count', which belongs to another metric"),
        ("metrics: [own_metrics:Silent]", "lacks the methods measure"),
        ("metrics: [own_metrics:NightShaer]", "did you mean 'NightShare'?"),
        ("metrics: [nightshare]", "metrics[0].kind: unknown metric 'nightshare'"),
        (
            "metrics: [{kind: 'own_metrics:Tail', quantlie: 1}]",
            "metrics[0].quantlie: unknown option 'quantlie'; did you",
        ),
        (
            "metrics: [{kind: 'own_metrics:Tail', quantile: '1'}]",
            "metrics[0].quantile: must be a valid number, got '1'",
        ),
        (
            "metrics: [own_metrics:NightShare, own_metrics:NightShare]",
            "has the name 'night.share', which belongs to another metric",
        ),
        (BOTH + "expect: [nigth.share < 1]", "unknown metric 'nigth.share'; did you mean 'night.share'?"),
        (BOTH + "expect: [tail.length < 3]", "tail.length is a time, so the limit needs a unit"),
    ],
)
def test_mistakes_are_told_before_anything_runs(own: Write, text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        preflight(load(own(text + "\n")))
    assert complaint in str(caught.value)


def test_a_scenario_without_any_is_written_as_ever(own: Write) -> None:
    assert not {"metrics", "charts"} & set(load(own("")).model_dump(mode="json"))
    dumped = load(own(BOTH)).model_dump(mode="json")
    assert dumped["metrics"] == [{"kind": "own_metrics:NightShare"}, {"kind": "own_metrics:Tail", "quantile": 0.5}]


def test_the_built_in_ones_go_through_the_same_door() -> None:
    names = [metric.name for kind in BUILTIN for metric in declared(METRICS.build(kind, {}))]
    assert len(set(names)) == len(names)
    assert all(scope(METRICS[kind]) in {"run", "groups", "both"} for kind in BUILTIN)
    families = [family for family, _ in groupby(listed(), key=lambda metric: metric.name.partition(".")[0])]
    assert len(set(families)) == len(families)
    assert all(describe(metric.name) is not None for metric in listed())


def test_the_interval_of_a_share_by_spans_stays_between_0_and_1() -> None:
    own = {name: Metric(name, unit, "") for name, unit in (("few", "share"), ("most", "share"), ("length", "s"))}
    measured = {"few": [0.0, 0.0, 0.03], "most": [1.0, 1.0, 0.97], "length": [0.0, 0.0, 0.03]}
    low, high = (facts_of(measured, {}, own)[end].to_list() for end in ("low", "high"))
    assert (low[0], high[1]) == (0.0, 1.0)
    assert low[2] < 0.0 < high[0] < low[1] < 1.0


def test_a_loaded_result_shows_itself_where_the_module_is_not(
    own: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_charts: None
) -> None:
    """Its limits name metrics whose class cannot be imported there; it raised."""
    made = simulate(load(own(BOTH + "expect: [night.share <= 100%]\n")))
    made.save(tmp_path / "run")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(tmp_path)])
    monkeypatch.delitem(sys.modules, "own_metrics")
    found = fedsim.load(tmp_path / "run")
    assert [(each.status, each.observed) for each in found.verdict] == [("pass", made.metrics["night.share"])]
    assert "night.share" in repr(found) + found._repr_html_()
    again = fedsim.load(found.save(tmp_path / "again"))
    assert again.metrics == made.metrics
    assert found.report(tmp_path / "page.html").exists()
