"""The papers' data sets: where they come from, and the inputs that are built of them.

None of them is shipped.  Download what `sources` names into one folder, then

    python -m reproduction.data DOWNLOADED FOLDER

builds whatever inputs it can, says which of them hold what ours held, and ``--data FOLDER`` finds them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.files import replacing

Rows = list[list[str]]


@dataclass(frozen=True)
class DataSet:
    """One data set of the papers.

    Attributes
    ----------
    name, where, licence : str
        As its publisher says; licences were taken from secondary statements: look before you hand anything on.
    files : tuple of str
        What is downloaded, any of them as ``.gz``, too.
    builds : dict
        From the name of an input to the SHA-256 of what it holds: the text of a table, the bytes of all arrays.
        Compressed bytes differ from one program to the next, so they are not compared.
    """

    name: str
    where: str
    licence: str
    files: tuple[str, ...]
    builds: dict[str, str]


STROKE = DataSet(
    "Stroke Prediction Dataset", "Kaggle, fedesoriano/stroke-prediction-dataset", "not confirmed; do not redistribute",
    ("healthcare-dataset-stroke-data.csv",),
    {
        "stroke.csv.gz": "74a80e8ed80a03b7eb0976c3954ce3a5edd86d435cfff9b842d7a3a39b91ae93",
        "stroke_paper_inputs.csv.gz": "a69cfb12f8a980e110f20e0acca1130a4922c32505da774b488cf50e0b862d9b",
    },
)  # fmt: skip
BANK = DataSet(
    "Bank Customer Attrition Insights", "Kaggle, by Sagar Maru; save its CSV as bank_customer_attrition.csv",
    "not confirmed; do not redistribute", ("bank_customer_attrition.csv",),
    {
        "bank_attrition.csv.gz": "7028ddaa8323de632ed612baa05fb4e8b250d751b6083be850e6c0010fc86479",
        "bank_paper_inputs.csv.gz": "5984cbb0f178c379438a854ecdfa28e523e5ca4ed3dfecff1d7d5a7b33e5784c",
    },
)  # fmt: skip
MNIST = DataSet(
    "MNIST", "LeCun, Cortes & Burges; OpenML 554 and others hold the same four files", "usually quoted as CC BY-SA 3.0",
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    {
        "mnist_7x7.npz": "3155cd4d89ab0bf17744f68b352eef9dadc62eb60850bb073491259949708e74",
        "mnist_28x28_first200.npz": "c843818885915cf5c3980910adf0890c7a7add146c1f3b6ccd28e1d57fb1b67c",
    },
)  # fmt: skip
RICE = DataSet(
    "Rice (Cammeo and Osmancik)", "UCI, doi 10.24432/C5MW4Z", "CC BY 4.0", ("Rice_Cammeo_Osmancik.arff",),
    {"rice.csv.gz": "307084f7903e863f55737d9878c08cd6b017fceb0699801d1cca05439541c56f"},
)  # fmt: skip
BEAN = DataSet(
    "Dry Bean", "UCI, doi 10.24432/C50S4B", "CC BY 4.0", ("Dry_Bean_Dataset.arff",),
    {"dry_bean.csv.gz": "9237e8cdc066abe380991c7f80c5045c08dac47fe6cd9764374ef5203cbdc552"},
)  # fmt: skip
ADULT = DataSet(
    "Adult", "UCI, doi 10.24432/C5XW20", "CC BY 4.0", ("adult.data", "adult.test"),
    {
        "adult_train.csv.gz": "f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
        "adult_test.csv.gz": "f6b1801c5d231515ea5ff04d4444997bacd57e04876e94710cb9b9bd5549c033",
    },
)  # fmt: skip
CIFAR = DataSet(
    "CIFAR-10, binary version", "Krizhevsky 2009; cs.toronto.edu/~kriz/cifar.html", "none stated",
    (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"), {"cifar10_jpeg_10k.npz": ""},
)  # fmt: skip
SETS = (STROKE, BANK, MNIST, RICE, BEAN, ADULT, CIFAR)
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
STROKE_COLUMNS = ("age", "hypertension", "heart_disease", "ever_married", "avg_glucose_level", "bmi", "stroke")
BANK_SCALES = {
    "CreditScore": 1000, "Age": 100, "Tenure": 10, "Balance": 250000, "NumOfProducts": 4, "IsActiveMember": 1,
    "EstimatedSalary": 200000, "Satisfaction Score": 5, "Point Earned": 1000,
}  # fmt: skip


def sources() -> str:
    """Return where each data set comes from, its licence, what to download, and what is built of it."""
    lines = []
    for one in SETS:
        lines += [f"{one.name}: {one.where}; licence: {one.licence}", f"  download {', '.join(one.files)}"]
        for name, digest in one.builds.items():
            lines.append(f"  builds {name}, SHA-256 of what it holds {digest or 'none: a stand-in of ours'}")
    lines.append("Then: python -m reproduction.data DOWNLOADED FOLDER")
    return "\n".join(lines)


def content(path: Path) -> str:
    """Return the SHA-256 of what an input holds, whatever compressed it."""
    if path.suffix == ".gz":
        return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    with np.load(path) as arrays:
        digest = hashlib.sha256()
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
        return digest.hexdigest()


# tables


def downloaded(folder: Path, name: str) -> bytes:
    """Return a downloaded file, unpacked."""
    path = folder / name
    return path.read_bytes() if path.is_file() else gzip.decompress((folder / f"{name}.gz").read_bytes())


def lines_of(folder: Path, name: str) -> list[str]:
    """Return the lines of a downloaded text that hold anything."""
    text = downloaded(folder, name).decode("utf-8-sig")
    return [line for line in text.splitlines() if line.strip()]


def text_of(rows: Sequence[Sequence[str]]) -> bytes:
    """Return a table as CSV."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue().encode()


