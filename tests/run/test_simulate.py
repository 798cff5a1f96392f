"""The main job: scenario in, log, theory, learning and run directory out."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.common import progress
from fedsim.common.errors import RunError, ScenarioError
from fedsim.log import fingerprint
from fedsim.pages import write_report
from fedsim.run.files import Provenance
from fedsim.scenario import as_scenario, shipped
from tests.command import fedsim
from tests.conftest import Load, Write

SYNTHETIC = Path("scenarios/paper/synthetic.fedsim.yaml")
REFERENCE_L1 = {0: 1.139611, 4: 0.715145, 8: 0.458147, 12: 0.262346, 16: 0.103121, 19: 0.0}


def learn(small: Load, *overrides: str) -> Scenario:
    learning = (
        "{problem: {kind: robust_regression, samples: 5}, optimizers: [fedavg], step_size: 0.1, reference: uniform}"
    )
    return small(f"learning={learning}", *overrides)


@pytest.mark.long
@pytest.mark.parametrize("separation", REFERENCE_L1)
def test_measured_participation_is_what_theory_says(separation: int) -> None:
    """20,000 rounds: within 4 standard errors of the reference, a false alarm in about 1 of 10,000 runs of a case.

    Four of them are about 0.014 at most, and one round of separation more or less moves the reference by 0.03 and more.
    """
    overrides = [f"population.*.separation={separation}", "stop.rounds=20000", "learning=null"]
    metrics = simulate(Scenario.load(SYNTHETIC, overrides)).metrics
    expected = REFERENCE_L1[separation]
    assert metrics["participation.l1_uniform_theory"] == pytest.approx(expected, abs=1e-6)
    assert abs(metrics["participation.l1_uniform"] - expected) <= 4 * metrics["participation.l1_uniform_se"] + 1e-9
    assert metrics["participation.l1_chain"] <= 2 * metrics["participation.l1_noise"] + 1e-9


def test_uniform_participation_has_no_bias() -> None:
    overrides = ["server.selection=uniform", "population.*.separation=0", "stop.rounds=2000", "learning=null"]
    metrics = simulate(Scenario.load(SYNTHETIC, overrides)).metrics
    assert metrics["participation.l1_uniform_theory"] == pytest.approx(0, abs=1e-12)
    assert metrics["participation.l1_uniform"] < 2 * metrics["participation.l1_noise"]


def test_same_scenario_and_seed_same_bytes(small: Load, tmp_path: Path) -> None:
    scenario = learn(small, "population.0.availability={kind: renewal, on: 30m, off: 10m}")
    for name in ("one", "two"):
        simulate(scenario).save(tmp_path / name)
    files = sorted(
        path.name for path in (tmp_path / "one").rglob("*") if path.is_file() and path.parent.name != "series"
    )
    assert files == [
        "clients.parquet",
        "facts.parquet",
        "gauges.parquet",
        "learning.parquet",
        "manifest.json",
        "metrics.json",
        "models.npz",
        "participations.parquet",
        "rounds.parquet",
    ]
    series = [f"series/{path.name}" for path in (tmp_path / "one" / "series").iterdir()]
    for file in files + series:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_another_seed_or_replicate_another_log(small: Load) -> None:
    prints = {
        fingerprint(simulate(small(f"seed={seed}"), replicate=replicate).participations)
        for seed, replicate in [(0, 0), (1, 0), (0, 1)]
    }
    assert len(prints) == 3


def test_the_manifest_runs_the_scenario_again(small: Load, tmp_path: Path) -> None:
    result = simulate(learn(small))
    result.save(tmp_path / "run", Provenance("my file.yaml", ["a.b=c d"], 4, 1.5))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["command"] == "fedsim run 'my file.yaml' --set 'a.b=c d' --seed 4"
    assert manifest["status"] == "complete"
    again = simulate(Scenario.model_validate(manifest["scenario"]))
    for name, table in again.tables.items():
        assert fingerprint(table) == manifest["fingerprints"][name]
        assert fingerprint(pl.read_parquet(tmp_path / "run" / f"{name}.parquet")) == manifest["fingerprints"][name]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == again.metrics


def test_a_folder_of_other_files_is_not_overwritten(small: Load, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="holds files that are not a run's"):
        simulate(small()).save(tmp_path)
    assert [path.name for path in tmp_path.glob("*.tex")] == ["thesis.tex"]
    with pytest.raises(RunError, match="cannot be written"):
        simulate(small()).save(tmp_path / "thesis.tex")


def test_a_run_replaces_an_earlier_one(small: Load, tmp_path: Path) -> None:
    simulate(learn(small)).save(tmp_path / "run")
    simulate(small()).save(tmp_path / "run")
    assert not (tmp_path / "run" / "learning.parquet").exists()


def test_theory_stays_silent_where_it_does_not_apply(small: Load) -> None:
    for override in ("population.0.availability={kind: renewal, on: 5h, off: 1m}", "population.0.cooldown=1h"):
        result = simulate(small(override))
        assert result.clients["pi"].null_count() == 12
        assert "participation.l1_chain" not in result.metrics


@pytest.mark.long
@pytest.mark.parametrize("law", ["midzuno", "successive"])
def test_theory_covers_separations_that_differ(small: Load, law: str) -> None:
    """Per-client separations have no closed form, but they have a theory: within noise of 4,000 rounds."""
    result = simulate(
        small("population.0.separation={kind: uniform, low: 0, high: 2}", f"server.selection={law}", "stop.rounds=4000")
    )
    assert result.clients["pi"].null_count() == 0
    assert result.metrics["participation.l1_chain"] < 3 * result.metrics["participation.l1_noise"] + 0.02


def test_the_reference_is_trained_on_uniform_participation(small: Load) -> None:
    result = simulate(learn(small))
    assert result.learning is not None
    assert result.learning["optimizer"].unique(maintain_order=True).to_list() == ["fedavg", "fedavg_uniform"]
    excess = result.metrics["learning.fedavg.loss"] - result.metrics["learning.fedavg_uniform.loss"]
    assert result.metrics["learning.fedavg.excess_loss"] == excess


def test_learning_mistakes_have_places(write: Write) -> None:
    path = write(
        """\
        stop: {rounds: 5}
        population: [{devices: 4}]
        server: {cohort: 2}
        learning:
          problem: {kind: robust_regresion}
          optimizers: [fedavg, {kind: debiased_fedavg, clipp: 3}]
          step_size: 0.1
        """
    )
    with pytest.raises(ScenarioError) as caught:
        simulate(Scenario.load(path))
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        f"{path}:5:19: error: learning.problem.kind: unknown problem 'robust_regresion'; did you mean"
    )
    assert second.startswith(f"{path}:6:55: error: learning.optimizers[1].clipp: unknown option 'clipp'")


OWN = '''
import numpy as np

class Quadratic:
    """f_i(x) = (x - i)^2 / 2."""
    def __init__(self, clients, seed, scale: float = 1.0):
        self.clients, self.dimension, self.scale = clients, 1, scale
    def initial(self):
        return np.zeros(1)
    def gradients(self, clients, models):
        return self.scale * (models - clients[:, None])
    def evaluate(self, model):
        gradient = self.scale * (model[0] - (self.clients - 1) / 2)
        return {"loss": float(gradient ** 2), "grad_norm": float(abs(gradient))}

class Half:
    """FedAvg with half the step."""
    def init(self, clients, dimension):
        return None
    def prepare(self, state, cohort):
        return state, np.ones(len(cohort.clients))
    def apply(self, state, model, cohort, deltas):
        return state, model + 0.5 * deltas.mean(axis=0)
'''


def test_a_problem_and_an_optimizer_of_ones_own(write: Write, tmp_path: Path) -> None:
    """Through the command line, with a module beside the scenario."""
    (tmp_path / "own_models.py").write_text(OWN)
    path = write(
        """\
        stop: {rounds: 200}
        population: [{devices: 4}]
        server: {cohort: 2}
        learning:
          problem: {kind: "own_models:Quadratic", scale: 0.5}
          optimizers: [fedavg, {kind: "own_models:Half", name: half}]
          step_size: 0.1
        """
    )
    done = fedsim("run", path, "--out", tmp_path / "run", "--json", "--allow-plugins")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["learning.fedavg.grad_norm"] < 0.5
    assert metrics["learning.half.grad_norm"] < 0.5


def test_the_command_names_no_place_that_is_only_here(
    small: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in the working folder are named from there; others as they were typed, since commands are pasted."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for file, named in (
        (tmp_path / "project" / "studies" / "night.yaml", "studies/night.yaml"),
        (tmp_path / "project" / "night.yaml", "night.yaml"),
        (Path("studies/night.yaml"), "studies/night.yaml"),
        (Path("../night.yaml"), "../night.yaml"),
        (tmp_path / "night.yaml", str(tmp_path / "night.yaml")),
    ):
        provenance = Provenance(str(file))
        simulate(small()).save(tmp_path / "run", provenance)
        assert json.loads((tmp_path / "run" / "manifest.json").read_text())["command"] == f"fedsim run {named}"
        assert provenance.command("run", "--resume") == f"fedsim run {named} --resume"
        page = write_report(tmp_path / "run").read_text()
        assert named in page
        assert str(tmp_path) not in page.replace(named, "")


def test_a_seed_takes_the_place_of_the_scenarios(small: Load) -> None:
    scenario = small("stop.rounds=20")
    result = simulate(scenario, seed=3)
    assert result.scenario.seed == 3
    assert result.metrics == simulate(scenario.model_copy(update={"seed": 3})).metrics
    with pytest.raises(ScenarioError, match="seed: must be below"):  # ran, as another seed
        simulate(scenario, seed=2**70)


def test_a_notebook_shows_progress_without_being_asked(
    small: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(small("stop.rounds=20"))
    assert capsys.readouterr().err == ""
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr(progress, "find_spec", lambda _: kernel)
    seen: list[str] = []
    monkeypatch.setattr(progress, "_bar", lambda: nullcontext(lambda what, *_: seen.append(what)))
    simulate(small("stop.rounds=20"))
    assert "simulating" in seen


def test_the_scenarios_of_the_paper_are_found_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Scenario.load(SYNTHETIC)
    assert str(shipped(Path("paper/synthetic"))) == str(SYNTHETIC)
    monkeypatch.chdir(tmp_path)
    for name in ("paper/synthetic", "scenarios/paper/synthetic.fedsim.yaml"):
        assert as_scenario(name) == known
    with pytest.raises(ScenarioError, match="no such scenario of the paper; did you mean 'synthetic'"):
        shipped(Path("paper/synthetc"))
    Path("paper").mkdir()
    assert shipped(Path("paper/synthetc")) == Path("paper/synthetc")
