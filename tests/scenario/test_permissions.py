"""What a scenario file may not do unless it is allowed to: run code, read files outside its folder."""

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fedsim.common.errors import ScenarioError
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from tests.conftest import SMALL, Write

LEARNING = "learning: {problem: PROBLEM, optimizers: OPTIMIZERS, step_size: 0.1}\n"


def refusal(path: Path, *overrides: str, **permissions: bool) -> str:
    with pytest.raises(ScenarioError) as caught:
        preflight(Scenario.load(path, overrides, **permissions))
    return str(caught.value)


def learning(problem: str = "robust_regression", optimizers: str = "[fedavg]") -> str:
    return SMALL + LEARNING.replace("PROBLEM", problem).replace("OPTIMIZERS", optimizers)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (learning("'no_such:Thing'"), "5:21: error: learning.problem: 'no_such:Thing'"),
        (learning("{kind: 'no_such:Thing'}"), "5:28: error: learning.problem.kind: 'no_such:Thing'"),
        (learning(optimizers="[fedavg, 'no_such:Thing']"), "5:61: error: learning.optimizers[1]: 'no_such:Thing'"),
        (learning(optimizers="[{kind: 'no_such:Thing'}]"), "learning.optimizers[0].kind: 'no_such:Thing'"),
        (learning(optimizers="[{kind: fedavg, server: 'no_such:Thing'}]"), "optimizers[0].server: 'no_such:Thing'"),
        (learning("{kind: torch, module: 'no_such:Thing'}"), "5:43: error: learning.problem.module: 'no_such:Thing'"),
        (learning("{kind: torch, loss: 'no_such:Thing'}"), "learning.problem.loss: 'no_such:Thing'"),
        (SMALL.replace("cohort: 3", "cohort: 3, selection: 'no_such:Thing'"), "server.selection: 'no_such:Thing'"),
        (SMALL.replace("separation: 2", "availability: 'no_such:Thing'"), "[0].availability: 'no_such:Thing'"),
        (SMALL.replace("separation: 2", "separation: {kind: 'no_such:Thing'}"), "separation.kind: 'no_such:Thing'"),
        (SMALL + "metrics: ['no_such:Thing']\n", "metrics[0]: 'no_such:Thing'"),
        (SMALL + "charts: [{kind: 'no_such:Thing'}]\n", "charts[0].kind: 'no_such:Thing'"),
        (SMALL + "sweep: {grid: {'learning.problem': ['no_such:Thing']}}\n", "learning.problem[0]: 'no_such:Thing'"),
        (SMALL + "sweep: {zip: {'learning.optimizers[0].kind': ['no_such:Thing']}}\n", "5:47: error: sweep.zip"),
    ],
)
def test_code_is_refused_where_it_is_named(write: Write, text: str, place: str) -> None:
    told = refusal(write(text))
    assert place in told
    assert "would run code; if you trust this scenario, give --allow-plugins" in told
    assert "cannot import" not in told


def test_code_is_refused_in_overrides_and_in_files_that_are_extended(write: Write) -> None:
    base = write(learning("'no_such:Thing'"), "base.yaml")
    told = refusal(write("extends: base.yaml\n", "mine.fedsim.yaml"))
    assert told.startswith(f"{base}:5:21: error: learning.problem: 'no_such:Thing' would run code")
    override = "learning.problem=no_such:Thing"
    assert f"--set {override}: error: " in refusal(write(learning()), override)


@pytest.mark.parametrize(
    "text", ["name: 'no_such:Thing'\n", "stop: {kind: 'no_such:Thing'}\n", "records: {problem: 'no_such:Thing'}\n"]
)
def test_no_permission_is_asked_for_where_there_is_no_door(write: Write, text: str) -> None:
    path = write(SMALL.replace("stop: {rounds: 60}\n", "") + text)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path)
    assert "would run code" not in str(caught.value)


def test_points_of_a_sweep_may_no_more_than_their_scenario(write: Write) -> None:
    path = write(learning())
    value = {"learning.problem": "no_such:Thing"}
    with pytest.raises(ScenarioError, match="would run code"):
        Scenario.load(path).with_values(value)
    allowed = Scenario.load(path, allow_plugins=True).with_values(value)
    assert allowed.permissions.plugins
    # ... on another machine as well.
    assert pickle.loads(pickle.dumps(allowed)).permissions == allowed.permissions
    assert not pickle.loads(pickle.dumps(Scenario.load(path))).permissions.plugins


