"""examples/natural-data and its converter, with files of the same shape as FEMNIST's and CIFAR-10's."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from tests.conftest import LIMIT_S

pytestmark = pytest.mark.extras
EXAMPLES = Path("examples/natural-data")
CONVERTER = Path("examples/converters/federated_data.py").absolute()
COLUMNS = ("--client", "label", "--x", "img")
ROWS = ("--client", "who", "--x", "x", "--y", "y")


def convert(folder: Path, *arguments: str) -> str:
    """Run the converter in a folder, and return what it says."""
    command = [sys.executable, str(CONVERTER), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_femnist_by_its_writers(tmp_path: Path) -> None:
    """LEAF's layout with 12 writers of 4 to 15 images, some of which are to test on."""
    pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    draws = np.random.default_rng(0)
    for part, images in (("train", lambda i: 4 + i), ("test", lambda _: 1)):
        users = {
            f"f{writer:04d}_00": {
                "x": draws.random((images(writer), 784)).round(2).tolist(),
                "y": draws.integers(62, size=images(writer)).tolist(),
            }
            for writer in range(12)
        }
        (tmp_path / "leaf" / part).mkdir(parents=True)
        found = {"users": [*users], "num_samples": [1] * 12, "user_data": users}
        (tmp_path / "leaf" / part / "all_data_0.json").write_text(json.dumps(found))
    assert "12 clients with 4 to 15 samples, 12 to test on" in convert(tmp_path, "leaf", "leaf", "femnist.npz")
    shutil.copy(EXAMPLES / "femnist.fedsim.yaml", tmp_path)
    small = ["population.0.devices=12", "server.cohort=3", "stop.rounds=12", "population.0.separation=0"]
    metrics = simulate(Scenario.load(tmp_path / "femnist.fedsim.yaml", small)).metrics
    assert metrics["learning.fedavg.final_loss"] < np.log(62) + 0.1
    assert "learning.fedavg.accuracy_of_tenth_1" in metrics


def test_cifar_10_by_a_residual_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of uoft-cs/cifar10 with 60 images of two labels; a module of one's own, labels by time zone."""
    pytest.importorskip("torch", reason="needs PyTorch, extra 'torch'")
    from PIL import Image

    draws, cells = np.random.default_rng(0), []
    for label in range(60):
        pixels = draws.integers(0, 255, size=(32, 32, 3)) // 4 + 150 * (label % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(file := io.BytesIO(), "PNG")
        cells.append({"bytes": file.getvalue(), "path": None})
    pl.DataFrame({"img": cells, "label": [label % 2 for label in range(60)]}).write_parquet(tmp_path / "c.parquet")
    said = convert(
        tmp_path, "flwr", "cifar10.npz", "c.parquet", *["--client", "label", "--x", "img", "--channels-first"]
    )
    assert "2 clients with 24 to 24 samples, 12 to test on" in said
    for name in ("cifar10.fedsim.yaml", "resnet8.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small = ["population.*.devices=3", "server.cohort=3", "stop.rounds=8", "learning.batch_size=4"]
    small += ["learning.problem.arguments={width: 4}", "learning.evaluate_every=4"]
    scenario = tmp_path / "cifar10.fedsim.yaml"
    result = simulate(Scenario.load(scenario, small, allow_plugins=True))
    assert result.learning is not None
    before = result.learning.filter(optimizer="fedavg", round=-1)["loss"][0]
    # Each region has a label of its own, and those that are awake learn theirs.
    assert min(result.metrics[f"learning.fedavg.loss_of_group_{name}"] for name in ("europe", "india")) < before
    assert "accuracy" in result.learning.columns


def test_a_client_has_its_last_rows_to_test_on(tmp_path: Path) -> None:
    """Labels of text become numbers in their order, and rows of other lengths are told."""
    rows = pl.DataFrame({"who": ["a"] * 5 + ["b"] * 10, "x": [[float(k), 1.0] for k in range(15)], "y": [*"cab" * 5]})
    rows.write_parquet(tmp_path / "rows.parquet")
    convert(tmp_path, "flwr", "out.npz", "rows.parquet", *ROWS)
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["client_train"].tolist() == ["a"] * 4 + ["b"] * 8
        assert arrays["x_test"][:, 0].tolist() == [4, 13, 14]
        assert arrays["y_train"][:3].tolist() == [2, 0, 1]
    rows.with_columns(x=pl.Series([[1.0], *[[1.0, 2.0]] * 14])).write_parquet(tmp_path / "rows.parquet")
    command = [
        sys.executable,
        str(CONVERTER),
        "flwr",
        "out.npz",
        "rows.parquet",
        *["--client", "who", "--x", "x", "--y", "y"],
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert "as many numbers in every sample" in done.stderr
