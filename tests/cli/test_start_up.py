"""What a small run need not wait for."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S

RUN = """\
stop: {rounds: 100}
population: [{devices: 40, separation: 2}]
server: {cohort: 5}
"""
CODE = """\
import sys
from fedsim.__main__ import main
sys.argv = ["fedsim", "run", "small.fedsim.yaml", "--out", "run"]
try:
    main()
finally:
    print("loaded:", sorted({"numba", "scipy.optimize", "scipy.sparse", "scipy.stats"} & set(sys.modules)))
"""


@pytest.mark.long
def test_a_small_run_loads_no_compiler_and_of_scipy_its_functions_alone(tmp_path: Path) -> None:
    """Importing them would take longer than simulating a thousand rounds; the verdict needs the laws of its tests."""
    (tmp_path / "small.fedsim.yaml").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert "loaded: []" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
