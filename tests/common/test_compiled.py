"""Compiled loops: the same numbers as numpy, and no compiler for those who do not need it."""

import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.compiled import compiled, uniform_at, word_of
from fedsim.common.keyed import Purpose, mixed_index, stream
from tests.conftest import LIMIT_S

words = st.integers(0, 2**63 - 1)


@given(seed=words, client=words, index=words)
def test_compiled_draws_are_those_of_the_stream(seed: int, client: int, index: int) -> None:
    draws = stream(seed, 0, Purpose.AVAILABILITY)
    word = word_of(client, np.uint64(draws.key))
    assert word == draws.of_clients(client)[0]
    assert uniform_at(np.uint64(word) ^ mixed_index(index)[0]) == draws.uniforms(client, index)[0]


def test_where_nothing_can_be_kept_on_disk_loops_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit: Any = numba.njit

    def refuse_to_keep(*, cache: bool, **others: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(cache=False, **others)

    monkeypatch.setattr(numba, "njit", refuse_to_keep)

    def double(number: float) -> float:
        return 2 * number

    assert compiled(double)(21.0) == 42.0


@pytest.mark.long
@pytest.mark.parametrize(("availability", "expected"), [("always", "False"), ("habits", "True")])
def test_the_compiler_is_loaded_for_habits_alone(availability: str, expected: str) -> None:
    program = f"""
import sys
from fedsim import Scenario, simulate
group = {{"devices": 50, "availability": "{availability}"}}
data = {{"stop": {{"rounds": 2}}, "population": [group], "server": {{"cohort": 2}}, "engine": "vectorized"}}
simulate(Scenario.model_validate(data))
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() == expected
