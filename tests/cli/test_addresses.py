"""An address in the place of a path is refused: no folder `s3:` is made for it."""

from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.bridges.schedules import read_schedule
from fedsim.common.arguments import check_local
from fedsim.common.files import sole_writer, write_text
from fedsim.trials.results import read_results
from tests.command import COMMANDS
from tests.command import fedsim as call
from tests.conftest import Load

ADDRESSES = ["s3://bucket/x", "gs://bucket/x.json", "file:///tmp/x", "https://host/x?y=1", "hdfs:/x", "a::s3://x"]
LOCAL = ["C:\\x", "C:/x", "a:b", "a:b/c", "./a", "/s3:/x", "12:30/x", "x", "D:", "2024-01-01T10:00:00/x"]


def commands(group: Any = COMMANDS, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))
    if not hasattr(group, "commands"):
        yield words, group


def paths() -> Iterator[Any]:
    """Yield the words of a command line for each path that any command takes, with an address in its place."""
    for words, command in commands():
        required = [each for each in command.params if each.required]
        for param in command.params:
            if "Path" not in _hint(command, param):
                continue
            line = list(words)
            for each in dict.fromkeys([*required, param]):
                given = ADDRESSES[0] if each is param else "x.csv" if "Path" in _hint(command, each) else "1"
                line += [*each.opts[:1] * (each.opts[0].startswith("-")), given]
            yield pytest.param(line, id=f"{' '.join(words)} {param.name}")


def _hint(command: Any, param: Any) -> str:
    return str(get_type_hints(command.callback).get(param.name, ""))


PATHS = list(paths())


def test_many_commands_take_paths() -> None:
    assert len(PATHS) > 40
    other = [each for _, command in commands() for each in command.params if "Path" not in _hint(command, each)]
    files = {
        opt
        for each in other
        if each.metavar and {"FILE", "DIR", "FOLDER"} & {*each.metavar.strip(".").split("|")}
        for opt in each.opts
    }
    assert files <= {"--target"}, "a path that is taken as text"


@pytest.mark.parametrize("line", PATHS)
def test_no_command_takes_an_address_for_a_path(line: list[str], tmp_path: Path) -> None:
    done = call(*line, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 's3://bucket/x' is an address, and fedsim reads and writes files of")
    assert not list(tmp_path.iterdir())


def public_functions() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield each public function, or method of a public class, with each of its arguments that may be a path."""
    for name in fedsim.__all__:
        found = getattr(fedsim, name)
        methods = (
            [each for key, each in vars(found).items() if not key.startswith("_")] if isinstance(found, type) else []
        )
        for function in [getattr(each, "__func__", each) for each in methods] if methods else [found]:
            if callable(function) and not isinstance(function, type):
                hints = signature(function).parameters.items()
                yield from ((function, key) for key, each in hints if "Path" in str(each.annotation))


@pytest.mark.parametrize(
    ("function", "argument"), [*public_functions(), (read_schedule, "path"), (read_results, "directory")]
)
@pytest.mark.parametrize("address", [ADDRESSES[0], Path(ADDRESSES[1]), ADDRESSES[2]])
def test_no_public_function_takes_an_address_for_a_path(
    function: Callable[..., Any],
    argument: str,
    address: Any,
    small: Load,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    scenario = small()
    given = {"self": None, "cls": fedsim.Scenario, "scenario": scenario, "a": address, "b": address, argument: address}
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    known = signature(function).parameters
    with pytest.raises(fedsim.RunError, match="is an address, and fedsim reads and writes files of this machine alone"):
        function(**{key: value for key, value in given.items() if key in known})
    assert sorted(tmp_path.iterdir()) == before


def test_public_functions_take_paths() -> None:
    names = {function.__qualname__ for function, _ in public_functions()}
    assert names >= {"simulate", "load", "sweep", "compare", "Scenario.load", "Run.save", "Run.report"}


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_is_written(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path(address), address):
        with pytest.raises(fedsim.RunError, match="is an address"):
            check_local(path)
    with pytest.raises(fedsim.RunError, match="is an address"):
        write_text(Path(address), "")
    with pytest.raises(fedsim.RunError, match="is an address"), sole_writer(Path(address), "run"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", LOCAL)
def test_a_path_with_a_colon_is_one(path: str) -> None:
    check_local(path)
    check_local(Path(path))


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9+.-]+", fullmatch=True), st.text(max_size=5))
def test_every_scheme_is_refused(scheme: str, rest: str) -> None:
    with pytest.raises(fedsim.RunError):
        check_local(f"{scheme}://{rest}")
