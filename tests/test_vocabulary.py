"""One vocabulary: a public name has one home, a value is called by a noun, and a file's name says what it alone has."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import fedsim

ROOT = Path(fedsim.__file__).parent

VAGUE = {"found", "own", "told", "said", "known", "law", "laws"}
"""Words that say of a value where it comes from, or what two other words say (a `rule` selects, one draws from a
`distribution`), and not what it is."""
NAMED_OUTSIDE = {
    ("traces/fit.py", "laws"),  # a key of `fedsim trace fit --json`
    ("cli/separations.py", "law"),  # the option --law of `fedsim chain`
    ("run/chain.py", "law"),  # the argument of `fedsim.participation_theory`
    ("theory/", "law"),  # the argument of functions of `fedsim.theory`
    ("run/live.py", "told"),  # the old name of an attribute
    ("run/run.py", "known"),  # an attribute of `fedsim.Result`
    ("pages/playground.py", "law"),  # what the script of the page reads
}
"""Vague words that people write or read, by the beginnings of paths: keys, options, arguments in Python."""

FOLLOWING = {
    "": "what people import, of the bridge of that name",
    "cli": "a command is called as what it calls",
    "scenario": "the keys of a file are called as what they ask for",
    "pages": "the page of a thing is called as the thing",
    "pages/charts": "charts of one kind, as the metrics or the keys of that kind",
    "measure/metrics": "metrics by the first word of their names, as what they measure",
    "simulation/arrays": "the two engines have the same parts",
}
"""Folders whose files are called as another file is, and why."""
SHARED = {
    "__init__": "every package has one",
    "jobs": "several jobs on one fleet: how they run, and what a run of them is",
    "files": "what is written, and how",
}
"""Other names that files share, and why."""


def public_names(source: str) -> Iterator[str]:
    """Yield the public classes, functions, constants and aliases that a module defines."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def value_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the names that a module gives to values, with their lines: variables, arguments, fields and properties."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.FunctionDef(name=name, decorator_list=[*_, ast.Name(id="property" | "cached_property")]):
                yield node.lineno, name


def sources(root: Path) -> dict[str, str]:
    """Return the modules of a package, by their paths in it."""
    return {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.py"))}


def several_homes(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names that several modules define, with these modules."""
    homes = defaultdict[str, set[str]](set)
    for file, source in sources(root).items():
        for name in public_names(source):
            homes[name].add(file)
    return {name: sorted(files) for name, files in homes.items() if len(files) > 1}


def vague_names(root: Path = ROOT) -> list[str]:
    """Return where values have vague names, as FILE:LINE: NAME."""
    return [
        f"{file}:{line}: {name}"
        for file, source in sources(root).items()
        for line, name in sorted(value_names(source))
        if name.lstrip("_") in VAGUE
        and not any(file.startswith(place) and name == word for place, word in NAMED_OUTSIDE)
    ]


def shared_file_names(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names of files that stand in several folders, but for those that are called as another file is."""
    folders = defaultdict[str, list[str]](list)
    for file in map(Path, sources(root)):
        folder = file.parent.as_posix().removeprefix(".")
        if folder not in FOLLOWING and file.stem not in SHARED:
            folders[file.stem].append(folder)
    return {name: where for name, where in folders.items() if len(where) > 1}


def test_every_public_name_has_one_home() -> None:
    assert several_homes() == {}


def test_a_name_with_two_homes_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Round: ...\n_LEAST = 1\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("Round: type = int\n_LEAST = 2\nMOST = 3\n", encoding="utf-8")
    assert several_homes(tmp_path) == {"Round": ["one.py", "two.py"]}


def test_values_are_called_by_nouns() -> None:
    assert vague_names() == []


def test_every_exception_is_needed() -> None:
    used = {(file, name) for file, source in sources(ROOT).items() for _, name in value_names(source)}
    assert all(any(file.startswith(place) and name == word for file, name in used) for place, word in NAMED_OUTSIDE)
    stems = [Path(file).stem for file in sources(ROOT)]
    assert all(stems.count(name) > 1 for name in SHARED)


def test_a_vague_name_is_found_wherever_a_value_gets_one(tmp_path: Path) -> None:
    text = """
class Trace:
    own: int

    def read(self, found, *said, known=None):
        self._told = [law for law in found]
        with open(known) as laws:
            f(known=1, x=self.own)  # a keyword of another's function, and an attribute that is read
        return lambda own: own

    @property
    def told(self):
        return {"found": self.laws}


def unfounded(ownership, lawful): ...
"""
    (tmp_path / "trace.py").write_text(text, encoding="utf-8")
    lines = [each.removeprefix("trace.py:") for each in vague_names(tmp_path)]
    assert lines == ["3: own", "5: found", "5: known", "5: said", "6: _told", "6: law", "7: laws", "9: own", "12: told"]


def test_files_share_a_name_only_where_one_is_called_as_the_other() -> None:
    assert shared_file_names() == {}


def test_a_file_name_in_two_folders_is_found(tmp_path: Path) -> None:
    for file in ("run/world.py", "trials/world.py", "cli/world.py", "run/sweep.py", "cli/sweep.py", "pages/sweep.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert shared_file_names(tmp_path) == {"world": ["run", "trials"]}
