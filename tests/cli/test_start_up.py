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
    print("loaded:", sorted({"numba", "scipy"} & set(sys.modules)))
"""


@pytest.mark.long
def test_a_small_run_loads_neither_a_compiler_nor_scipy(tmp_path: Path) -> None:
    """Importing them would take longer than simulating a thousand rounds."""
    (tmp_path / "small.fedsim.yaml").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert "loaded: []" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
