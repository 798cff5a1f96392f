"""Values of a process that lives on are those of the modules as they are now, however these import each other."""

import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from fedsim.common.errors import RunError
from fedsim.trials import own_modules
from fedsim.trials.own_modules import file_of, import_afresh, with_imports

MODULES = {
    "own_a.py": "from own_b import b\nimport own_nested.deep.far\ndef value(): return b() + own_nested.deep.far.N",
    "own_b.py": "N = 100\ndef b():\n    from own_pack import inner\n    return N + inner.N",
    "own_c.py": "from importlib import import_module\ndef value(): return import_module('own_nested.deep.far').N",
    "own_d.py": "from own_pack.star import *\nfrom own_b import b\ndef value(): return b() + shown.N + inner.N",
    "own_pack/__init__.py": "N = 100",
    "own_pack/inner.py": "from . import N as M\nN = M",
    "own_pack/star/__init__.py": "__all__ = ['shown', 'inner']\nfrom .. import inner",
    "own_pack/star/shown.py": "N = 100",
    "own_nested/deep/far.py": "N = 100",
}
ROOTS = ["own_a", "own_c", "own_d"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules of one's own, two imports deep: late, by name, with a star, in folders with and without a package."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    own_modules._FromSource.ours.clear()
    own_modules._HELD.clear()


def test_all_that_a_module_imports_counts(folder: Path) -> None:
    deep = {"own_nested.deep.far", "own_b", "own_pack", "own_pack.inner"}
    assert set(with_imports(["own_a"])) == {"own_a", *deep}
    assert set(with_imports(["own_c"])) == {"own_c", "own_nested.deep.far"}
    assert {"own_pack.star", "own_pack.star.shown", "own_pack.inner"} < set(with_imports(["own_d"]))
    assert with_imports(["own_gone", "polars"]).keys() == {"polars"}  # installed, so not followed
    assert file_of("own_nested.deep") == (None, [str(folder / "own_nested" / "deep")])


@pytest.mark.parametrize("edits", [50, pytest.param(300, marks=pytest.mark.campaign)])
def test_no_value_is_stale_after_many_edits(folder: Path, edits: int) -> None:
    """A helper that was changed within a second, to as many bytes, was not imported anew."""
    rng = random.Random(1)
    files = [folder / name for name, text in MODULES.items() if "N = 100" in text]
    number = dict.fromkeys(files, 100)
    b, pack, shown, far = (
        next(file for file in files if file.as_posix().endswith(end))
        for end in ("own_b.py", "own_pack/__init__.py", "star/shown.py", "far.py")
    )
    stale = 0
    for _ in range(edits):
        file = rng.choice(files)
        new = rng.randint(100, 999)
        file.write_text(file.read_text().replace(f"N = {number[file]}", f"N = {new}"))
        number[file] = new
        root = rng.choice(ROOTS)
        import_afresh(with_imports([root]))
        both = number[b] + number[pack]
        wanted = {"own_a": both + number[far], "own_c": number[far], "own_d": both + number[shown] + number[pack]}
        stale += import_module(root).value() != wanted[root]
    assert stale == 0


def test_what_did_not_change_is_not_imported_anew(folder: Path) -> None:
    import_afresh(with_imports(["own_a"]))
    module = import_module("own_a")
    import_afresh(with_imports(["own_a"]))
    assert import_module("own_a") is module


def test_a_module_that_is_changed_between_its_check_and_its_import_is_told(folder: Path) -> None:
    known = with_imports(["own_a"])
    import_afresh(known)
    (folder / "own_b.py").write_text("def b(): return 0")
    import_module("own_a")
    (folder / "own_b.py").write_text(MODULES["own_b.py"])
    assert with_imports(["own_a"]) == known
    assert own_modules.made_otherwise(known) == ["own_b"]


def test_a_module_that_cannot_be_imported_anew_is_refused(folder: Path) -> None:
    """As a compiled one; it is the hash of its first import that counts."""
    import_afresh({"zlib": "1"})
    import_afresh({"zlib": "1"})
    sys.modules.setdefault("zlib", import_module("zlib"))
    with pytest.raises(RunError, match="holds an older content of the module zlib; restart it"):
        import_afresh({"zlib": "2"})


def test_a_source_that_is_no_python_is_left_to_the_run(folder: Path) -> None:
    (folder / "own_a.py").write_text("import (")
    assert list(with_imports(["own_a"])) == ["own_a"]
