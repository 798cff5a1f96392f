"""What is added to the package is one file and one line in a registry: all else that lists it follows."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

import fedsim
from fedsim.scenario.roles import ROLES
from tests.conftest import LIMIT_S

pytestmark = pytest.mark.long

ADDED = {
    "selection law": """
        import numpy as np

        class Added:
            "The clients with the largest indices, every `stride`-th of them."

            stride: int
            '''How many are passed over, and one.'''

            def __init__(self, stride: int = 1) -> None:
                self.stride = stride

            def select(self, request, candidates):
                eligible = np.flatnonzero(candidates.all_eligible())[::-1]
                return np.concatenate([eligible[:: self.stride], np.delete(eligible, slice(None, None, self.stride))])[
                    : request.count
                ]
        """,
    "matching policy": """
        class Added:
            "The job with the most sessions first, each counted `times`."

            def __init__(self, times: float = 1.0) -> None:
                self.times = times

            def rank(self, wish):
                return -self.times * wish.sessions
        """,
    "availability model": """
        from typing import Annotated

        from pydantic import Field

        class Added:
            "Available in the first hours of each day."

            def __init__(self, hours: Annotated[int, Field(ge=1, le=24)]) -> None:
                self.hours = hours

            def intervals(self, client, place, draws):
                for day in range(10_000):
                    yield 86_400.0 * day, 86_400.0 * day + 3_600.0 * self.hours
        """,
    "law": """
        from fedsim.population.distributions.distribution import Scale

        class Added:
            "From `least` to twice as much."

            def __init__(self, least: Scale) -> None:
                self.least = least

            def quantile(self, p):
                return self.least * (1 + p)
        """,
    "metric": """
        class Added:
            name, unit, meaning = "added.rounds", "rounds", "Rounds of the run."

            def measure(self, run):
                return float(len(run.rounds))
        """,
    "chart": """
        from fedsim.pages.charts import Chart

        def added_chart(run):
            return Chart("added", "The added chart", "Nothing but a line.", (), None, lambda axes: axes.plot([0, 1]))
        """,
    "optimizer": """
        import numpy as np

        class Added:
            def init(self, clients, dimension):
                return None

            def prepare(self, state, cohort):
                return state, np.ones(len(cohort.clients))

            def apply(self, state, model, cohort, deltas):
                return state, model + np.median(deltas, axis=0)
        """,
    "problem": """
        import numpy as np

        class Added:
            dimension = 2

            def __init__(self, clients: int, seed: int) -> None:
                self.clients = clients

            def initial(self):
                return np.ones(2)

            def gradients(self, clients, models):
                return models

            def evaluate(self, model):
                return {"loss": float(model @ model) / 2, "grad_norm": float(np.linalg.norm(model))}
        """,
    "server update": """
        class Added:
            def init(self, dimension):
                return None

            def step(self, state, direction):
                return state, direction / 2
        """,
    "privacy mechanism": """
        import numpy as np

        class Added:
            def coefficients(self, bounds):
                return np.array([1.0, 0.5])
        """,
}
"""By the role, the one file."""
IN_THE_SCENARIO = {
    "selection law": "server.selection",
    "availability model": "population[0].availability",
    "matching policy": "matching",
    "law": "population[0].weight",
    "optimizer": "learning.optimizers[0]",
    "problem": "learning.problem",
    "server update": "learning.optimizers[0].server",
    "privacy mechanism": "privacy.mechanism",
}
"""By the role, the path at which the scenario names one; metrics and charts are in every run."""
ENTRY = re.compile(r'(\s+)"[\w-]+": f?"[\w.{}]+:\w+",$')
"""A line of a registry."""
SCENARIO = """\
stop: {rounds: 12}
population:
  - devices: 30
    weight: {kind: added_law, least: 2.0}
    cooldown: {kind: added_law, least: 1h}
    availability: {kind: added_availability_model, hours: 20}
    session: {train: {kind: added_law, least: 20s}}
server: {cohort: 4, pause: 10m, selection: {kind: added_selection_law, stride: 3}}
learning:
  problem: added_problem
  optimizers: [{kind: added_optimizer, server: added_server_update}]
  step_size: 0.1
privacy: {mechanism: added_privacy_mechanism, noise_multiplier: 1.0, delta: 1.0e-6}
"""
MATCHED = """\
stop: {rounds: 12}
population: [{devices: 30}]
jobs: {a: {server: {cohort: 4, pause: 10m}}, b: {server: {cohort: 4, pause: 10m}}}
matching: {kind: added_matching_policy, times: 2.0}
"""


def kind_of(role: str) -> str:
    return f"added_{role.replace(' ', '_')}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more implementation of each role, and a scenario that names them."""
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(Path(fedsim.__file__).parent, root / "fedsim", ignore=shutil.ignore_patterns("__pycache__"))
    for role, text in ADDED.items():
        add(root, role, text)
    (root / "all.fedsim.yaml").write_text(SCENARIO, encoding="utf-8")
    return root


