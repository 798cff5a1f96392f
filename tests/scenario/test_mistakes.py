"""Every mistake in a file is told with its place, its path and what would be right; several at once."""

import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.errors import Mistake, ScenarioError
from fedsim.scenario import Scenario
from tests.conftest import SMALL, Write

GOOD = """\
stop: {rounds: 10}
population:
  - devices: 10
server: {cohort: 2}
"""


def complaints(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path, overrides)
    return str(caught.value).replace(str(path), "FILE").splitlines()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("devices: 10", "device: 10"), "FILE:3:5: error: population[0].device: unknown key; did you mean 'devices'?"),
        (("devices: 10", "devices: ten"), "FILE:3:14: error: population[0].devices: must be a whole number, not 'ten'"),
        (("devices: 10", "devices: 0"), "FILE:3:14: error: population[0].devices: must be at least 1, not 0"),
        (("devices: 10", "devices: true"), "FILE:3:14: error: population[0].devices: must be a whole number, not True"),
        (
            ("devices: 10", "devices: 1_000_000_000_000"),
            "FILE:3:14: error: population[0].devices: must be at most 100000000, not 1000000000000",
        ),
        (
            ("cohort: 2", "cohort: 2, deadline: 30"),
            "FILE:4:31: error: server.deadline: needs a unit: write 30s, 30m or 30h, not 30",
        ),
        (("cohort: 2", "selection: cyclic"), "FILE:4:9: error: server.cohort: is required"),
        (
            ("stop: {rounds: 10}", "stop: {rounds: 10}\ndrift: {rel: 0.1}"),
            "FILE:2:8: error: drift: locks nothing: name `figures` such as rounds.per_day, or tables (`fingerprint`)",
        ),
        (
            ("cohort: 2", "cohort: 2, cohort: 3"),
            "FILE:4:21: error: server.cohort: duplicate key 'cohort'; the first is on line 4",
        ),
        (
            ("cohort: 2", "cohort: 2, selection: midzno"),
            "FILE:4:32: error: server.selection: unknown kind 'midzno'; did you mean 'midzuno'?",
        ),
        (
            ("devices: 10", "weight: {kind: zpif}\n    devices: 10"),
            "FILE:3:20: error: population[0].weight.kind: unknown kind 'zpif'; did you mean 'zipf'?",
        ),
        (
            ("devices: 10", "weight: {exponent: 2}\n    devices: 10"),
            "FILE:3:13: error: population[0].weight: needs `kind`, which says what the other keys mean",
        ),
        (
            ("devices: 10", "weight: [1, -2]\n    devices: 10"),
            "FILE:3:17: error: population[0].weight[1]: must be above 0.0, not -2",
        ),
        (
            ("devices: 10", "weight: .nan\n    devices: 10"),
            "FILE:3:13: error: population[0].weight: must be a finite number, not nan",
        ),
        (
            ("devices: 10", "separation: 1.5\n    devices: 10"),
            "FILE:3:17: error: population[0].separation: must be a whole number, not 1.5",
        ),
        (
            ("devices: 10", "weight: {kind: uniform, low: 3, high: 2}\n    devices: 10"),
            "FILE:3:13: error: population[0].weight: low is 3, above high, 2",
        ),
        (("stop: {rounds: 10}", "stop: {}"), "FILE:1:7: error: stop: needs rounds, duration or both"),
        (("cohort: 2", "cohort: 2, shortage: skip"), None),
        (
            ("cohort: 2", "cohort: 2, selection: groups, over_select: 2"),
            "FILE:4:9: error: server: selection by groups takes exactly one group a round: leave over_select at 1",
        ),
        (("stop:", "schema_version: 2\nstop:"), "FILE:1:17: error: schema_version: must be 1, not 2"),
        (
            ("stop:", "start: 2026-01-05\nstop:"),
            "FILE:1:8: error: start: must be an instant with a zone such as 2026-01-05T00:00:00Z: '2026-01-05' does "
            "not say in which zone",
        ),
        (("- devices: 10", "[]"), "FILE:3:3: error: population: must have at least 1 items, not 0"),
        (
            ("server:", "sweep: {zip: {" + ", ".join(f"a{each}: [1]" for each in range(101)) + "}}\nserver:"),
            "FILE:4:14: error: sweep.zip: must have at most 100 items, not 101",
        ),
        (
            ("stop:", "seed: !!python/name:os.system ''\nstop:"),
            "FILE:1:7: error: seed: the tag 'tag:yaml.org,2002:python/name:os.system' has no meaning here",
        ),
    ],
)
def test_one_mistake(write: Write, change: tuple[str, str], complaint: str | None) -> None:
    path = write(GOOD.replace(*change))
    if complaint is None:
        Scenario.load(path)
    else:
        assert complaint in complaints(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "FILE:1:1: error: is empty: `fedsim init` writes a scenario to start from"),
        ("# only a comment\n", "FILE:1:1: error: is empty: `fedsim init` writes a scenario to start from"),
        ("- a\n- b\n", "FILE:1:1: error: must be a mapping of keys such as `population:` and `server:`, not a list"),
        ("hello", "FILE:1:1: error: must be a mapping of keys such as `population:` and `server:`, not 'hello'"),
        (
            "a: [1, 2\nb: 3",
            "FILE:2:2: error: is not YAML: while parsing a flow sequence; expected ',' or ']', but got ':'",
        ),
        ("a: *nobody", "FILE:1:4: error: is not YAML: found undefined alias 'nobody'"),
        ("a: &x [*x]", "FILE:1:4: error: a[0]: contains itself; are aliases (*name) meant?"),
        (
            "a: 1\n---\nb: 2",
            "FILE:2:1: error: is not YAML: expected a single document in the stream; but found another document",
        ),
        ("a: \x01", "FILE:1:4: error: is not YAML: special characters are not allowed"),
        ("[" * 5000, "FILE:1:101: error: is nested too deeply: more than 100 levels"),
    ],
)
def test_what_is_not_a_scenario_at_all(write: Write, text: str, complaint: str) -> None:
    assert complaints(write(text)) == [complaint]