def of_csv(folder: Path, name: str) -> Rows:
    """Return the rows of a CSV file, its header first."""
    return list(csv.reader(lines_of(folder, name)))


def of_arff(folder: Path, name: str) -> Rows:
    """Return the rows of an ARFF file, the names of its attributes first."""
    lines = [line.strip() for line in lines_of(folder, name) if not line.startswith("%")]
    names = [line.split()[1].strip("'\"") for line in lines if line.lower().startswith("@attribute")]
    start = next(number for number, line in enumerate(lines) if line.lower().startswith("@data")) + 1
    return [names, *([cell.strip() for cell in line.split(",")] for line in lines[start:])]


def of_adult(folder: Path, name: str) -> Rows:
    """Return the rows of Adult: without the blanks behind commas, and the full stops behind the test labels."""
    lines = [line for line in lines_of(folder, name) if not line.startswith("|")]
    return [list(ADULT_COLUMNS), *([cell.strip() for cell in line.rstrip(".").split(",")] for line in lines)]


def checked(rows: Rows) -> Rows:
    """Refuse a table without rows."""
    if len(rows) < 2:
        raise ValueError("no rows")
    return rows


def stroke_inputs(rows: Rows) -> Rows:
    """Return the inputs of Zheng & Hu 2025: the first 1,000 rows by fixed constants, a missing bmi by their mean."""
    names, first = rows[0], rows[1:1001]
    cells = {name: [row[names.index(name)] for row in first] for name in names}
    mean = float(np.mean([float(bmi) for bmi in cells["bmi"] if bmi != "N/A"])) / 50
    return [
        list(STROKE_COLUMNS),
        *(
            [
                repr(float(age) / 100), high, heart, str(int(married == "Yes")), repr(float(glucose) / 300),
                repr(mean if bmi == "N/A" else float(bmi) / 50), stroke,
            ]
            for age, high, heart, married, glucose, bmi, stroke in zip(
                *(cells[name] for name in STROKE_COLUMNS), strict=True
            )
        ),
    ]  # fmt: skip


def bank_inputs(rows: Rows) -> Rows:
    """Return the inputs of Zheng & Hu 2025: nine columns by fixed constants, the target last."""
    names = rows[0]
    places = [(names.index(name), scale) for name, scale in BANK_SCALES.items()]
    target = names.index("Exited")
    scaled = ([*(repr(float(row[at]) / scale) for at, scale in places), row[target]] for row in rows[1:])
    return [[*BANK_SCALES, "Exited"], *scaled]


# images


def idx(folder: Path, name: str) -> NDArray[np.uint8]:
    """Return an array of bytes in the IDX format."""
    raw = downloaded(folder, name)
    sizes = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)


