"""``fedsim privacy``: tables by separation, the JSON that others rely on, logs beside promises, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim import privacy_guarantees
from fedsim.common.json_files import as_json, checksum
from fedsim.log import fingerprint
from fedsim.privacy import ParticipationBounds, sensitivity
from fedsim.privacy.guarantee import Guarantee, guarantee
from fedsim.privacy.mechanisms.fixed import square_root
from fedsim.scenario.privacy import Privacy
from tests.command import fedsim, fedsim_process
from tests.conftest import Write

CASE = """\
stop: {rounds: 90}
population:
  - {devices: 60, weight: {kind: zipf, exponent: 1}, separation: 4}
server: {cohort: 3}
privacy: {mechanism: sqrt, noise_multiplier: 2, delta: 1.0e-6}
"""
KEYS = {
    *("separation", "rounds", "min_separation", "most_participations", "mechanism", "sensitivity", "noise_multiplier"),
    *("rho", "epsilon", "delta", "error_max", "error_rms"),
}


def results(*arguments: object) -> list[dict[str, Any]]:
    done = fedsim("privacy", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


def test_json_by_separation(write: Write) -> None:
    file = write(CASE)
    rows = results(file, "--separation", "0,4,8:9")
    assert [row["separation"] for row in rows] == [0, 4, 8, 9]
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["min_separation"] for row in rows] == [1, 5, 9, 10]
    assert [row["most_participations"] for row in rows] == [90, 18, 10, 9]
    expected = [sensitivity(square_root(90), ParticipationBounds(90, b)) for b in (1, 5, 9, 10)]
    assert [row["sensitivity"] for row in rows] == expected
    assert {row["rho"] for row in rows} == {0.125}
    own = fedsim("chain", file, "--separation", "4", "--json")
    assert rows[1]["l1_uniform"] == json.loads(own.stdout)["results"][0]["l1_uniform"]
    assert results(file) == [rows[1]]


def test_noise_or_epsilon_instead(write: Write) -> None:
    file = write(CASE)
    (one,) = results(file, "--epsilon", 3)
    assert one["epsilon"] == pytest.approx(3.0)
    (other,) = results(file, "--noise", one["noise_multiplier"])
    assert other == one
    (written,) = results(file, "--set", "privacy.noise_multiplier=null", "--set", "privacy.epsilon=3")
    assert written == one


def test_the_table(write: Write) -> None:
    done = fedsim("privacy", write(CASE), "--set", "privacy.clip=0.5", "--set", "population.0.cooldown=6h")
    head, row, basis, mean = done.stdout.splitlines()
    assert head.split()[:5] == ["separation", "cohort", "b", "k", "sensitivity"]
    assert row.split()[:4] == ["4", "3", "5", "18"]
    assert basis.startswith("n = 90 rounds, mechanism sqrt, delta = 1e-06; one client; adjacency: zero-out")
    assert float(row.split()[-3]) == pytest.approx(0.5 * 2 * float(row.split()[4]), rel=1e-4)
    assert float(row.split()[-2]) == pytest.approx(float(row.split()[-3]) / 3, rel=1e-4)
    assert mean == "of mean: standard deviation of the rows of Z over the cohort, the noise of a round's mean update"
    assert "note: cool-downs by the clock count for nothing" in done.stderr


@pytest.mark.long
def test_separations_per_client_and_what_no_theory_covers(write: Write) -> None:
    change = "population.0.separation={kind: uniform, low: 1, high: 3}"
    done = fedsim(
        "privacy", write(CASE), "--set", change, "--set", "population.0.availability={kind: renewal, on: 1h, off: 1h}"
    )
    assert done.stdout.splitlines()[1].split()[:2] == ["per", "client"]
    assert "note: L1 uniform takes every device to be always available" in done.stderr
    (row,) = results(write(CASE), "--set", change)
    assert (row["separation"], row["min_separation"]) == (None, 2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--noise", "0"], "--noise: error: privacy.noise_multiplier: must be at least 1e-06, not 0.0"),
        (["--epsilon", "nan"], "--epsilon: error: privacy.epsilon: must be"),
        (["--noise", "1", "--epsilon", "1"], "noise gives epsilon, and epsilon noise"),
        (["--separation", "x"], "'x' is not a number of rounds"),
        (["--separation", "30"], "separation 30 can never be kept"),
        (["--most", "3"], "go with --from-log"),
        (["--from-log", "."], "give a scenario file, or --from-log"),
        (["--set", "privacy=null"], "error: the scenario promises nothing: give it a mapping privacy"),
        (["--set", "privacy.mechanism=bandit"], "unknown privacy mechanism 'bandit'; did you mean 'banded'"),
        (["--set", "privacy.mechanism={kind: banded, bands: 0}"], "privacy.mechanism.bands: must be greater than"),
        (["--set", "privacy.epsilon=3"], "privacy: needs noise_multiplier or epsilon, and not both"),
        (["--set", "privacy.noise_multiplier=null"], "needs noise_multiplier or epsilon, to say how much noise"),
        (["--set", "privacy.delta=0"], "privacy.delta: must be at least 1e-100"),
        (["--set", "privacy.mechanism=own:Mechanism"], "would run code"),
    ],
)
def test_mistakes(write: Write, arguments: list[str], told: str) -> None:
    done = fedsim("privacy", write(CASE), *arguments)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())


OWN = """\
class Rising:
    def coefficients(self, bounds):
        return [1.0, 0.2, 0.9, 0.1, 0.8, 0.1, 0.3]
