"""The clients find the same regions and scores, to the last digit: JavaScript, and Python without NumPy."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from random_copies import INPUTS, random_copies, random_places, read

import epsworth
from epsworth.client.copies import read_copy
from epsworth.tailored.surrogates import IntegerReLU, Joint, Trees

READER = Path(__file__).with_name("copies.mjs")
MODULE = Path(epsworth.__file__).with_name("client") / "epsworth.mjs"
RECORDS = 10_000


def found_scores(copy, places):
    """Return the scores of plain copies, and all parts' of joint ones; the readers' distances stand for themselves."""
    if isinstance(copy, (IntegerReLU, Trees)):
        return copy.scores(places).astype(np.int64)
    if isinstance(copy, Joint):
        return np.concatenate([found_scores(part, places) for part in copy.parts], axis=1)
    return None


@pytest.mark.slow
def test_javascript_finds_the_same_regions_and_scores():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH: it runs the client in JavaScript")
    copies, places = random_copies(1), random_places(np.random.default_rng(2), RECORDS)
    tables, records = [copy.to_dict() for copy in copies], places.tolist()
    inputs = [{"places": one.places, "ordered": one.ordered} for one in INPUTS]
    told = {"inputs": inputs, "copies": tables, "regions": [copy.regions for copy in copies], "records": records}
    done = subprocess.run([node, READER, MODULE], input=json.dumps(told), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for copy, table, found in zip(copies, tables, json.loads(done.stdout), strict=True):
        regions = copy(places)
        assert len(np.unique(regions)) >= 2, copy.kind
        np.testing.assert_array_equal([region for region, _ in found], regions, err_msg=copy.kind)
        if (scores := found_scores(copy, places)) is not None:
            np.testing.assert_array_equal([own for _, own in found], scores, err_msg=copy.kind)
        assert [tuple(own) for own in found[:50]] == [read(table, INPUTS, row) for row in records[:50]]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.cases(1)
def test_the_client_and_integers_without_bounds_find_the_same_regions_and_scores(number):
    copy = random_copies(3)[number]
    places = random_places(np.random.default_rng(4), 150)
    table = json.loads(json.dumps(copy.to_dict()))
    found = [read(table, INPUTS, row) for row in places.tolist()]
    assert [region for region, _ in found] == copy(places).tolist()
    client = read_copy("copy", table, [(one.places, one.ordered) for one in INPUTS], copy.regions)
    assert [(client.region(row), client.scores(row)) for row in places.tolist()] == found
    if (scores := found_scores(copy, places)) is not None:
        assert [own for _, own in found] == scores.tolist()