def add(root: Path, role: str, text: str) -> None:
    """Write the file of a role beside those that come with the package, and one line in its registry."""
    module, _, _ = ROLES[role].partition(":")
    file = Path(str(import_module(module).__file__)).relative_to(Path(fedsim.__file__).parent.parent)
    folder = file.parent
    written = re.sub(r"^        ", "", text.strip("\n"), flags=re.MULTILINE)
    (root / folder / f"{kind_of(role)}.py").write_text(written, encoding="utf-8")
    lines = (root / file).read_text(encoding="utf-8").splitlines(keepends=True)
    if role == "chart":  # those of every page are functions, in the order of the page
        inside = next(at for at, line in enumerate(lines) if line.strip() == "OWN: [],")
        lines[inside] = "        OWN: [added_chart(run)],\n"
        imports = next(at for at, line in enumerate(lines) if line.startswith("    from fedsim.pages.charts import "))
        lines.insert(imports, f"    from {'.'.join(folder.parts)}.added_chart import added_chart\n")
        (root / file).write_text("".join(lines), encoding="utf-8")
        return
    first, indent = next((at, found[1]) for at, line in enumerate(lines) if (found := ENTRY.match(line)))
    home = ".".join(folder.parts)
    lines.insert(first + 1, f'{indent}"{kind_of(role)}": "{home}.{kind_of(role)}:Added",\n')
    (root / file).write_text("".join(lines), encoding="utf-8")


def command(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's command line."""
    return subprocess.run(
        [sys.executable, "-m", "fedsim", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_every_role_is_added() -> None:
    assert set(ADDED) == set(ROLES)


def test_a_scenario_with_all_of_them_runs(tree: Path) -> None:
    done = command(tree, "run", "all.fedsim.yaml", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert json.loads((tree / "out" / "metrics.json").read_text())["added.rounds"] == 12
    assert set(pl.read_parquet(tree / "out" / "learning.parquet")["optimizer"]) == {kind_of("optimizer")}
    (tree / "jobs.fedsim.yaml").write_text(MATCHED, encoding="utf-8")
    assert command(tree, "run", "jobs.fedsim.yaml", "--out", "matched").returncode == 0
    assert "The added chart" in (tree / "out" / "report.html").read_text(encoding="utf-8")
    assert "added.rounds" in command(tree, "metrics").stdout


def test_the_schema_lists_their_kinds_and_what_they_take(tree: Path) -> None:
    text = command(tree, "schema").stdout
    assert [role for role in ADDED if f'"{kind_of(role)}"' not in text] == ["chart"]  # it is in every page, and no kind
    models = json.loads(text)["definitions"]
    options = {name: model["properties"] for name, model in models.items() if "Added" in name and "Needs" not in name}
    assert options["AddedNumber"]["least"]["type"] == ["number", "string"]  # 1_000 is a text to some
    for name in ("AddedClientTime", "AddedTime"):  # what many keys take stands once
        (least,) = options[name]["least"]["allOf"]
        assert models[least["$ref"].rpartition("/")[2]]["type"] == "string"
    assert {"stride", "hours"} <= {option for properties in options.values() for option in properties}


@pytest.mark.parametrize("role", IN_THE_SCENARIO)
def test_the_message_about_an_unknown_kind_lists_it(tree: Path, role: str) -> None:
    file = tree / f"{kind_of(role)}.fedsim.yaml"
    text = MATCHED if role == "matching policy" else SCENARIO
    file.write_text(text.replace(kind_of(role), "xyzzy"), encoding="utf-8")
    done = command(tree, "validate", file.name)
    assert done.returncode == 2
    found = re.match(rf"{file.name}:\d+:\d+: error: ([^:]+): (.*)", done.stderr)
    assert found is not None, done.stderr
    assert found[1].startswith(IN_THE_SCENARIO[role])
    assert kind_of(role) in found[2]


def test_a_wrong_option_is_told_with_its_place(tree: Path) -> None:
    file = tree / "wrong.fedsim.yaml"
    file.write_text(SCENARIO.replace("hours: 20", "hours: 25").replace("stride: 3", "strid: 3"), encoding="utf-8")
    told = command(tree, "validate", file.name).stderr
    assert f"{file.name}:6:59: error: population[0].availability.hours: must be at most 24, not 25" in told
    assert "error: server.selection.strid: unknown key; did you mean 'stride'?" in told
