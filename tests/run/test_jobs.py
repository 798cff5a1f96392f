"""A run directory of several jobs: its tables and metrics, what is promised to a user, kills, and who else reads it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedsim
from fedsim.common.errors import RunError, ScenarioError, StalledError
from fedsim.common.keyed import Purpose, stream
from fedsim.measure.limits import UnknownMetricError, find_metric, judge
from fedsim.pages import report_directories
from fedsim.privacy.epsilon import epsilon_of
from fedsim.run.files import Provenance
from fedsim.run.load import load_one
from fedsim.run.preflight import checked
from fedsim.run.simulate import record
from fedsim.scenario import Scenario
from fedsim.theory import available_prediction
from fedsim.theory.prediction import theory_or_why_not
from tests.conftest import LIMIT_S
from tests.run.test_record import files

FILE = """\
seed: 2
stop: {rounds: 60, duration: 20d}
population:
  - {name: north, devices: 30, availability: {kind: renewal, on: 2h, off: 3h}}
  - {name: south, devices: 12, separation: 1, weight: 2}
matching: fair_share
most_a_day: 30
jobs:
  keyboard:
    server: {cohort: 5, deadline: 5m, pause: 7m}
    separation: 2
    weight: 2
    learning: {problem: quadratic, optimizers: [fedavg], step_size: 0.1}
    privacy: {noise_multiplier: 1.0, delta: 1.0e-5}
  speech:
    server: {mode: buffered, concurrency: 4, buffer: 2, cooldown_from: reported}
    separation: 1
    privacy: {noise_multiplier: 2.0, delta: 1.0e-6}
expect: [job.keyboard.rounds.count == 60, job.speech.participation.gap.min >= 1, jobs.left_out_share < 50%]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shared.fedsim.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def scenario(file: Path) -> Scenario:
    return Scenario.load(file)


def test_a_run_directory_has_all_jobs_and_one_for_each(scenario: Scenario, tmp_path: Path, no_charts: None) -> None:
    """From memory and as it goes: the same bytes; each job's own directory is a run like any other."""
    result = fedsim.simulate(scenario)
    result.save(tmp_path / "saved")
    done = record(scenario, tmp_path / "run", Provenance())
    written, saved = files(tmp_path / "run"), files(tmp_path / "saved")
    assert {name for name in written if name.endswith(".html")} == {
        "report.html",
        *(f"jobs/{name}/report.html" for name in scenario.jobs),
    }
    assert {name: each for name, each in written.items() if not name.endswith((".html", "manifest.json"))} == {
        name: each for name, each in saved.items() if not name.endswith("manifest.json")
    }
    assert not done.failure
    whole = fedsim.load(tmp_path / "run")
    for name, job in whole.jobs.items():
        own = load_one(tmp_path / "run" / "jobs" / name)
        for table, frame in own.tables.items():
            rows = whole.tables[table].filter(job=name).drop("job").select(frame.columns)
            assert rows.equals(frame), table
        assert {f"job.{name}.{key}": x for key, x in own.metrics.items()}.items() <= {
            key: x for key, x in whole.metrics.items() if not math.isnan(x)
        }.items() or any(math.isnan(x) for x in own.metrics.values())
        assert job.scenario == scenario.of_job(name)
    assert whole.metrics["job.keyboard.learning.fedavg.loss"] > 0
    assert [each.status for each in judge(scenario, [whole.metrics])] == ["pass"] * 3
    taken = whole.clients.group_by("client").agg(pl.col("participations").sum())["participations"]
    assert whole.metrics["jobs.left_out_share"] == (taken == 0).mean()


def test_what_all_jobs_promise_a_user(scenario: Scenario) -> None:
    """Noise of 1 and of 2: sigma^-2 adds up, 1 + 1/4, at the smaller delta; no promise where one job makes none."""
    metrics = fedsim.simulate(scenario).metrics
    sigma = (1.0**-2 + 2.0**-2) ** -0.5
    assert metrics["privacy.user.noise_multiplier"] == pytest.approx(sigma)
    assert metrics["privacy.user.rho"] == pytest.approx(0.5 + 0.125)
    assert metrics["privacy.user.epsilon"] == pytest.approx(epsilon_of(sigma, 1e-6))
    assert metrics["privacy.user.epsilon"] > metrics["job.keyboard.privacy.epsilon"]
    none = fedsim.simulate(scenario.with_values({"jobs.speech.privacy": None, "stop.rounds": 3, "expect": []})).metrics
    assert "privacy.user.epsilon" not in none
    assert "job.keyboard.privacy.epsilon" in none


