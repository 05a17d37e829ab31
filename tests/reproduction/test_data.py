"""Inputs of the papers, built from what their publishers hand out."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from reproduction import data


def test_inputs_of_tables_are_the_papers_to_the_byte(paper_data, tmp_path):
    for one, name in ((data.STROKE, "stroke.csv.gz"), (data.BANK, "bank_attrition.csv.gz")):
        (tmp_path / one.files[0]).write_bytes(gzip.decompress((paper_data / name).read_bytes()))
    told = data.build(tmp_path, tmp_path / "inputs")
    built = [name for name, what in told.items() if what == "built"]
    assert built == [*data.STROKE.builds, *data.BANK.builds]
    for name in built:
        assert data.content(tmp_path / "inputs" / name) == data.content(paper_data / name)


def test_all_inputs_hold_what_is_stated(paper_data):
    stated = {name: digest for one in data.SETS for name, digest in one.builds.items() if digest}
    assert len(stated) == 10
    assert {name: data.content(paper_data / name) for name in stated} == stated


def write_idx(path, array):
    path.write_bytes(gzip.compress(struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()))


@pytest.fixture
def downloaded(tmp_path):
    rng = np.random.default_rng(0)
    for file, count in zip(data.MNIST.files, (300, 300, 20, 20), strict=True):
        shape = (count, 28, 28) if "images" in file else (count,)
        write_idx(tmp_path / f"{file}.gz", rng.integers(0, 256, shape, np.uint8))
    for number, file in enumerate(data.CIFAR.files):
        rows = rng.integers(0, 256, (10 * 200, 3073), np.uint8)
        rows[:, 0] = rng.permutation(np.repeat(np.arange(10), 200))
        rows[:, 1] = number
        (tmp_path / file).write_bytes(rows.tobytes())
    (tmp_path / "Rice_Cammeo_Osmancik.arff").write_text(
        "% of rice\n@RELATION Rice\n\n@ATTRIBUTE Area\tINTEGER\n@ATTRIBUTE Class {Cammeo, Osmancik}\n"
        "@DATA\n15231,Cammeo\n"
    )
    (tmp_path / "adult.data").write_text("39, State-gov, 77516, " + ", ".join("abcdefghijk") + ", <=50K\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n25, ?, 1, " + ", ".join("abcdefghijk") + ", >50K.\n\n")
    return tmp_path


def test_every_format_is_read(downloaded, capsys):
    place = downloaded / "inputs"
    assert data.main([str(downloaded), str(place)]) == 1  # these are not the real ones
    assert "rice.csv.gz                  built, but it holds something else than ours did" in capsys.readouterr().out
    assert gzip.decompress((place / "rice.csv.gz").read_bytes()) == b"Area,Class\n15231,Cammeo\n"
    rows = [gzip.decompress((place / f"adult_{part}.csv.gz").read_bytes()).decode() for part in ("train", "test")]
    assert [text.splitlines()[1] for text in rows] == ["39,State-gov,77516,a,b,c,d,e,f,g,h,i,j,k,<=50K",
                                                       "25,?,1,a,b,c,d,e,f,g,h,i,j,k,>50K"]  # fmt: skip
    with np.load(place / "mnist_7x7.npz") as small, np.load(place / "mnist_28x28_first200.npz") as whole:
        blocks = whole["x_train"].astype(int)[:, 4:8, 24:28].sum(axis=(1, 2))
        assert (small["x_train"][:200, 1, 6] == blocks).all()
        assert (small["x_train"].shape, int(small["scale"])) == ((300, 7, 7), 4080)
    with np.load(place / "cifar10_jpeg_10k.npz") as images:
        assert (images["y_train"] == np.tile(np.arange(10), 800)).all()
        assert images["x_test"].shape == (2000, 32, 32, 3)
        assert (images["x_test"][:, 0, 0, 0] == 5).all()


def test_what_is_not_there_is_left_out_and_said(tmp_path):
    told = data.build(tmp_path, tmp_path / "inputs")
    assert all(what.startswith("left out: ") for what in told.values())
    assert list((tmp_path / "inputs").iterdir()) == []
    for one in data.SETS:
        assert one.where in data.sources()
        assert one.licence in data.sources()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00junk\x80", b"a,b\n"])
def test_files_that_are_something_else_are_told_and_build_nothing(downloaded, content):
    for one in (data.STROKE, data.ADULT, data.MNIST, data.CIFAR):
        for file in one.files:
            (downloaded / file).write_bytes(content)
    told = data.build(downloaded, downloaded / "inputs")
    for name in ("stroke_paper_inputs.csv.gz", "mnist_7x7.npz", "cifar10_jpeg_10k.npz"):
        assert told[name].startswith("cannot be built: ")
        assert not (downloaded / "inputs" / name).exists()
    assert told["rice.csv.gz"].startswith("built")
