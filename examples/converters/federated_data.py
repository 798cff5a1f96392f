"""Write data of LEAF or of flwr-datasets as the .npz file of `data: {kind: npz, path: FILE}`, clients included.

    python federated_data.py leaf FOLDER OUT.npz [--shape 28,28]
    python federated_data.py flwr OUT.npz FILE.parquet ... --client writer_id --x image --y character [--test 0.2]

LEAF (https://leaf.cmu.edu): FOLDER has `train/*.json` and `test/*.json`, each with `user_data: {USER: {x, y}}`; x are
lists of numbers or, as in its Shakespeare, other values that are left out with an error.

flwr-datasets: the Parquet files of a dataset (`flwrlabs/femnist`, `uoft-cs/cifar10` partitioned by yourself), or what
`FederatedDataset(...).load_partition(i).to_parquet(...)` writes. Images become numbers from 0 to 1 (needs Pillow);
--test is the share of each client's rows to test on. Labels that are text become numbers in their order.
"""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Rows = tuple[list[Any], list[Any], list[str]]


def leaf(folder: Path) -> Iterator[Rows]:
    """Yield inputs, labels and clients of the samples to train on, then of those to test on."""
    for part in ("train", "test"):
        x, y, clients = list[Any](), list[Any](), list[str]()
        files = sorted((folder / part).glob("*.json"))
        if not files:
            raise SystemExit(f"{folder / part} has no .json file; LEAF's preprocess.sh makes {part}/*.json")
        for file in files:
            for user, own in json.loads(file.read_text(encoding="utf-8"))["user_data"].items():
                x += own["x"]
                y += own["y"]
                clients += [user] * len(own["y"])
        yield x, y, clients


def pixels(cell: Any) -> Any:
    """Return an image as numbers from 0 to 1; other cells as they are."""
    if isinstance(cell, dict) and "bytes" in cell:
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(cell["bytes"]))) / 255.0
    return cell


def flwr(files: list[Path], client: str, x: str, y: str, test: float) -> Iterator[Rows]:
    """Yield the same; the last rows of each client are to test on."""
    rows = pl.concat([pl.read_parquet(file, columns=[*{client, x, y}]) for file in files])
    place, number = pl.int_range(pl.len()).over(client), pl.len().over(client)
    tests = rows.select(place >= number - (number * test).floor()).to_series()
    for part in (rows.filter(~tests), rows.filter(tests)):
        yield [pixels(cell) for cell in part[x].to_list()], part[y].to_list(), part[client].cast(pl.String).to_list()


def main() -> None:
    """Convert."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("leaf")
    one.add_argument("folder", type=Path)
    one.add_argument("out", type=Path)
    other = kinds.add_parser("flwr")
    other.add_argument("out", type=Path)
    other.add_argument("files", type=Path, nargs="+")
    other.add_argument("--client", required=True)
    other.add_argument("--x", default="image")
    other.add_argument("--y", default="label")
    other.add_argument("--test", type=float, default=0.2)
    for each in (one, other):
        each.add_argument("--shape", help="of an input, such as 28,28; by default as it is")
        each.add_argument(
            "--channels-first", action="store_true", help="of images: (3, 32, 32) in place of (32, 32, 3)"
        )
    asked = parser.parse_args()
    train, test = (
        leaf(asked.folder) if asked.kind == "leaf" else flwr(asked.files, asked.client, asked.x, asked.y, asked.test)
    )
    labels = sorted({*train[1], *test[1]}) if isinstance(train[1][0], str) else None
    arrays: dict[str, Any] = {"client_train": np.array(train[2])}
    for part, (x, y, _) in (("train", train), ("test", test)):
        try:
            inputs = np.array(x, dtype=np.float32)
        except ValueError:
            raise SystemExit("inputs must be as many numbers in every sample, or images of one size") from None
        if asked.shape:
            inputs = inputs.reshape(len(inputs), *map(int, asked.shape.split(",")))
        arrays[f"x_{part}"] = np.moveaxis(inputs, -1, 1) if asked.channels_first else inputs
        arrays[f"y_{part}"] = np.array([labels.index(each) for each in y] if labels else y)
    np.savez_compressed(asked.out, **arrays)
    clients, counts = np.unique(arrays["client_train"], return_counts=True)
    print(
        f"{asked.out}: {len(clients)} clients with {counts.min()} to {counts.max()} samples, {len(test[1])} to test on"
    )


if __name__ == "__main__":
    main()