def test_aliases_that_grow_without_end_are_refused(write: Write) -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"] + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "more than 40,000 values" in complaints(write("\n".join(lines)))[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert complaints(tmp_path / "none.yaml") == [
        f"{tmp_path}/none.yaml:1:1: error: cannot be read: No such file or directory".replace(
            f"{tmp_path}/none.yaml", "FILE"
        )
    ]
    assert "Is a directory" in complaints(tmp_path)[0]
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"name: ok\nseed: \xff\xfe")
    assert complaints(binary) == ["FILE:2:7: error: is not UTF-8 text: byte 0xff"]


def test_many_mistakes_are_told_at_once_in_the_order_of_the_file(write: Write) -> None:
    path = write(
        """\
        sed: 1
        stop: {rounds: 0}
        population:
          - {devices: 1, weight: 0}
          - {devices: -1, separation: -1}
        server: {cohort: many}
        """
    )
    found = complaints(path)
    assert [line.split(": ")[2] for line in found] == [
        "sed",
        "stop.rounds",
        "population[0].weight",
        "population[1].devices",
        "population[1].separation",
        "server.cohort",
    ]


def test_overrides(write: Write) -> None:
    path = write(SMALL)
    scenario = Scenario.load(
        path, ["population.*.separation=1", "server.selection.kind=uniform", "server.pause=5s"], seed=9
    )
    assert (scenario.population[0].separation.value, scenario.server.selection.kind) == (1, "uniform")
    assert (scenario.seed, scenario.sync_server.pause, scenario.name) == (9, 5.0, "case")


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("server.cohort", "--set server.cohort: error: must be PATH=VALUE, such as server.cohort=20"),
        ("server.cohrt=3", "--set server.cohrt=3: error: server.cohrt: unknown key; did you mean 'cohort'?"),
        (
            "population[3].devices=3",
            "--set population[3].devices=3: error: population: is a list; '3' is none of its items (0 to 0, or *)",
        ),
        ("stop.rounds.x=3", None),
        ("server.cohort=[1", "--set server.cohort=[1: error: server.cohort: is not YAML"),
        ("server.cohort=two", "--set server.cohort=two: error: server.cohort: must be a whole number, not 'two'"),
    ],
)
def test_mistakes_in_overrides(write: Write, override: str, complaint: str | None) -> None:
    found = complaints(write(SMALL), override)
    assert found[0].startswith(complaint or f"--set {override}")


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=60)


