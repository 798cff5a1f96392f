"""Faulty classes of users, over all roles and hooks: each ends with one error that names its file and its line."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedsim import FedsimError, Scenario, simulate
from fedsim.pages.own_charts import own_charts
from fedsim.population.distributions import distribution
from fedsim.run.load import load_one
from fedsim.run.preflight import preflight
from tests.command import fedsim

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
    "optimum": ("", "", LEARNING[:-2] % ("faulty:It", "fedavg") + ", target_above_optimum: 0.1}\n"),
}
SOLVED = PROBLEM + "    optimum = np.zeros(3)\n    def rest(self, w, s, *, local_steps, step_size):"
DRAWN = "    def __init__(self):\n        self.at = DRAW.random()\n"
METRIC = "    name, unit, meaning = 'my.own', '', 'Mine.'\n"
INTERVALS = "    def intervals(self, client, place, draws):"
UPDATE = "    def init(self, dimension): pass\n    def step(self, state, direction):"
FAULTS: list[tuple[str, str, str]] = [  # role, code, what is said; the line that must be named ends with "# here"
    ("selection", "class It:\n" + SELECT.format("", "[1, 2][9]  # here"), "IndexError: list index out of range"),
    ("selection", "class It:\n" + SELECT.format("  # here", "None"), "must return the indices of clients"),
    ("selection", "class It:\n" + SELECT.format("  # here", "[0]"), "returned 1 clients; 2 are wanted"),
    ("selection", "class It:\n" + SELECT.format("", "candidates.weight([-7])  # here"), "clients are whole numbers"),
    ("selection", "class It:  # here\n    def choose(self): pass\n", "it lacks the methods select"),
    ("selection", "import numpy as np\nimport no_such_module  # here\nclass It: pass\n", "No module named"),
    ("availability", f"class It:\n{INTERVALS}\n        yield 0, 9\n        yield {{}}['x']  # here\n", "KeyError: 'x'"),
    ("availability", f"class It:\n{INTERVALS}\n        yield 0, 60\n        yield 5, 9  # here\n", "must be disjoint"),
    ("availability", f"class It:\n{INTERVALS}  # here\n        return 7\n", "TypeError: 'int' object is not iterable"),
    ("weight", "class It:\n    def quantile(self, p):\n        return p / (1 // 0)  # here\n", "ZeroDivisionError"),
    ("weight", "class It:\n    def quantile(self, p):  # here\n        return -p\n", "must be at least 0 and finite"),
    ("length", "class It:\n    def quantile(self, p):  # here\n        return p[:1]\n", "quantile gives the shape"),
    ("metric", "class It:\n    def measure(self, run):\n        return run.rounds['no'].sum()  # here\n", "NotFound"),
    ("metric", "class It:\n    def measure(self, run):  # here\n        return 'many'\n", "is not a number"),
    ("chart", "class It:\n    def draw(self, run, axes):\n        axes.plot([1], [1, 2])  # here\n", "ValueError"),
    ("problem", PROBLEM + "    def gradients(self, c, x):  # here\n        return x[:, 0]\n", "has the shape"),
    ("problem", PROBLEM + "    def evaluate(self, x):  # here\n        return {'loss': np.nan}\n", "expected"),
    (
        "optimizer",
        OPTIMIZER + "    def apply(self, state, model, cohort, deltas):  # here\n        return model\n",
        "must return (state, model), and returned ndarray",
    ),
    ("server update", f"class It:\n{UPDATE}  # here\n        return state, None\n", "server update: "),
    ("mechanism", "class It:\n    def coefficients(self, of):  # here\n        return [-1.0]\n", "must be positive"),
    (
        "optimizer",
        OPTIMIZER + "    def memory(self, n, d):\n        return n / 0  # here\n",
        "memory: ZeroDivisionError",
    ),
    ("optimizer", OPTIMIZER + "    def memory(self, n, d):  # here\n        return 'much'\n", "number of bytes"),
    ("optimizer", OPTIMIZER + "    def long_run(self, pi):\n        return pi[99]  # here\n", "long_run: IndexError"),
    ("optimizer", OPTIMIZER + "    def long_run(self, pi):  # here\n        return pi\n", "must return a LongRun"),
    ("optimum", PROBLEM + "    def solve(self):\n        return {}['x']  # here\n", "problem, solve: KeyError"),
    ("optimum", PROBLEM + "    def solve(self):  # here\n        return np.ones(2)\n", "has the shape (2,)"),
    ("optimum", SOLVED + "  # here\n        return np.ones(2)\n", "problem, rest: the model has the shape (2,)"),
]
UNSEEDED = [  # role, the body of a class that draws without a seed, what would be right
    ("selection", SELECT.format("", "DRAW.permutation(np.flatnonzero(candidates.all_eligible()))[:2]"), "uniforms"),
    ("selection", SELECT.format("", "np.random.permutation(np.flatnonzero(candidates.all_eligible()))[:2]"), "request"),
    ("availability", f"{INTERVALS}\n        yield 0, 9000 + 99 * DRAW.random()\n", "draws.uniforms(client, index)"),
    ("weight", "    def quantile(self, p):\n        return 1 + DRAW.random(len(p))\n", "p alone"),
    ("length", f"{DRAWN}    def quantile(self, p):\n        return p + self.at\n", "p alone"),
    ("metric", f"{METRIC}    def measure(self, run):\n        return DRAW.random()\n", "np.random.default_rng(0)"),
    ("chart", "    def draw(self, run, axes):\n        axes.plot(DRAW.random(3))\n", "np.random.default_rng(0)"),
    ("problem", "    def initial(self):\n        return DRAW.random(3)\n", "np.random.default_rng(seed)"),
    ("optimizer", "    def apply(self, state, x, cohort, deltas):\n        return state, x + DRAW.random()\n", "round"),
    ("server update", f"{UPDATE}\n        return state, direction * DRAW.random()\n", "made in init"),
    ("mechanism", f"{DRAWN}    def coefficients(self, bounds):\n        return [1, self.at / 2]\n", "the bounds"),
]
HEAD = OPTIMIZER.partition("class")[0] + "DRAW = np.random.default_rng()\n"
BASES = {"problem": "(Bowl)", "optimizer": "(FedAvg)"}
FAULTS += [
    (role, f"{PROBLEM.partition('class It')[0]}{HEAD}class It{BASES.get(role, '')}:  # here\n{body}", right)
    for role, body, right in UNSEEDED
]
DETERMINISTIC = {  # what remembers, or draws from a seed, is not refused
    "calls": "    n = 0\n    def select(self, request, candidates):\n        self.n += 1\n"
    "        return np.roll(np.flatnonzero(candidates.all_eligible()), self.n)[: request.count]\n",
    "seeded": "    def __init__(self):\n        self.draw = np.random.default_rng(0)\n"
    + SELECT.format("", "self.draw.permutation(np.flatnonzero(candidates.all_eligible()))[:2]"),
    "kept": "    seen = np.zeros(6)\n    def state(self):\n        return {'seen': self.seen}\n"
    "    def restore(self, state):\n        self.seen = state['seen']\n"
    "    def select(self, request, candidates):\n        chosen = np.argsort(self.seen)[: request.count]\n"
    "        self.seen = self.seen + np.isin(np.arange(6), chosen)\n        return chosen\n",
}


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scenario]:
    """What makes the scenario of a class."""

    def made(role: str, code: str, *overrides: str) -> Scenario:
        (tmp_path / "faulty.py").write_text(code)
        (tmp_path / "case.fedsim.yaml").write_text(WORLD % ROLES[role])
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "faulty", raising=False)
        distribution.cache_clear()  # it holds the class of the case before
        return Scenario.load(tmp_path / "case.fedsim.yaml", overrides, allow_plugins=True)

    return made


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize(("role", "code", "message"), FAULTS, ids=[f"{n}-{each[0]}" for n, each in enumerate(FAULTS)])
def test_it_is_told_with_its_line(
    role: str, code: str, message: str, engine: str, tmp_path: Path, case: Callable[..., Scenario]
) -> None:
    scenario = case(role, code, f"engine={engine}")
    if role == "chart":
        [drawn] = own_charts(load_one(simulate(scenario).save(tmp_path / "run")), plugins=True)
        said = drawn.failure
    else:
        with pytest.raises(FedsimError) as caught:
            simulate(scenario)
        said = str(caught.value)
    [line] = [number for number, text in enumerate(code.splitlines(), 1) if text.endswith("# here")]
    assert message in said
    assert said.endswith(f"({tmp_path / 'faulty.py'}:{line})")


@pytest.mark.parametrize("body", DETERMINISTIC.values(), ids=DETERMINISTIC)
def test_what_is_deterministic_is_not_refused(body: str, case: Callable[..., Scenario]) -> None:
    assert preflight(case("selection", f"import numpy as np\nclass It:\n{body}")).notes == []


def test_a_problem_for_one_number_of_clients_is_asked_in_its_own_federation(case: Callable[..., Scenario]) -> None:
    code = f"{PROBLEM}    def __init__(self, clients, seed):\n        self.clients = {{6: 6}}[clients]\n"
    assert preflight(case("problem", code)).notes == []
    with pytest.raises(FedsimError, match="gives something else"):
        preflight(case("problem", f"{code}        self.initial = lambda: np.random.default_rng().random(3)\n"))


ODD = "class Odd(BaseException): pass\nclass Mute(Exception):\n    def __str__(self): raise TypeError\n"
ENDS = {  # what ends a process, or is no `Exception`, or cannot be told; and what is said of it
    "import sys; sys.exit(0)": "SystemExit: it ends the process, as by sys.exit(0)",
    "raise GeneratorExit('gone')": "GeneratorExit: gone",
    "raise Odd('odd\\x1b[31m\\n::error::forged')": "Odd: odd",
    "raise Mute": "Mute: its text fails",
}
CALLED = {  # a method of each role, which a run calls
    "selection": ("", "select(self, request, candidates)"),
    "availability": ("", "intervals(self, client, place, draws)"),
    "weight": ("", "quantile(self, p)"),
    "length": ("", "quantile(self, p)"),
    "metric": (METRIC, "measure(self, run)"),
    "chart": ("", "draw(self, run, axes)"),
    "problem": ("", "gradients(self, clients, models)"),
    "optimizer": ("", "apply(self, state, model, cohort, deltas)"),
    "server update": ("    def init(self, dimension): pass\n", "step(self, state, direction)"),
    "mechanism": ("", "coefficients(self, bounds)"),
    "optimum": ("", "solve(self)"),
}
BEFORE = {"problem": PROBLEM, "optimum": PROBLEM, "optimizer": OPTIMIZER}


@pytest.mark.parametrize("where", ["imported", "made", "checked", "called"])
@pytest.mark.parametrize("role", CALLED)
def test_what_would_end_the_process_is_told_as_any_fault(
    role: str, where: str, tmp_path: Path, case: Callable[..., Scenario]
) -> None:
    """A class that called sys.exit(0) was taken for a run without mistakes."""
    more, method = CALLED[role]
    method = {"made": "__init__(self, **given)", "checked": "check_options(options)"}.get(where, method)
    for ends, said in ENDS.items() if where == "called" else [*ENDS.items()][:3:2]:
        code = f"{ODD}{BEFORE.get(role, 'class It:')}\n{more}"
        other = f"    def {CALLED[role][1]}: pass\n" if where != "called" else ""
        static = "    @staticmethod\n" if where == "checked" else ""
        code += f"{other}{static}    def {method}:\n        {ends}\n"
        code = f"{ODD}{ends}\n" if where == "imported" else code
        scenario = case(role, code)
        if role == "chart":
            plain = Scenario.model_validate({k: v for k, v in scenario.as_written.items() if k != "charts"})
            run = replace(load_one(simulate(plain).save(tmp_path / "run")), scenario=scenario)
            [drawn] = own_charts(run, plugins=True)
            told = drawn.failure
        else:
            with pytest.raises(FedsimError) as caught:
                simulate(scenario)
            told = str(caught.value)
        assert said in told, (ends, told)
        assert "faulty" in told


EXIT, FORGED = next(iter(ENDS)), "raise Odd('\\x1b[31m\\n::error::forged')"


TRIED = [(each, EXIT) for each in ("validate", "sweep", "plan", "metrics")]
TRIED += [("run", each) for each in (EXIT, FORGED, "import typer; raise typer.Exit(0)", "raise KeyboardInterrupt")]
SLOW = [("replay", EXIT), ("replay", FORGED), ("replay", "raise KeyboardInterrupt")]
SLOW += [("plugin check", EXIT), ("plugin check", FORGED)]


@pytest.mark.parametrize(("command", "ends"), TRIED + [pytest.param(*each, marks=pytest.mark.long) for each in SLOW])
def test_no_command_ends_as_if_all_were_well(
    command: str, ends: str, tmp_path: Path, case: Callable[..., Scenario]
) -> None:
    """Neither by a file that is imported, nor by a class that is used, where the command uses it."""
    used = f"class It:\n{METRIC}    def measure(self, run):\n        {ends}\n"
    for code in (ends, used) if command in {"run", "replay", "plugin check"} else (ends,):
        case("metric", ODD + code)
        sys.modules.pop("faulty", None)
        file = "faulty.py" if command == "plugin check" else "case.fedsim.yaml --allow-plugins"
        done = fedsim(*command.split(), *file.split(), cwd=tmp_path)
        checks = command == "plugin check" and code == used  # which failed, as a test does
        expected = {130} if "Interrupt" in ends else {1} if checks else {2, 3}
        assert done.returncode in expected, done.seen
        assert "faulty" in done.seen or done.returncode == 130
        assert not [each for each in ("\x1b", "\n::", "Traceback") if each in done.seen]
