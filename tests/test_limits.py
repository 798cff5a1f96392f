"""No test waits for ever: whatever a test starts has a time limit."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

WAITING = {"run", "check_call", "check_output", "wait", "communicate"}
TESTS = Path(__file__).parent


def calls_without_limit(source: str) -> Iterator[int]:
    """Yield the lines of calls that wait for a process for as long as it likes."""
    tree = ast.parse(source)
    if not any(isinstance(node, ast.Import) and node.names[0].name == "subprocess" for node in ast.walk(tree)):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITING:
            of_module = isinstance(node.func.value, ast.Name) and node.func.value.id == "subprocess"
            limited = any(keyword.arg == "timeout" for keyword in node.keywords) or (not of_module and node.args)
            if (of_module or node.func.attr in {"wait", "communicate"}) and not limited:
                yield node.lineno


def test_every_process_that_a_test_starts_has_a_time_limit() -> None:
    assert [
        f"{file.relative_to(TESTS)}:{line}"
        for file in sorted(TESTS.rglob("*.py"))
        for line in calls_without_limit(file.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.parametrize("call", ["subprocess.run(['x'])", "process.wait()", "process.communicate()"])
def test_a_call_without_a_limit_is_found(call: str) -> None:
    assert list(calls_without_limit(f"import subprocess\n{call}")) == [2]


def test_every_test_has_a_time_limit(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) > 0