@pytest.mark.extras
def test_a_module_without_a_name_is_not_imported(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module: odd` is no class, so there is no reason to import it, even with permission."""
    pytest.importorskip("torch")
    (tmp_path / "odd.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = refusal(write(learning("{kind: torch, module: odd}")), allow_plugins=True)
    assert ":5:43: error: learning.problem.module: 'odd' is neither 'mlp' nor of the form my_module:Name" in told


def test_a_scenario_made_in_python_may_name_code() -> None:
    data = {"stop": {"rounds": 1}, "population": [{"devices": 2}], "server": {"cohort": 1}}
    own = {"problem": "no_such:Thing", "optimizers": ["fedavg"], "step_size": 0.1}
    scenario = Scenario.model_validate(data | {"learning": own})
    with pytest.raises(ScenarioError, match="cannot import 'no_such'"):
        preflight(scenario)


def column(file: str) -> str:
    return SMALL.replace("{kind: zipf, exponent: 1}", f"{{kind: column, file: {file!r}, column: p}}")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder for scenarios beside which lies a file with weights."""
    folder = tmp_path / "scenarios"
    (folder / "below").mkdir(parents=True)
    for place in (tmp_path, folder, folder / "below"):
        pl.DataFrame({"p": [1.0] * 12}).write_csv(place / "p.csv")
    return folder


def put(folder: Path, text: str, name: str = "case.fedsim.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


OUTSIDE: list[tuple[str, Callable[[Path], str]]] = [
    ("dots", lambda _: "../p.csv"),
    ("dots in the middle", lambda _: "below/../../p.csv"),
    ("absolute", lambda folder: str(folder.parent / "p.csv")),
    ("a link", lambda folder: linked(folder, folder.parent / "p.csv")),
    ("a link to the folder", lambda folder: linked(folder, folder.parent) + "/p.csv"),
]


def linked(folder: Path, target: Path) -> str:
    (folder / "link").symlink_to(target)
    return "link"


@pytest.mark.parametrize("name", [make for _, make in OUTSIDE], ids=[label for label, _ in OUTSIDE])
def test_files_outside_the_folder_take_a_permission(there: Path, name: Callable[[Path], str]) -> None:
    path = put(there, column(name(there)))
    told = refusal(path)
    assert f"{path}:3:48: error: population[0].weight.file: " in told
    assert "is outside the scenario's folder" in told
    assert "--allow-outside" in told
    assert len(preflight(Scenario.load(path, allow_outside=True)).population) == 12


@pytest.mark.parametrize("name", ["p.csv", "./p.csv", "below/p.csv", "below/../p.csv"])
def test_files_inside_the_folder_need_none(there: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert len(preflight(Scenario.load(put(there, column(name)))).population) == 12
    monkeypatch.chdir(there)
    assert len(preflight(Scenario.load("case.fedsim.yaml")).population) == 12


def test_links_within_the_folder_are_followed(there: Path) -> None:
    (there / "link.csv").symlink_to(there / "below" / "p.csv")
    assert len(preflight(Scenario.load(put(there, column("link.csv")))).population) == 12


def test_what_is_outside_is_not_even_looked_for(there: Path) -> None:
    """Whether a file exists is nobody's business either."""
    assert refusal(put(there, column("../none.csv"))).replace("none", "p") == refusal(put(there, column("../p.csv")))


@pytest.mark.parametrize("name", ["../base.yaml", "/etc/hostname", "link"])
def test_extended_files_must_be_inside(there: Path, name: str) -> None:
    put(there.parent, SMALL, "base.yaml")
    (there / "link").symlink_to(there.parent / "base.yaml")
    told = refusal(put(there, f"extends: [{name}]\n"))
    assert f"case.fedsim.yaml:1:11: error: extends: {name!r} is outside the scenario's folder" in told


def test_a_base_below_may_name_what_is_beside_the_scenario(there: Path) -> None:
    put(there, "seed: 5\n", "seeds.yaml")
    put(there / "below", "extends: ../seeds.yaml\n" + SMALL, "base.yaml")
    assert Scenario.load(put(there, "extends: below/base.yaml\n")).seed == 5
    put(there / "below", "extends: ../../seeds.yaml\n" + SMALL, "base.yaml")
    assert "'../../seeds.yaml' is outside the scenario's folder" in refusal(put(there, "extends: below/base.yaml\n"))


def test_traces_data_sets_and_sweeps_must_be_inside(there: Path) -> None:
    trace = "availability={kind: trace, file: ../p.csv, base: 2026-01-05T00:00:00Z}"
    assert "population[0].availability.file: '../p.csv' is outside" in refusal(
        put(there, SMALL), f"population.*.{trace}"
    )
    data = learning("{kind: softmax_regression, data: {kind: npz, path: ../p.npz}}")
    assert "learning.problem.data.path: '../p.npz' is outside" in refusal(put(there, data))
    swept = SMALL + "sweep: {grid: {'population.*.weight': [{kind: column, file: ../p.csv, column: p}]}}\n"
    assert ":5:61: error: sweep.grid" in refusal(put(there, swept))


def test_a_folder_of_data_with_a_link_that_leads_outside(there: Path) -> None:
    (there / "below" / "train-images-idx3-ubyte").symlink_to(there.parent / "p.csv")
    data = learning("{kind: softmax_regression, data: {kind: mnist, path: below}}")
    assert "'train-images-idx3-ubyte' is outside the scenario's folder" in refusal(put(there, data))


def test_a_link_that_is_named_is_opened_where_it_leads(there: Path) -> None:
    """The name that was checked is the one that is opened."""
    (there / "link.csv").symlink_to(there / "below" / "p.csv")
    scenario = Scenario.load(put(there, column("link.csv")))
    assert scenario.locate("link.csv") == (there / "below" / "p.csv").resolve()
    os.replace(there / "p.csv", there / "link.csv")  # noqa: PTH105  a link becomes a file
    assert scenario.locate("link.csv") == there / "link.csv"


@pytest.mark.parametrize("name", ["p\\0.csv", "x" * 5000, "~/p.csv", "file:///etc/hostname", "*.csv"])
def test_odd_names_are_no_files(there: Path, name: str) -> None:
    text = SMALL.replace("{kind: zipf, exponent: 1}", f'{{kind: column, file: "{name}", column: p}}')
    assert re.search(r":3:(27|48): error: population\[0\].weight", refusal(put(there, text)))


def test_a_pipe_is_not_waited_for(there: Path) -> None:
    os.mkfifo(there / "pipe.csv")
    assert "is not a file" in refusal(put(there, column("pipe.csv")))
    assert "is not a file" in refusal(put(there, "extends: pipe.csv\n"))
