"""What users import is what there is: names, signatures, and what they answer to arguments of a wrong type."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim import FedsimError, PluginError, ScenarioError
from tests.conftest import LIMIT_S, Load

NAMES = {
    "ChainError",
    "FedsimError",
    "LearningError",
    "PluginError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "StalledError",
    "SweepError",
    "__version__",
    "chain",
    "citation",
    "compare",
    "live",
    "load",
    "promises",
    "register",
    "simulate",
    "sweep",
}
ARGUMENTS = {
    "chain": "scenario, *, separation, method, law, target_l1, target_tv, target_ratio, precision, convergence, "
    "mixing, availability",
    "citation": "result",
    "compare": "a, b, *, confidence",
    "live": "scenario, *, replicate, seed, told",
    "load": "directory, *, allow_plugins, allow_outside",
    "promises": "scenario, *, separation, cohort, noise, epsilon, report",
    "register": "role, name",
    "simulate": "scenario, *, replicate, seed, report",
    "sweep": "scenario, directory, *, executor, workers, retries, timeout, report, tell",
    "Scenario.load": "path, overrides, seed, *, allow_plugins, allow_outside",
    "Scenario.with_values": "self, values, places",
    "Result.save": "self, directory, provenance",
    "Result.report": "self, path",
}
RESULT = {
    *("scenario", "replicate", "rounds", "participations", "clients", "gauges", "learning", "transitions"),
    *("convergence", "metrics", "jobs", "simulated_s", "tables", "verdict", "save", "report", "model", "models"),
    *("facts", "fact", "series", "known", "of_reports", "all_reported", "manifest", "failure", "own_metrics", "log"),
    *("noun", "wanted", "kept"),
}
API: Any = fedsim
"""What is called without regard to its types."""
PAGE = "".join(Path(each).read_text(encoding="utf-8") for each in ("docs/api.md", "docs/reference/python.md"))


def test_public_names() -> None:
    assert set(fedsim.__all__) == NAMES
    assert {name for name in dir(fedsim) if name[:2] != "__" or name == "__version__"} == NAMES
    assert all(getattr(fedsim, name) is not None for name in NAMES)
    assert all(f"`{name}" in PAGE for name in NAMES)


def test_errors_can_be_caught_as_one() -> None:
    assert all(issubclass(getattr(fedsim, name), FedsimError) for name in NAMES if name.endswith("Error"))


@pytest.mark.parametrize(("name", "arguments"), ARGUMENTS.items())
def test_arguments(name: str, arguments: str) -> None:
    found: Any = fedsim
    for part in name.split("."):
        found = getattr(found, part)
    shown: list[str] = []
    keywords = False
    for parameter in inspect.signature(inspect.unwrap(found)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            shown, keywords = [*shown, "*"], True
        shown.append(parameter.name)
    bound = inspect.ismethod(found)
    assert ", ".join(shown) == arguments
    assert bound == (name == "Scenario.load")
    row = next((line for line in PAGE.splitlines() if line.startswith(f"| `{name}(")), None)
    assert row is not None
    assert all(part in row for part in shown if part not in {"*", "self"})


def test_a_result_has_what_the_page_says() -> None:
    public = {name for name in dir(fedsim.Result) if not name.startswith("_")} - {"by_name"}
    fields = {name for name in fedsim.Result.__dataclass_fields__ if not name.startswith("_")}
    assert public | fields == RESULT
    assert all(f"`{name}`" in PAGE or f"`result.{name}" in PAGE for name in RESULT)


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(fedsim, "simulat")


def test_help_waits_for_no_library() -> None:
    code = "import sys, fedsim, fedsim.cli; dir(fedsim); print({'numpy', 'polars', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() == "set()"


def test_the_types_travel() -> None:
    assert (Path(fedsim.__file__).parent / "py.typed").exists()


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: API.simulate(None), "scenario must be a Scenario or the name of a scenario file, not None"),
    (lambda each: API.simulate(each, replicate="1"), "replicate must be a whole number of at least 0, not '1'"),
    (lambda each: API.simulate(each, replicate=True), "replicate must be a whole number"),
    (lambda _: API.sweep(3), "scenario must be a Scenario"),
    (lambda each: API.sweep(each, 3), "directory must be the folder to write, not 3"),
    (lambda each: API.sweep(each, executor=3), "executor must be an Executor, a Dask Client, or one of process, "),
    (lambda each: API.sweep(each, workers="two"), "workers must be a whole number of at least 1, not 'two'"),
    (lambda _: API.chain(None), "scenario must be a Scenario"),
    (lambda each: API.chain(each, separation="0:8"), "separation must be a whole number of at least 0, not '0:8'"),
    (lambda _: API.compare(1, 2), "what is compared must be a result, or a run or sweep directory, not 1"),
    (lambda _: API.citation(3), "result must be what simulate or load has returned, not 3"),
    (lambda _: API.load(3), "directory must be a run directory, not 3"),
    (lambda _: API.Scenario.load(None), "path must be the name of a scenario file, not None"),
    (
        lambda _: API.Scenario.load("x.yaml", "stop.rounds=2"),
        "overrides must be a list of PATH=VALUE, not 'stop.rounds=2'",
    ),
    (lambda _: API.Scenario.load("x.yaml", 3), "overrides must be a list of PATH=VALUE, not 3"),
    (lambda _: API.register("optimizer", 3), "name must be text, not 3"),
    (lambda _: API.Scenario.load("x.yaml", seed="2"), "seed must be a whole number of at least 0, not '2'"),
    (lambda each: each.with_values(["stop.rounds=2"]), "values must be a mapping such as {'server.cohort': 20}"),
]


@pytest.mark.parametrize(("call", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_type_is_told_in_words(small: Load, call: Callable[[Any], object], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(small())
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda each: API.simulate(each, replicate=-1),
        lambda each: API.chain(each, separation=[0, -1]),
        lambda each: API.sweep(each, workers=0),
        lambda each: API.sweep(each, retries=-1),
        lambda _: API.Scenario.load("x.yaml", seed=-1),
    ],
)
def test_a_number_out_of_range_is_a_scenario_error(small: Load, call: Callable[[Any], object]) -> None:
    with pytest.raises(ScenarioError, match="must be a whole number of at least"):
        call(small())


def test_what_is_registered_is_known_by_its_name(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedsim.learning import OPTIMIZERS, FedAvg

    monkeypatch.setattr(OPTIMIZERS, "_registered", {})  # other tests list all names

    @API.register("optimizer", "registered_by_a_test")
    class Own(FedAvg):
        pass

    assert OPTIMIZERS["registered_by_a_test"] is Own
    learning = {"problem": "quadratic", "optimizers": ["registered_by_a_test"], "step_size": 0.1}
    result = API.simulate(small("stop.rounds=5").with_values({"learning": learning}))
    assert result.learning is not None
    assert set(result.learning["optimizer"]) == {"registered_by_a_test"}


def test_what_cannot_be_registered_is_told() -> None:
    with pytest.raises(ValueError, match="'optimiser' is not something that can be registered; known are availability"):
        API.register("optimiser", "mine")
    with pytest.raises((PluginError, FedsimError), match="lacks the methods"):
        API.register("optimizer", "empty_of_a_test")(type("Empty", (), {}))