class Failing:
    def coefficients(self, bounds):
        raise RuntimeError("out of ideas")
class Fine:
    def coefficients(self, bounds):
        return [1.0, 0.5]
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [("Rising", "must not be negative, nor rise"), ("Failing", "RuntimeError: out of ideas"), ("Fine", "case")],
)
def test_a_mechanism_of_ones_own(write: Write, name: str, told: str) -> None:
    write(OWN, "rooted.py")
    file = write(CASE)
    done = fedsim("validate", file, "--set", f"privacy.mechanism=rooted:{name}", "--allow-plugins")
    assert told in done.stderr + done.stdout
    assert done.returncode == (0 if name == "Fine" else 2)


@pytest.fixture
def run(write: Write, tmp_path: Path, no_charts: None) -> Path:
    expect = "expect: [privacy.epsilon <= 2.7, privacy.rho == 0.125, participation.separation.least >= 5]\n"
    done = fedsim("run", write(CASE + expect), "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["privacy.sensitivity"] == sensitivity(square_root(90), ParticipationBounds(90, 5))
    return tmp_path / "run"


def test_a_log_that_keeps_its_promise(run: Path) -> None:
    done = fedsim("privacy", "--from-log", run)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "promised: n = 90, b = 5, k = 18"
    assert done.stdout.splitlines()[1].startswith("observed: n = 90, b = 5, k = 1")
    assert done.stdout.splitlines()[2] == "the log keeps the promise"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--min-separation", "6"], "5 apart, and b = 6 was promised"),
        (["--most", "2"], "times, and k = 2 was promised"),
        (["--rounds", "80"], "round 89 took reports, and 80 rounds were promised"),
        (["--rounds", "80", "--min-separation", "5"], "round 89 took reports, and 80 rounds were promised"),
    ],
)
def test_a_log_that_breaks_another_promise(run: Path, arguments: list[str], told: str) -> None:
    done = fedsim("privacy", "--from-log", run, *arguments, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["kept"] is False
    assert any(told in sentence for sentence in found["broken"])
    assert told in done.stderr


def test_a_log_that_was_tampered_with_breaks_its_own(run: Path) -> None:
    participations = pl.read_parquet(run / "participations.parquet")
    worse = participations.with_columns(client=pl.when(pl.col("round") < 2).then(0).otherwise("client"))
    worse.write_parquet(run / "participations.parquet")
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["fingerprints"]["participations"] = fingerprint(worse)
    manifest["checksums"]["manifest.json"] = checksum(
        manifest, "checksums", "wall_time_s"
    )  # who tampers makes them anew
    (run / "manifest.json").write_text(as_json(manifest))
    done = fedsim("privacy", "--from-log", run)
    assert done.returncode == 1
    assert "the log breaks the promise" in done.stdout
    assert (
        "broken: client 0 contributed in round 0 and again in round 0: 0 apart, and b = 5 was promised" in done.stderr
    )


def test_cohorts_are_compared_at_each_separation(write: Write) -> None:
    file = write(CASE)
    rows = results(file, "--separation", "0,4", "--cohort", "1:3")
    assert [(row["separation"], row["cohort"]) for row in rows] == [(r, b) for r in (0, 4) for b in (1, 2, 3)]
    for one, two, three in (rows[:3], rows[3:]):
        assert one["sensitivity"] == two["sensitivity"] == three["sensitivity"]
        noises = [each["noise_mean"] for each in (one, two, three)]
        assert noises == pytest.approx([one["noise_mean"] / size for size in (1, 2, 3)])
        assert (
            one["l1_uniform"]
            == results(file, "--separation", one["separation"], "--set", "server.cohort=1")[0]["l1_uniform"]
        )
    assert rows[5] == results(file)[0]
    bad = fedsim("privacy", file, "--cohort", "many")
    assert (bad.returncode, "'many' is not a number such as" in bad.stderr) == (2, True)


def test_a_log_is_asked_nothing_else(run: Path) -> None:
    done = fedsim("privacy", "--from-log", run, "--epsilon", "3")
    assert done.returncode == 2
    assert "a log is checked against its own scenario" in " ".join(done.stderr.split())


def test_a_cap_is_promised_and_theory_says_that_it_knows_none(write: Write) -> None:
    file, change = write(CASE), "population.0.participations={most: 6}"
    done = fedsim("privacy", file, "--set", change)
    assert done.stdout.splitlines()[1].split()[2:4] == ["5", "6"]
    assert done.stdout.splitlines()[1].split()[-1] == "-"
    assert "note: L1 uniform is not known where no theory covers the law, or a client can reach its cap" in done.stderr
    (row,) = results(file, "--set", change)
    assert (row["most_participations"], row["l1_uniform"]) == (6, None)
    left_out = "note: theory knows no cap on participations; the scenario's is left out"
    assert left_out in fedsim("chain", file, "--set", change).stderr
    assert left_out not in fedsim("chain", file).stderr
    assert "L1 uniform is not known" not in fedsim("privacy", file).stderr


@pytest.mark.parametrize(("mechanism", "said"), [("banded", True), ("sqrt", False)])
def test_a_cap_that_binds_wants_another_mechanism_than_banded(write: Write, mechanism: str, said: bool) -> None:
    change = [f"privacy.mechanism={mechanism}", "population.0.participations={most: 6}"]
    done = fedsim("privacy", write(CASE), *[part for each in change for part in ("--set", each)])
    assert ("the cap of 6 binds, and b bands make little of it: blt needs less noise then" in done.stderr) == said
    change[1] = "population.0.participations={most: 18}"
    done = fedsim("privacy", write(CASE), *[part for each in change for part in ("--set", each)])
    assert "binds" not in done.stderr


@pytest.mark.parametrize("mechanism", ["banded", "{kind: blt, buffers: 2}"])
def test_what_is_exported_makes_the_same_noise(write: Write, tmp_path: Path, mechanism: str) -> None:
    file, out = write(CASE), tmp_path / "mechanism.json"
    change = ["--set", f"privacy.mechanism={mechanism}", "--set", "privacy.clip=0.5"]
    (row,) = results(file, *change, "--export", out)
    found = json.loads(out.read_text())
    bounds = ParticipationBounds(found["rounds"], found["min_separation"], found["most_participations"])
    c = np.array(found["coefficients"])
    assert sensitivity(c, bounds) == found["sensitivity"] == row["sensitivity"]
    assert found["noise_std"] == pytest.approx(0.5 * 2 * found["sensitivity"])
    assert ("buf_decay" in found) == ("blt" in mechanism)
    if "blt" in mechanism:
        omega, theta = np.array(found["output_scale"]), np.array(found["buf_decay"])
        assert c[1:] == pytest.approx(omega @ theta[:, None] ** np.arange(len(c) - 1), rel=1e-12)
    done = fedsim("privacy", file, "--separation", "1,2", "--export", out)
    assert done.returncode == 2
    assert "one mechanism is exported; give one separation" in " ".join(done.stderr.split())


def test_what_does_not_depend_on_the_cohort_is_found_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[ParticipationBounds]()

    def counted(privacy: Privacy, bounds: ParticipationBounds) -> Guarantee:
        asked.append(bounds)
        return guarantee(privacy, bounds)

    monkeypatch.setattr("fedsim.run.privacy.guarantee", counted)
    rows = privacy_guarantees(write(CASE), separation=[0, 4], cohort=[1, 2, 3])
    assert len(rows) == 6
    assert [each.min_separation for each in asked] == [1, 5]


def test_noise_is_that_of_training_where_a_small_federation_stands_for_a_large_one(
    write: Write, tmp_path: Path
) -> None:
    file, stands, out = write(CASE), ["--set", "privacy.stands_for=100", "--export"], tmp_path / "mechanism.json"
    for clip in ([], ["--set", "privacy.clip=0.5"]):
        (large,), (small,) = results(file, *clip), results(file, *clip, *stands, out)
        assert small["noise_mean"] == pytest.approx(large["noise_mean"] / 100)
        assert (small["epsilon"], small["sensitivity"]) == (large["epsilon"], large["sensitivity"])
    exported = json.loads(out.read_text())
    assert exported["noise_std"] == small["noise_std"] == pytest.approx(large["noise_std"] / 100)
    assert exported["stands_for"] == 100


def test_an_audit_refutes_with_exit_code_1(write: Write, tmp_path: Path) -> None:
    learning = "learning: {problem: {kind: quadratic}, optimizers: [fedavg], step_size: 0.1}\n"
    file = write(CASE.replace("delta: 1.0e-6", "delta: 1.0e-6, clip: 1, training: noise") + learning)
    kept = fedsim("privacy", "--audit", file)
    assert (kept.returncode, kept.stdout.splitlines()[0].split()[:2]) == (0, ["released", "epsilon"])
    run = fedsim("run", file, "--out", tmp_path / "run", "-q")
    assert run.returncode == 0
    found = json.loads(fedsim("privacy", "--audit", tmp_path / "run", "--json").stdout)["results"]
    assert [each["released"] for each in found] == ["fedavg"]
    assert 0.5 * found[0]["stated"] < found[0]["at_least"] <= found[0]["stated"]
    (tmp_path / "louder.py").write_text(
        "from fedsim.learning import FedAvg\n\n\nclass Louder(FedAvg):\n"
        "    def apply(self, state, model, cohort, deltas):\n"
        "        return super().apply(state, model, cohort, 100 * deltas)\n"
    )
    own = write(file.read_text().replace("[fedavg]", "['louder:Louder']"), "own.fedsim.yaml")
    refuted = fedsim_process("privacy", "--audit", own, "--allow-plugins", cwd=tmp_path)
    assert (refuted.returncode, "refuted: epsilon of Louder" in refuted.stderr) == (1, True), refuted.stderr
    assert fedsim("privacy", file, "--audit", file).returncode == 2


@pytest.mark.parametrize("command", ["privacy", "chain"])
def test_what_nothing_trains_for_needs_no_memory_of_training(write: Write, command: str) -> None:
    """Data of 1 TB: a run is refused, and what asks theory alone is not."""
    problem = "{kind: robust_regression, dimension: 2000, samples: 1000000}"
    file = write(CASE + f"learning: {{problem: {problem}, optimizers: [fedavg], step_size: 0.1}}\n")
    assert fedsim("validate", file).returncode == 2
    assert fedsim(command, file).returncode == 0
