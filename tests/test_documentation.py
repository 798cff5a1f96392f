"""What the documentation shows is run: Python examples as doctests, commands in this process and in a shell."""

import doctest
import inspect
import re
import shlex
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import fedsim
from fedsim.cli import app
from fedsim.common import registry
from fedsim.scenario.roles import ROLES, registry_of
from tests import command as command_line
from tests.consoles import consoles

PAGES = [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_python_examples(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is forgotten after it."""
    monkeypatch.setattr(registry, "_REGISTERED", {*registry._REGISTERED})
    for each in map(registry_of, ROLES):
        monkeypatch.setattr(each, "_registered", {**each._registered})
    failed, _ = doctest.testfile(str(page.resolve()), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_package_docstring() -> None:
    assert doctest.testmod(fedsim).attempted > 0
    assert doctest.testmod(fedsim).failed == 0


METHODS = ("Scenario.load", "Scenario.with_values", "Result.model", "Result.save")
PUBLIC = [*(name for name in fedsim.__all__ if inspect.isfunction(getattr(fedsim, name))), *METHODS]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_docstrings_have_all_parameters_what_is_raised_and_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTERED", {*registry._REGISTERED})
    for each in map(registry_of, ROLES):
        monkeypatch.setattr(each, "_registered", {**each._registered})
    documented = attrgetter(name)(fedsim)
    text = inspect.getdoc(documented) or ""
    named = {one for line in re.findall(r"^(\w+(?:, \w+)*)$", text, re.MULTILINE) for one in line.split(", ")}
    assert inspect.signature(documented).parameters.keys() - {"self"} <= named or name == "citation"
    assert re.search(r"^Raises$|Error`", text, re.MULTILINE)
    assert re.search(r"\breturn\b", text.partition("\n")[0], re.IGNORECASE)
    (found,) = doctest.DocTestFinder(recurse=False).find(
        documented, name, globs={each: getattr(fedsim, each) for each in fedsim.__all__}
    )
    assert doctest.DocTestRunner().run(found) == doctest.TestResults(0, len(found.examples))
    assert found.examples


def test_there_are_at_most_30_000_words_and_700_in_the_first_page() -> None:
    """What lies between blanks and has a letter or a digit is a word, in tables and examples too."""
    pages = [page for page in PAGES if page.parent.name != "reference"]
    words = {page: sum(bool(re.search(r"\w", word)) for word in page.read_text("utf-8").split()) for page in pages}
    assert sum(words.values()) <= 30_000
    assert words[Path("README.md")] <= 700


def test_the_glossary_has_the_words_of_the_tutorial_and_at_most_forty() -> None:
    entries = re.findall(r"^- \*\*(.+?)\*\*: ", Path("docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    used = re.findall(r"(?<![*\w])\*([\w ]+)\*(?!\*)", Path("docs/tutorial.md").read_text(encoding="utf-8"))
    assert {word for word in used if word != "italics"} <= {each for entry in entries for each in entry.split(", ")}
    assert sorted(entries, key=str.lower) == entries[:40]


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)|`((?:fedsim|tests|scenarios|benchmarks|docs)/[\w./-]+)`")
PLACES = [*PAGES, *sorted(Path("benchmarks").glob("*.md")), *sorted(Path("reports").glob("*.md"))]
PLACES += sorted(Path("examples").glob("*/README.md"))


@pytest.mark.parametrize("page", PLACES, ids=str)
def test_what_a_page_refers_to_is_there(page: Path) -> None:
    referred = [(link, page.parent) if link else (path, Path()) for link, path in LINK.findall(page.read_text("utf-8"))]
    assert [
        there
        for there, folder in referred
        if "://" not in there and not (folder / there).exists() and not (page.parent / there).exists()
    ] == []


def in_this_process(command: str, folder: Path) -> tuple[int, str]:
    """Call fedsim here; leave other programs, and what a shell does beyond splitting words, to a shell."""
    words = shlex.split(command)
    if words[0] != "fedsim" or set("|&;<>$`").intersection(command):
        code, seen = consoles.in_a_shell(command, folder)
        return code, seen
    done = command_line.fedsim(*words[1:], cwd=folder)
    return done.returncode, done.seen


SHOWING = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]
IN_A_SHELL_ALONE = ("docs/privacy.md", "docs/report.md", "docs/sweeps.md", "docs/traces.md")
"""Pages with the longest commands; the tests of reports, sweeps and traces show the same in small."""


def test_there_are_commands_to_run() -> None:
    assert Path("README.md") in SHOWING


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "run"),
    [
        *((page, in_this_process) for page in SHOWING if str(page) not in IN_A_SHELL_ALONE),
        *(
            pytest.param(page, consoles.in_a_shell, marks=pytest.mark.long)
            for page in SHOWING
            if str(page) in ("README.md", *IN_A_SHELL_ALONE)
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_commands(
    page: Path, run: Callable[[str, Path], tuple[int, str]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every command of a page succeeds, in order, in one folder, and prints what is shown; ``...`` is left out."""
    if run is in_this_process:
        request.getfixturevalue("no_charts")

    def each(command: Any, printed: str) -> None:
        assert consoles.agrees(command.shown, printed), (
            f"{command.text} does not print\n" + "\n".join(command.shown) + f"\nbut\n{consoles.as_seen(printed)}"
        )

    consoles.prepare(tmp_path)
    consoles.replay(page.read_text(encoding="utf-8"), tmp_path, run, each)


NAMED = re.compile(r"`(fedsim (?:-\w|--?[a-z]|[a-z])[^`]*)`")


@pytest.mark.parametrize("page", PLACES, ids=str)
def test_commands_can_be_typed_in_every_shell(page: Path) -> None:
    """What zsh would take for a pattern of names of files is quoted."""
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"^(?:\$ | {4}(?=fedsim|pip))(.+)|`(fedsim [^`]*--set [^`]*)`", text, re.MULTILINE)
    bare = [re.sub(r"'[^']*'|\"[^\"]*\"", "", "".join(command)) for command in typed]
    assert [each for each in bare if re.search(r"[*?{]|=\[", each)] == []


def test_a_page_without_a_console_names_commands_and_options_that_are_there() -> None:
    """Within sentences too: `fedsim run FILE --out DIR` must be a command that has this option."""
    root = get_command(app)
    for page in PLACES:
        for text in NAMED.findall(page.read_text(encoding="utf-8").replace("\n", " ")):
            words = re.sub(r"[\[\]|]", " ", text).split()[1:]
            known, at = root, 0
            while at < len(words) and words[at] in getattr(known, "commands", {}):
                known, at = known.commands[words[at]], at + 1  # type: ignore[attr-defined]
            options = {name for parameter in known.params for name in (*parameter.opts, *parameter.secondary_opts)}
            options |= {"-h", "--help", "--install-completion", "--show-completion"}
            asked = {word.partition("=")[0] for word in words[at:] if word.startswith("-")}
            assert at > 0 or asked, f"{page}: `{text}` is no command"
            assert asked <= options, f"{page}: `{text}` has options that are not there: {asked - options}"


@pytest.mark.parametrize("page", PLACES, ids=str)
def test_every_table_has_a_head(page: Path) -> None:
    """An empty line within a table ends it, and the rows after it are shown as text."""
    lines = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE).splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("|") and not lines[at - 1].startswith("|")]
    assert [lines[at] for at in heads if not re.fullmatch(r"\|(?: ?:?-+:? ?\|)+", lines[at + 1])] == []
