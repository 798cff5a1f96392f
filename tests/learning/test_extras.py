"""Without an extra, what needs it says so beforehand, and everything else works."""

import subprocess
import sys

import pytest

from fedsim.learning import PROBLEMS
from fedsim.learning.data import choice
from tests.conftest import LIMIT_S

pytestmark = pytest.mark.extras
WITHOUT = """
import sys
for name in ("torch", "sklearn"):
    sys.modules[name] = None
import fedsim.learning
from fedsim.learning import build_problem, LearningError
build_problem("quadratic", {}, clients=3, seed=0)
try:
    build_problem("softmax_regression", {}, clients=3, seed=0)
except LearningError as error:
    print(error)
"""


@pytest.mark.long
def test_the_layer_imports_without_the_extras() -> None:
    """Neither PyTorch nor scikit-learn is imported before a problem asks for it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert "scikit-learn" in done.stdout


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("softmax_regression", {}, [("kind",)]),
        ("softmax_regression", {"data": "digits"}, [("data",)]),
        ("softmax_regression", {"data": {"kind": "npz", "path": "x"}}, []),
        ("torch", {}, [("kind",), ("kind",)]),
        ("torch", {"data": {"kind": "npz", "path": "x"}}, [("kind",)]),
        ("softmax_regression", {"data": "mnist_sample"}, [("data",)]),
        ("softmax_regression", {"data": {"kind": "mnist"}}, []),
        ("quadratic", {}, []),
    ],
)
def test_what_is_missing_is_found_beforehand(
    monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, object], expected: list[tuple[str, ...]]
) -> None:
    """The finding names the project and the command that installs it."""
    monkeypatch.setattr(choice, "find_spec", lambda _name: None)
    findings = PROBLEMS.check(kind, options)
    assert [path for path, _ in findings] == expected
    assert all("pip install 'fedsim-participation[" in message for _, message in findings)
