"""Selection laws that people bring: found, checked, and the same in both engines."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim import Scenario, participation_theory, simulate
from fedsim.common.errors import ChainError, PluginError, ScenarioError
from fedsim.common.files import write_table
from fedsim.log.recorder import InMemoryLog
from fedsim.population import build_population
from fedsim.run.preflight import preflight
from fedsim.scenario.component import Component
from fedsim.selection import LAWS, check_law, selection_law
from fedsim.simulation import simulate_log
from fedsim.theory import Stationary
from fedsim.theory.prediction import predicted, theory_or_why_not
from tests.selection.cases import law_of, request, shown
from tests.simulation.test_journal import simulate_with_kills

PAGE = Path("docs/extending.md")
LAWS_OF_ONES_OWN = '''
import numpy as np


class Uniform:
    """As the built-in law, one client after the other."""

    theory = "uniform"

    def select(self, request, candidates):
        eligible = np.flatnonzero(candidates.all_eligible())
        return eligible[np.argsort(request.uniforms(eligible))][: request.count]


class Frugal(Uniform):
    """Is asked before anybody is counted."""

    finds_shortage = True


class Curious(Uniform):
    """Asks everything, and writes into whatever it is shown."""

    def __init__(self, weights, cohort):
        assert not weights.flags.writeable
        self.cohort = cohort

    def select(self, request, candidates):
        everyone = np.arange(len(candidates))
        first = super().select(request, candidates)
        for ask in ("eligible", "weight", "last_round", "speed", "group"):
            getattr(candidates, ask)(everyone)[:] = 0
        candidates.all_eligible()[:] = False
        return first


class Answers:
    def __init__(self, answer: str):
        self.answer = answer

    def select(self, request, candidates):
        return eval(self.answer)


class Half: ...


class Unknown(Uniform):
    theory = "uniformly"
'''


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"`waited.py`:\n\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "its_laws.py").write_text(example)
    (tmp_path / "own_laws.py").write_text(LAWS_OF_ONES_OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


GROUPS = [
    {"devices": 9, "separation": 1, "availability": {"kind": "renewal", "on": "20m", "off": "10m"}, "cooldown": "3m"},
    {"devices": 15, "name": "fast", "session": {"train": {"kind": "exponential", "mean": "40s"}, "speed": 2}},
]
SYNC = {"cohort": 4, "over_select": 1.3, "deadline": "2m", "pause": "7s"}
BUFFERED = {"mode": "buffered", "concurrency": 9, "buffer": 3, "cooldown_from": "reported"}


def scenario(selection: Any, server: dict[str, Any] = SYNC, **more: Any) -> Scenario:
    data = {"stop": {"rounds": 80}, "population": GROUPS, "server": {**server, "selection": selection}, **more}
    return Scenario.model_validate(data)


def logged(case: Scenario, engine: str) -> InMemoryLog:
    case = case.model_copy(update={"engine": engine})
    return simulate_log(case, build_population(case))


@pytest.mark.parametrize("server", [SYNC, {**SYNC, "shortage": "proceed", "cohort": 30}, BUFFERED])
@pytest.mark.parametrize(
    "law", ["its_laws:Longest", {"kind": "its_laws:Longest", "patience": 3}, "own_laws:Frugal", "own_laws:Curious"]
)
def test_both_engines_write_the_same_tables(law: Any, server: dict[str, Any]) -> None:
    case = scenario(law, server)
    assert preflight(case)
    process, vectorized = logged(case, "process"), logged(case, "vectorized")
    for name in ("rounds", "participations", "gauges"):
        assert getattr(process, name).equals(getattr(vectorized, name))


def test_who_waited_longest_is_preferred() -> None:
    """Nobody is selected while somebody eligible has waited longer: all are eligible, so everyone is in turn."""
    data = {"stop": {"rounds": 30}, "population": [{"devices": 12}], "server": {"cohort": 3}}
    case = Scenario.model_validate({**data, "server": {"cohort": 3, "selection": "its_laws:Longest"}})
    gaps = logged(case, "vectorized").participations["gap"].drop_nulls()
    assert gaps.unique().to_list() == [4]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_resumed_run_knows_who_waited(engine: str, tmp_path: Path) -> None:
    """Killed again and again, the run has the same bytes: the last rounds are those of before."""
    case = scenario("its_laws:Longest").model_copy(update={"engine": engine})
    plain, stopped = tmp_path / "plain", tmp_path / "stopped"
    plain.mkdir()
    log = simulate_log(case, build_population(case))
    assert simulate_with_kills(case, tmp_path / "journal", [30] * 6, stopped) == (log.ended_s, "")
    for name in ("rounds", "participations", "gauges"):
        write_table(plain / f"{name}.parquet", getattr(log, name))
        assert (plain / f"{name}.parquet").read_bytes() == (stopped / f"{name}.parquet").read_bytes()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[]", "returned 0 clients; 3 are wanted, and 4 are eligible"),
        ("[0, 1, 2, 3]", "returned 4 clients; 3 are wanted, and 4 are eligible"),
        ("[0, 1, 1]", "returned client 1 more than once"),
        ("[0, 1, 4]", "returned client 4, which is not eligible"),
        ("[0, 1, 6]", "returned client 6, and clients are numbered from 0 to 5"),
        ("np.array([0, -1, 2])", "returned client -1, and clients are numbered from 0 to 5"),
        ("candidates.all_eligible()", "must return the indices .*, not an array of bool and shape"),
        ("[0.0, 1.0, 2.0]", "must return the indices .*, not an array of float64"),
        ("None", "must return the indices .*, not None"),
        ("[[0], [1, 2]]", "ValueError: "),
        ("candidates.speed([0, 9])", "ValueError: clients are whole numbers from 0 to 5, and these are"),
        ("candidates.eligible([-1])", "ValueError: clients are whole numbers from 0 to 5, and these are"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_wrong_answers_are_told_with_the_law_and_the_round(answer: str, message: str) -> None:
    law = law_of("own_laws:Answers", np.full(6, 1 / 6), 3, seed=0, answer=answer)
    with pytest.raises(PluginError, match=rf"^selection law 'own_laws:Answers', round 1,234: {message}"):
        law.select(request(1234, 3), shown([1, 1, 1, 1, 0, 0]))


@given(mask=st.lists(st.booleans(), min_size=1, max_size=12), answer=st.lists(st.integers(-2, 13), max_size=6))
@settings(max_examples=200)
def test_an_answer_is_taken_if_and_only_if_it_is_one(mask: list[bool], answer: list[int]) -> None:
    """Distinct eligible clients, three of them; all, where fewer are eligible."""
    eligible = set(np.flatnonzero(mask).tolist())
    right = len(set(answer)) == len(answer) == min(3, len(eligible)) and set(answer) <= eligible
    law = law_of("own_laws:Answers", np.full(len(mask), 1.0), 3, seed=0, answer=repr(answer))
    try:
        assert law.select(request(0, 3), shown(mask)).tolist() == answer
        taken = True
    except PluginError:
        taken = False
    assert taken == right


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize("server", [SYNC, BUFFERED])
def test_a_law_that_fails_ends_the_run_with_its_error(engine: str, server: dict[str, Any]) -> None:
    law = {"kind": "own_laws:Answers", "answer": "{}['x']"}
    with pytest.raises(
        PluginError, match=r"^selection law 'own_laws:Answers', round 0: KeyError: 'x' \(.*own_laws.py:\d+\)$"
    ):
        logged(scenario(law, server), engine)


@pytest.mark.parametrize(
    ("selection", "path", "message"),
    [
        ("own_laws:Unifrom", "server.selection.kind", "module 'own_laws' has no 'Unifrom'; did you mean 'Uniform'?"),
        ("own_lows:Uniform", "server.selection.kind", "cannot import 'own_lows': No module named 'own_lows'"),
        ("own_laws:Half", "server.selection.kind", "'own_laws:Half' cannot be the selection law: it lacks"),
        ("own_laws:Answers", "server.selection.answer", "missing; selection law 'own_laws:Answers' needs it"),
        ("own_laws:Unknown", "server.selection.kind", "'own_laws:Unknown' has the theory 'uniformly'; it must be None"),
        (
            {"kind": "its_laws:Longest", "patence": 3},
            "server.selection.patence",
            "unknown option 'patence'; did you mean 'patience'?",
        ),
        (
            {"kind": "its_laws:Longest", "patience": "3"},
            "server.selection.patience",
            "must be a valid integer, got '3'",
        ),
    ],
)
@pytest.mark.parametrize("server", [SYNC, BUFFERED])
def test_mistakes_are_found_before_the_run(selection: Any, path: str, message: str, server: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError) as caught:
        simulate(scenario(selection, server))
    [mistake] = caught.value.mistakes
    assert f"error: {path}: {message}" in f"error: {mistake}"


def test_a_bare_word_that_is_no_law_is_refused_as_ever() -> None:
    with pytest.raises(ValueError, match="midzuno"):
        scenario("longest")


def test_a_registered_law_is_known_by_its_name() -> None:
    @LAWS.register("the_first")
    class First:
        def select(self, request: Any, candidates: Any) -> NDArray[np.int64]:
            return np.flatnonzero(candidates.all_eligible())[: request.count]

    case = scenario("the_first")
    assert check_law(case.server.selection) == []
    law = selection_law(case.server.selection, np.full(6, 1 / 6), 3, 0, 0)
    assert law.select(request(0, 2), shown([0, 1, 1, 1, 0, 0])).tolist() == [1, 2]
    assert check_law(Component(kind="the_second"))[0][0] == ("kind",)


def test_lots_differ_by_selection_client_and_index() -> None:
    """One call for many clients gives what calls for each give; 20,000 of them follow the uniform law."""
    first, second = request(0, 1), request(1, 1)
    clients = np.arange(20_000)
    lots = first.uniforms(clients)
    assert first.uniforms([7])[0] == lots[7]
    for others in (second.uniforms(clients), first.uniforms(clients, 1)):
        assert not np.isin(others, lots).any()
        assert abs(np.corrcoef(lots, others)[0, 1]) < 0.03
    assert abs(lots.mean() - 0.5) < 0.01


ALWAYS: list[dict[str, Any]] = [{"devices": 24, "session": {"train": {"kind": "exponential", "mean": "40s"}}}]


@pytest.mark.parametrize("server", [{"cohort": 4}, {"mode": "buffered", "concurrency": 9, "buffer": 3}])
def test_theory_covers_what_a_law_declares(server: dict[str, Any]) -> None:
    """None, and the question names the law; a declared one gives what the built-in law has."""
    own, covered, known = (
        scenario(law, server, population=ALWAYS) for law in ("its_laws:Longest", "own_laws:Uniform", "uniform")
    )
    population = build_population(own)
    assert isinstance(theory_or_why_not(own, population), str)
    with pytest.raises(ChainError, match="no theory covers the selection law 'its_laws:Longest'"):
        participation_theory(own)
    theory = theory_or_why_not(covered, population)
    assert isinstance(theory, Stationary)
    np.testing.assert_array_equal(theory.pi, predicted(known, population).pi)
    np.testing.assert_array_equal(predicted(own, population, rule="uniform").pi, theory.pi)


def test_there_is_no_convergence_to_study_without_theory() -> None:
    study = {"convergence": {"separations": [0], "rounds": 5}}
    with pytest.raises(ScenarioError, match=r"theory\.convergence: no theory covers the selection law"):
        preflight(scenario("its_laws:Longest", population=ALWAYS, theory=study))
