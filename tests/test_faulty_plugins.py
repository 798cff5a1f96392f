"""Twenty faulty classes of users, over all roles: each ends with one error that names its file and its line."""

import sys
from pathlib import Path

import pytest

from fedsim import FedsimError, Scenario, simulate
from fedsim.population.distributions import distribution
from fedsim.report.finished_run import read_run
from fedsim.report.run_report import own_charts

WORLD = "seed: 3\nstop: {rounds: 4}\npopulation: [{devices: 6%s}]\nserver: {cohort: 2, pause: 1m%s}\n%s"
LEARNING = "learning: {problem: %s, optimizers: [%s], step_size: 0.1, local_steps: 1}\n"
PROBLEM = """\
import numpy as np

class Bowl:
    dimension = 3

    def __init__(self, clients, seed):
        self.clients = clients

    def initial(self):
        return np.ones(3)

    def gradients(self, clients, models):
        return models

    def evaluate(self, model):
        return {"loss": float(model @ model), "grad_norm": 1.0}

class It(Bowl):
"""
OPTIMIZER = "from fedsim.learning import FedAvg\nclass It(FedAvg):\n"
SELECT = "    def select(self, request, candidates):{}\n        return {}\n"
ROLES = {  # what a scenario adds to name a class of each role
    "selection": ("", ", selection: faulty:It", ""),
    "availability": (", availability: faulty:It", "", ""),
    "weight": (', weight: {kind: "faulty:It"}', "", ""),
    "length": (', session: {train: {kind: "faulty:It"}}', "", ""),
    "metric": ("", "", "metrics: [faulty:It]\n"),
    "chart": ("", "", "charts: [faulty:It]\n"),
    "problem": ("", "", LEARNING % ("faulty:It", "fedavg")),
    "optimizer": ("", "", LEARNING % ("quadratic", "faulty:It")),
    "server update": ("", "", LEARNING % ("quadratic", "{kind: fedavg, server: faulty:It}")),
    "mechanism": ("", "", "privacy: {mechanism: faulty:It, clip: 1, noise_multiplier: 1, delta: 1e-5}\n"),
}
INTERVALS = "    def intervals(self, client, place, draws):"
UPDATE = "    def init(self, dimension): pass\n    def step(self, state, direction):"
FAULTS = [  # role, code, what is said; the line that must be named ends with "# here"
    ("selection", "class It:\n" + SELECT.format("", "[1, 2][9]  # here"), "IndexError: list index out of range"),
    ("selection", "class It:\n" + SELECT.format("  # here", "None"), "must return the indices of clients"),
    ("selection", "class It:\n" + SELECT.format("  # here", "[0]"), "returned 1 clients; 2 are wanted"),
    ("selection", "class It:\n" + SELECT.format("", "candidates.weight([-7])  # here"), "clients are whole numbers"),
    ("selection", "class It:  # here\n    def choose(self): pass\n", "it lacks the methods select"),
    ("selection", "import numpy as np\nimport no_such_module  # here\nclass It: pass\n", "No module named"),
    (
        "availability",
        f"class It:\n{INTERVALS}\n        yield 0, 9\n        yield {{}}['x']  # here\n",
        "KeyError: 'x'",
    ),
    ("availability", f"class It:\n{INTERVALS}\n        yield 0, 60\n        yield 5, 9  # here\n", "must be disjoint"),
    ("availability", f"class It:\n{INTERVALS}  # here\n        return 7\n", "TypeError: 'int' object is not iterable"),
    ("weight", "class It:\n    def quantile(self, p):\n        return p / (1 // 0)  # here\n", "ZeroDivisionError"),
    ("weight", "class It:\n    def quantile(self, p):  # here\n        return -p\n", "must be at least 0 and finite"),
    ("length", "class It:\n    def quantile(self, p):  # here\n        return p[:1]\n", "quantile gives the shape"),
    ("metric", "class It:\n    def measure(self, run):\n        return run.rounds['no'].sum()  # here\n", "NotFound"),
    ("metric", "class It:\n    def measure(self, run):  # here\n        return 'many'\n", "is not a number"),
    ("chart", "class It:\n    def draw(self, run, axes):\n        axes.plot([1], [1, 2])  # here\n", "ValueError"),
    (
        "problem",
        PROBLEM + "    def gradients(self, c, x):  # here\n        return x[:, 0]\n",
        "has the shape",
    ),
    (
        "problem",
        PROBLEM + "    def evaluate(self, x):  # here\n        return {'loss': np.nan}\n",
        "expected",
    ),
    (
        "optimizer",
        OPTIMIZER + "    def apply(self, state, model, cohort, deltas):  # here\n        return model\n",
        "must return (state, model), and returned ndarray",
    ),
    ("server update", f"class It:\n{UPDATE}  # here\n        return state, None\n", "server update: "),
    (
        "mechanism",
        "class It:\n    def coefficients(self, of):  # here\n        return [-1.0]\n",
        "must be positive",
    ),
]


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize(("role", "code", "message"), FAULTS, ids=[f"{n}-{each[0]}" for n, each in enumerate(FAULTS)])
def test_it_is_told_with_its_line(
    role: str, code: str, message: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, file = tmp_path / "faulty.py", tmp_path / "case.fedsim.yaml"
    module.write_text(code)
    file.write_text(WORLD % ROLES[role])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    distribution.cache_clear()  # it holds the class of the case before
    scenario = Scenario.load(file, [f"engine={engine}"], allow_plugins=True)
    if role == "chart":
        [drawn] = own_charts(read_run(simulate(scenario).save(tmp_path / "run")), plugins=True)
        said = drawn.failure
    else:
        with pytest.raises(FedsimError) as caught:
            simulate(scenario)
        said = str(caught.value)
    [line] = [number for number, text in enumerate(code.splitlines(), 1) if text.endswith("# here")]
    assert message in said
    assert said.endswith(f"({module}:{line})")
