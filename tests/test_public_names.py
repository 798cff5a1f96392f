"""What users import is what there is: names, signatures, and what they answer to arguments of a wrong type."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim import FedsimError, PluginError, RunError, ScenarioError
from fedsim.common.messages import log_warning
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
    "citation",
    "compare",
    "live",
    "load",
    "participation_theory",
    "privacy_guarantees",
    "register",
    "simulate",
    "sweep",
}
ARGUMENTS = {
    "participation_theory": "scenario, *, separation, method, law, target_l1, target_tv, target_ratio, precision, "
    "convergence, mixing, availability",
    "citation": "result",
    "compare": "a, b, *, confidence",
    "live": "scenario, *, replicate, seed, feedback",
    "load": "directory, *, allow_plugins, allow_outside",
    "privacy_guarantees": "scenario, *, separation, cohort, noise, epsilon, report",
    "register": "role, name",
    "simulate": "scenario, *, replicate, seed, report",
    "sweep": "scenario, directory, *, executor, workers, retries, timeout, report, on_error",
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


def test_a_mapping_stands_for_a_scenario() -> None:
    """Its mistakes are those of a file, without a place; what was given is not changed."""
    keys: dict[str, Any] = {
        "stop": {"rounds": 5},
        "population": [{"devices": 9, "separation": 2}],
        "server": {"cohort": 2},
    }
    before = repr(keys)
    result = fedsim.simulate(keys)
    assert (len(result.rounds), len(result.clients), repr(keys)) == (5, 9, before)
    assert fedsim.participation_theory(keys).separation == 2
    with pytest.raises(ScenarioError, match=r"server\.cohort: must be a whole number, not 'two'"):
        fedsim.simulate(keys | {"server": {"cohort": "two"}})
    with pytest.raises(ScenarioError, match=r"population\[0\].devices: is required"):
        fedsim.live(keys | {"population": [{}]})


def test_one_thing_asked_has_one_answer(small: Load) -> None:
    private = small("privacy={epsilon: 8, delta: 1.0e-8}")
    one, several = (
        fedsim.participation_theory(private, separation=2),
        fedsim.participation_theory(private, separation=[2]),
    )
    assert [one.l1_uniform] == [each.l1_uniform for each in several]
    row, rows = fedsim.privacy_guarantees(private, separation=2), fedsim.privacy_guarantees(private, separation=[2])
    assert [row.as_dict()] == [each.as_dict() for each in rows]
    assert [each.cohort for each in fedsim.privacy_guarantees(private, cohort=[1, 2])] == [1, 2]
    assert fedsim.privacy_guarantees(private, cohort=2).cohort == 2


def test_a_file_that_is_not_there_is_an_os_error_too(tmp_path: Path) -> None:
    """Of the kind that any other library raises, and of fedsim's own; what is there and is wrong is not."""
    for call, kind in (
        (lambda: fedsim.Scenario.load(tmp_path / "x.fedsim.yaml"), ScenarioError),
        (lambda: fedsim.Scenario.load("paper/synthetics"), ScenarioError),
        (lambda: fedsim.simulate(tmp_path / "x.fedsim.yaml"), ScenarioError),
        (lambda: fedsim.load(tmp_path / "run"), RunError),
        (lambda: fedsim.load(tmp_path), RunError),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert isinstance(caught.value, kind)
        assert str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    (tmp_path / "wrong.yaml").write_text("stop: 3", encoding="utf-8")
    with pytest.raises(ScenarioError) as wrong:
        fedsim.Scenario.load(tmp_path / "wrong.yaml")
    assert not isinstance(wrong.value, OSError)


def test_scenarios_that_come_with_fedsim_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fedsim.Scenario.load("paper/synthetic", ["stop.rounds=9"]).stop.rounds == 9


def test_what_goes_wrong_with_a_run_of_a_sweep_is_logged() -> None:
    """By the logger of the package, which prints it as the command does, unless it is configured."""
    code = "from fedsim.common.messages import log_warning; log_warning('100 % of \x1b[31mred')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert (done.stdout, done.stderr) == ("", "100 % of \\x1b[31mred\n")
    assert inspect.signature(inspect.unwrap(fedsim.sweep)).parameters["on_error"].default is log_warning


def test_what_is_inner_stands_in_no_reference() -> None:
    """They have no underscore, since other rooms of the package use them; nobody else should."""
    inner = {"beside", "check_one", "mistake", "not_permitted", "own_seed"}
    assert all(hasattr(fedsim.Scenario, name) or name in fedsim.Scenario.model_fields for name in inner)
    pages = "".join(each.read_text(encoding="utf-8") for each in Path("docs/reference").glob("*.md"))
    assert not [name for name in inner if f"Scenario.{name}" in pages]
    assert all(f"`fedsim.{name}`" in PAGE for name in ("learning.replay", "availability.Place", "common.keyed.Stream"))


def test_help_waits_for_no_library() -> None:
    code = "import sys, fedsim, fedsim.cli; dir(fedsim); print({'numpy', 'polars', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() == "set()"


def test_the_types_travel() -> None:
    assert (Path(fedsim.__file__).parent / "py.typed").exists()


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: API.simulate(None), "scenario must be a Scenario, a mapping with the keys of one, or the name of a"),
    (lambda each: API.simulate(each, replicate="1"), "replicate must be a whole number of at least 0, not '1'"),
    (lambda each: API.simulate(each, replicate=True), "replicate must be a whole number"),
    (lambda _: API.sweep(3), "scenario must be a Scenario"),
    (lambda each: API.sweep(each, 3), "directory must be the folder to write, not 3"),
    (lambda each: API.sweep(each, executor=3), "executor must be an Executor, a Dask Client, or one of process, "),
    (lambda each: API.sweep(each, workers="two"), "workers must be a whole number of at least 1, not 'two'"),
    (lambda _: API.participation_theory(None), "scenario must be a Scenario"),
    (
        lambda each: API.participation_theory(each, separation="0:8"),
        "separation must be a whole number of at least 0, not '0:8'",
    ),
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
        lambda each: API.participation_theory(each, separation=[0, -1]),
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