def test_alone_each_job_is_what_it_would_be_without_the_others(scenario: Scenario) -> None:
    metrics = fedsim.simulate(scenario.with_values({"alone": True, "expect": []})).metrics
    for name in scenario.jobs:
        alone = fedsim.simulate(scenario.with_values({"job": name, "expect": []})).metrics
        own = {key: x for key, x in metrics.items() if key.startswith(f"job.{name}.alone.")}
        assert len(own) > 10
        assert own == pytest.approx({key: alone[key.removeprefix(f"job.{name}.alone.")] for key in own}, nan_ok=True)


def test_no_theory_where_other_jobs_take_devices_away(scenario: Scenario) -> None:
    view = checked(scenario)["keyboard"].scenario
    everywhere = view.with_values({"population.0.availability": "always", "most_a_day": None})
    population = checked(everywhere)[""].population
    assert theory_or_why_not(everywhere, population) == "devices are not always there (other jobs on the fleet)"
    assert "other jobs on the fleet (speech)" in str(available_prediction.why_not(everywhere, population))
    alone = everywhere.with_values({"beside": []})
    assert not isinstance(theory_or_why_not(alone, population), str)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("server={cohort: 3}", "has `jobs`, and beside them `server`: each job has its own; move it into one of them"),
        ("jobs.speech.groups=[suth]", "jobs.speech.groups names 'suth', and no group is called so; did you mean"),
        ("job=speach", "`job` is 'speach', and there is none; did you mean 'speech'?"),
        ("matching=fair_shar", "matching: unknown kind 'fair_shar'; did you mean 'fair_share'?"),
        ("jobs.speech.server.cohort=2", "jobs.speech.server.cohort: is for mode: sync"),
        ("jobs.speech.starts=30d", "job 'speech': the server opens its first round (starts) when the run is over"),
        ("jobs.keyboard.server.cohort=90", "job 'keyboard': a round wants 90 clients, but the population has 42"),
        ("jobs.9x={server: {cohort: 2}}", "jobs.9x"),
        ("starts=2h", "`starts` is of one job, and not beside `jobs`"),
        ("choose={'server.cohort': [3, 4]}", "`choose` is about one server"),
        ("expect=[job.keybord.rounds.count > 1]", "no job is called 'keybord'; did you mean 'keyboard'?"),
        ("expect=[job.speech.rounds.cont > 1]", "unknown metric 'rounds.cont'; did you mean 'rounds.count'?"),
    ],
)
def test_mistakes_of_jobs_are_told(file: Path, override: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        checked(Scenario.load(file, [override]))
    assert message in str(error.value)


def test_matching_without_jobs_is_refused(file: Path) -> None:
    with pytest.raises(ScenarioError, match="`matching` is for several jobs on one fleet, and there are no `jobs`"):
        Scenario.load(file, ["jobs={}", "server={cohort: 3}", "expect=[]"])


def test_code_in_a_job_needs_permission(file: Path) -> None:
    for path in ("jobs.speech.server.selection", "jobs.speech.separation", "jobs.speech.session.train", "matching"):
        with pytest.raises(ScenarioError, match="would run code"):
            Scenario.load(file, [f"{path}={{kind: 'my_module:Law'}}"])
    with pytest.raises(ScenarioError, match="would run code"):
        Scenario.load(file, ["sweep={grid: {'jobs.*.server.selection': ['my_module:Law']}}"])


def test_questions_about_one_server_ask_for_its_job(file: Path, tmp_path: Path, no_charts: None) -> None:
    for ask in (fedsim.participation_theory, fedsim.privacy_guarantees):
        with pytest.raises(
            ScenarioError, match=r"several jobs share this fleet \(keyboard, speech\).*--set job=keyboard"
        ):
            ask(file)
    record(Scenario.load(file, ["stop.rounds=3", "expect=[]"]), tmp_path / "run", Provenance())
    with pytest.raises(RunError, match="is a run of several jobs, and this is about one: name its own directory, of"):
        load_one(tmp_path / "run")
    with pytest.raises(UnknownMetricError):
        find_metric("rounds.wait.maxx", Scenario.load(file))


def test_a_job_that_stalls_is_told_by_its_name(scenario: Scenario, tmp_path: Path, no_charts: None) -> None:
    server = {"cohort": 40, "patience": "1h"}  # most of the devices come and go
    changes = {"jobs.keyboard.server": server, "jobs.keyboard.separation": 0, "expect": []}
    with pytest.raises(StalledError, match="job 'keyboard': round 0"):
        fedsim.simulate(scenario.with_values(changes))
    done = record(scenario.with_values(changes), tmp_path / "run", Provenance())
    assert "job 'keyboard': round 0" in done.failure
    assert fedsim.load(tmp_path / "run").metrics["job.speech.rounds.count"] == 60
    (text,) = report_directories([tmp_path / "run"], "json", None)
    said = json.loads(text)
    assert "job 'keyboard': round 0" in said["answer"]
    assert any("“keyboard” has no report" in each["text"] for each in said["sentences"])


def test_the_page_says_what_the_metrics_say(scenario: Scenario, tmp_path: Path) -> None:
    """Each sentence follows from the figures: with others, alone, promises, and who is left out."""
    record(scenario.with_values({"alone": True}), tmp_path / "run", Provenance())
    metrics = fedsim.load(tmp_path / "run").metrics
    (text,) = report_directories([tmp_path / "run"], "json", None)
    told = json.loads(text)
    said = " ".join((told["answer"], *(each["text"] for each in (*told["checks"], *told["sentences"]))))
    of, figure = "job.{}.", "participation.reported_l1_uniform"
    apart = {
        name: 50 * (metrics[f"{of.format(name)}{figure}"] - metrics[f"{of.format(name)}alone.{figure}"])
        for name in ("keyboard", "speech")
    }
    assert all(f"“{name}” {by:+.1f}".replace("-", "\N{MINUS SIGN}") in said for name, by in apart.items())
    left = metrics["jobs.left_out_share"]
    assert ("Every device was selected by a job." in said) == (left == 0)
    paces = ((metrics[f"job.{name}.updates.per_day"], metrics[f"job.{name}.alone.updates.per_day"]) for name in apart)
    lost = [100 * (1 - beside / alone) for beside, alone in paces]
    shares = [f"{abs(each):.1f}\N{NARROW NO-BREAK SPACE}% {'fewer' if each > 0 else 'more'} than" for each in lost]
    ways = [share if each else "as many as" for share, each in zip(shares, lost, strict=True)]
    assert told["answer"].startswith("“keyboard” makes ")  # who gets how much, and then the bias
    assert all(f" updates per day, {way} alone" in told["answer"] for way in ways)
    tied = "Sharing does not significantly change how even reports are" in told["answer"]
    assert tied != ("What sharing adds to the distance of reports" in told["answer"])
    assert all(f"“{name}”: " in said for name in apart)  # who takes part in each
    waits = [metrics[f"job.keyboard.{alone}rounds.waiting_share"] for alone in ("", "alone.")]
    assert ("Rounds of “keyboard” wait for clients " in said) == (waits[0] > waits[1] + 0.02)
    assert f"at delta = {metrics['privacy.user.delta']:g}" in said
    fewer = {"jobs.speech.groups": ["north"], "jobs.keyboard.groups": ["north"], "jobs.speech.privacy": None}
    record(scenario.with_values({**fewer, "expect": []}), tmp_path / "other", Provenance())
    (text,) = report_directories([tmp_path / "other"], "json", None)
    told = json.loads(text)
    said = " ".join(each["text"] for each in (*told["checks"], *told["sentences"]))
    assert f"{100 * 12 / 42:.1f}" in said
    assert "No promise covers a user, since speech promises nothing." in said


def test_killed_while_the_report_is_drawn_only_that_is_done_again(scenario: Scenario, tmp_path: Path) -> None:
    """The manifest is there, which is written last, and so is the folder of what is under way."""
    small = scenario.with_values({"stop.rounds": 5, "expect": []})
    record(small, tmp_path / "run", Provenance())
    written, page = (tmp_path / "run" / "manifest.json").read_bytes(), (tmp_path / "run" / "report.html").read_bytes()
    (tmp_path / "run" / "report.html").unlink()
    (tmp_path / "run" / "log.partial").mkdir()
    record(small, tmp_path / "run", Provenance(), resume=True)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == written
    assert (tmp_path / "run" / "report.html").read_bytes() == page


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_killed_by_the_operating_system_at_random(file: Path, tmp_path: Path) -> None:
    """SIGKILL 8 times at instants from the start to the end of a run; then the files are those of an unhurt one."""
    command = [sys.executable, "-m", "fedsim", "run", str(file), "--set", "stop.rounds=1500", "--set", "expect=[]"]
    command += ["--out"]
    subprocess.run([*command, tmp_path / "whole"], capture_output=True, check=True, timeout=LIMIT_S)
    whole = files(tmp_path / "whole")
    pages = {name: b"" for name in whole if name.endswith(".html")}

    def compare(name: str) -> None:
        assert files(tmp_path / "killed") | pages == whole | pages
        (tmp_path / "killed").rename(tmp_path / name)

    kills, again = 0, [*command, str(tmp_path / "killed"), "--resume"]
    for number, wait in enumerate((0.5 + 4.0 * stream(7, 0, Purpose.CHAIN).uniforms(0, np.arange(400))).tolist()):
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT_S)
            kills += 1
        else:
            assert process.returncode == 0
            compare(f"killed-{number}")
        if kills == 8:
            break
    assert kills == 8
    subprocess.run(again, capture_output=True, check=True, timeout=LIMIT_S)
    compare("killed-last")