@given(where=st.integers(0, len(SMALL)), length=st.integers(0, 8), new=texts)
def test_a_mutated_file_is_read_or_complained_about(
    tmp_path_factory: pytest.TempPathFactory, where: int, length: int, new: str
) -> None:
    """Whatever is typed into a file, the answer is a scenario or mistakes with a place, never another exception."""
    path = tmp_path_factory.mktemp("fuzz") / "x.yaml"
    path.write_text(SMALL[:where] + new + SMALL[where + length :], encoding="utf-8")
    found: tuple[Mistake, ...] = ()
    try:
        Scenario.load(path)
    except ScenarioError as error:
        found = error.mistakes
    assert all(str(mistake).startswith(f"{path}:") for mistake in found)


def test_loading_is_loading(small: Callable[..., Scenario]) -> None:
    assert small().devices == 12


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (("devices: 10", "devices: 2M"), "must be a whole number, not '2M'; write 2000000"),
        (("devices: 10", "devices: 1e3"), "must be a whole number, not 1000.0; write 1000"),
        (("devices: 10", "devices: 10, separation: 12h"), "a time to wait is `cooldown: 12h`"),
        (
            ("devices: 10", "devices: 10, time_zone: PST"),
            "unknown time zone 'PST'; did you mean 'America/Los_Angeles'?",
        ),
        (("devices: 10", "devices: 10, cooldown: 7 days"), "not '7 days'; did you mean '7d'?"),
        (("devices: 10", "devices: 10, cooldown: 1 day 12 hrs"), "did you mean '1d12h'?"),
        (("cohort: 2", "cohort: 2, deadline: 5 min"), "did you mean '5m'?"),
        (("cohort: 2", "cohort: 2, selection: random"), "unknown kind 'random'; did you mean 'uniform'?"),
    ],
)
def test_what_people_write_gets_a_hint(write: Write, change: tuple[str, str], hint: str) -> None:
    text = GOOD.replace("  - devices: 10", "  - {devices: 10}").replace(*change)
    (only,) = complaints(write(text))
    assert hint in only


def test_mappings_are_merged(write: Write) -> None:
    scenario = Scenario.load(
        write(
            """\
stop: {rounds: 10}
population:
  - &first {devices: 10, separation: 4, name: one}
  - {<<: *first, name: two}
  - <<: [{name: three}, *first]
    separation: 1
server: {cohort: 2}
"""
        )
    )
    found = [(group.name, group.devices, group.separation) for group in scenario.population]
    assert [name for name, *_ in found] == ["one", "two", "three"]
    assert {devices for _, devices, _ in found} == {10}
    assert [int(separation.value) for *_, separation in found] == [4, 4, 1]


@pytest.mark.parametrize("text", ["a: &a {<<: *a, x: 1}\n", "b: {<<: 3}\n", "b: {<<: [3]}\n", "<<: {name: 3}\n"])
def test_a_merge_that_means_nothing_is_told(write: Write, text: str) -> None:
    assert complaints(write(text + GOOD))


def test_merges_of_merges_are_bounded(write: Write) -> None:
    names = "abcdefgh"
    lines = [f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 10)}]}}" for a, b in pairwise(names)]
    found = complaints(write("\n".join(["a: &a {x: 1, y: 2}", *lines, GOOD])))
    assert any("aliases" in line or "merges" in line for line in found)


def test_mistakes_come_out_of_another_process_whole(write: Write) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(write(GOOD.replace("10", "-1")))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.mistakes) == (str(caught.value), caught.value.mistakes)
