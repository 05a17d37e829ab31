"""The device's folder as a package of Node: what it exports, its types, and the codes of its refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.metadata import version

import pytest

import epsworth as ew
from epsworth.policy.client_files import client_files, write_client

NODE = shutil.which("node")
AGES = ew.Domain.of({"age": (0, 100), "job": ["clerk", "nurse"]})
POLICY = ew.Policy.of("pm", 1, AGES, passing=["id"])
SCRIPT = """
import fs from "node:fs";
import { Client, Refusal } from "epsworth-client";
const policy = fs.readFileSync("policy.json", "utf8"), client = new Client(policy);
const code = (what) => {
  try { what(); return "none"; }
  catch (error) { return error instanceof Refusal && error.message ? error.code : "no Refusal"; }
};
const good = { age: 31, job: "nurse", id: 7 };
console.log(JSON.stringify({
  good: code(() => client.perturb(good)),
  policy: code(() => new Client(policy.replace("age", "agf"))),
  cut: code(() => new Client(policy.slice(0, 80))),
  record: code(() => client.perturb([31])),
  unknown: code(() => client.perturb({ ...good, Age: 31 })),
  lacking: code(() => client.perturb({ job: "nurse" })),
  missing: code(() => client.perturb({ ...good, age: NaN })),
  undeclared: code(() => client.perturb({ ...good, job: "cook" })),
  text: code(() => client.perturb({ ...good, age: "31" })),
  nested: code(() => client.perturb({ ...good, id: [7] })),
  words: code(() => client.replay(good, [1n])),
}));
"""


def codes(types: str) -> set[str]:
    """Return the codes that the types declare."""
    declared = re.search(r"type Code =([^;]*);", types)
    assert declared is not None
    return set(re.findall(r'"(\w+)"', declared[1]))


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH: it runs the client in JavaScript")
def test_the_folder_is_a_package_whose_refusals_have_codes(tmp_path):
    write_client(POLICY, tmp_path / "device", 5)
    (tmp_path / "device" / "ask.mjs").write_text(SCRIPT)
    done = subprocess.run([NODE, "ask.mjs"], cwd=tmp_path / "device", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kinds = {"good": "none", "cut": "policy", "text": "value", "nested": "value"}
    assert found == {name: kinds.get(name, name) for name in found}
    assert set(found.values()) - {"none"} == codes((tmp_path / "device" / "epsworth.d.mts").read_text())


def test_types_and_package_agree_with_the_module():
    texts = client_files(POLICY, 5)
    module, types = texts["epsworth.mjs"], texts["epsworth.d.mts"]
    exported = set(re.findall(r"^export (?:class|function) (\w+)", module, re.MULTILINE))
    assert exported - set(re.findall(r"^export (?:class|function) (\w+)", types, re.MULTILINE)) == {
        "readCopy"
    }  # of tests
    given = set(re.findall(r'", "(\w+)"\)|`, "(\w+)"\)', module))
    assert {one for pair in given for one in pair if one} <= codes(types)
    package = json.loads(texts["package.json"])
    assert (package["version"], package["private"]) == (version("epsworth"), True)
    files = [package["types"], *(one for kind in package["exports"].values() for one in _paths(kind))]
    assert {path.removeprefix("./") for path in files} <= set(texts)


def _paths(kind: str | dict[str, str]) -> list[str]:
    return [kind] if isinstance(kind, str) else list(kind.values())