def pooled(images: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return images of 28 x 28 as the sums of their blocks of 4 x 4: 4080 is white."""
    sums: NDArray[np.uint16] = images.reshape(-1, 7, 4, 7, 4).sum(axis=(2, 4), dtype=np.uint16)
    return sums


def of_cifar(folder: Path, names: Sequence[str], each: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the first images of every class, the classes taking turns."""
    rows = np.concatenate([np.frombuffer(downloaded(folder, name), np.uint8).reshape(-1, 3073) for name in names])
    if np.bincount(rows[:, 0], minlength=10)[:10].min() < each:
        raise ValueError("too few images of a class")
    places = np.stack([np.flatnonzero(rows[:, 0] == label)[:each] for label in range(10)], axis=1).ravel()
    images = rows[places, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[places, 0]


def arrays_of(folder: Path, name: str) -> dict[str, Any]:
    """Return the arrays of an input of images."""
    if name.startswith("cifar10"):
        train, test = of_cifar(folder, CIFAR.files[:-1], 800), of_cifar(folder, CIFAR.files[-1:], 200)
        return {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]}
    train_images, train_labels, test_images, test_labels = (idx(folder, file) for file in MNIST.files)
    if name == "mnist_7x7.npz":
        return {
            "x_train": pooled(train_images), "y_train": train_labels, "x_test": pooled(test_images),
            "y_test": test_labels, "scale": np.array(4080, np.uint16),
        }  # fmt: skip
    return {"x_train": train_images[:200], "y_train": train_labels[:200]}


TABLES: dict[str, Callable[[Path], Rows]] = {
    "stroke.csv.gz": lambda folder: of_csv(folder, STROKE.files[0]),
    "stroke_paper_inputs.csv.gz": lambda folder: stroke_inputs(of_csv(folder, STROKE.files[0])),
    "bank_attrition.csv.gz": lambda folder: of_csv(folder, BANK.files[0]),
    "bank_paper_inputs.csv.gz": lambda folder: bank_inputs(of_csv(folder, BANK.files[0])),
    "rice.csv.gz": lambda folder: of_arff(folder, RICE.files[0]),
    "dry_bean.csv.gz": lambda folder: of_arff(folder, BEAN.files[0]),
    "adult_train.csv.gz": lambda folder: of_adult(folder, ADULT.files[0]),
    "adult_test.csv.gz": lambda folder: of_adult(folder, ADULT.files[1]),
}


def write_input(folder: Path, name: str, path: Path) -> None:
    """Write one input."""
    if name in TABLES:
        path.write_bytes(gzip.compress(text_of(checked(TABLES[name](folder))), mtime=0))
        return
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays_of(folder, name))


def build(folder: Path, destination: Path) -> dict[str, str]:
    """Build what the downloaded files allow; return what became of each input."""
    destination.mkdir(parents=True, exist_ok=True)
    told = {}
    for one in SETS:
        lacking = [file for file in one.files if not any((folder / name).is_file() for name in (file, f"{file}.gz"))]
        for name, digest in one.builds.items():
            if lacking:
                told[name] = f"left out: {', '.join(lacking)} not in {folder}"
                continue
            try:
                with replacing(destination / name) as path:
                    write_input(folder, name, path)
            except (OSError, ValueError, LookupError, EOFError, StopIteration, struct.error, zlib.error):
                told[name] = f"cannot be built: {' or '.join(one.files)} is not what its publisher hands out"
                continue
            same = not digest or content(destination / name) == digest
            told[name] = "built" if same else "built, but it holds something else than ours did"
    return told


def main(words: list[str] | None = None) -> int:
    """Build the inputs; exit status 1 where one of them differs from ours, or cannot be built."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction.data",
        description="Build the papers' inputs.",
        epilog=sources(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("downloaded", type=Path, help="folder of what was downloaded")
    parser.add_argument("folder", type=Path, help="folder for the inputs; made if need be")
    asked = parser.parse_args(words)
    if not asked.downloaded.is_dir():
        parser.error(f"{asked.downloaded} is no folder; name the one with the downloaded files")
    told = build(asked.downloaded, asked.folder)
    for name, what in told.items():
        print(f"{name:28s} {what}")
    return 1 if any("else" in what or "cannot" in what for what in told.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
