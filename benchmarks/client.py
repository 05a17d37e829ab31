"""The device's door: import in a fresh process, build and record in Python and Node, over bare Python; sizes."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files

import epsworth as ew
from benchmarks.timing import Clock, Row, shown
from epsworth.client import Client

RECORD = {"age": 31, "bmi": 22.5, "t": 0.1, "job": "nurse"}
DOMAIN = ew.Domain.of({"age": (0, 100), "bmi": (10, 60), "t": (-0.1, 0.3), "job": ["clerk", "nurse", "other"]})
IMPORT, NODE, GZIPPED = 3.0, 4.0, 14.0  # of a bare start; of Python, before a compiler is warm; kB
SCRIPT = """
import fs from "node:fs";
const { Client } = await import(process.argv[1]);
const [policy, record, count] = JSON.parse(fs.readFileSync(0, "utf8"));
let start = performance.now();
const client = new Client(policy);
const build = performance.now() - start;
start = performance.now();
for (let i = 0; i < count; i++) client.perturb(record);
console.log(JSON.stringify([build / 1000, (performance.now() - start) / 1000 / count]));
"""


def rows(clock: Clock) -> Iterator[Row]:
    """Yield the import, a client's making, a record of four features, and what a page loads."""
    policy = ew.Policy.of("pm", "0.5", DOMAIN, per="feature")
    text, records = policy.for_clients(), clock.size(5000, 50)
    client = Client(text)
    with tempfile.TemporaryDirectory() as compiled:

        def python(code: str):
            command, environment = [sys.executable, "-c", code], {"PYTHONPYCACHEPREFIX": compiled}
            environment |= {"PYTHONPATH": ":".join(filter(None, sys.path))}
            return lambda: subprocess.run(command, check=True, env=environment)

        found = clock.race(python("import epsworth.client"), python("pass"), runs=11)
        yield Row(
            "import epsworth.client",
            "a bare start",
            found.ratio,
            IMPORT,
            f"{shown(found.ours)} / {shown(found.theirs)}",
        )
    found = clock.race(lambda: Client(text), lambda: json.loads(text), runs=5)
    yield Row(
        "client made of 4 features", "its JSON read", found.ratio, None, f"{shown(found.ours)} / {shown(found.theirs)}"
    )
    found = clock.race(
        lambda: [client.perturb(RECORD) for _ in range(records)], lambda: [dict(RECORD) for _ in range(records)],
        per=(records, records), runs=5,
    )  # fmt: skip
    yield Row("record of 4, Python", "a copied dict", found.ratio, None, f"{shown(found.ours)} / {shown(found.theirs)}")
    ours = found.ours
    if node := shutil.which("node"):
        module = str(files("epsworth.client").joinpath("epsworth.mjs"))
        asked = json.dumps([text, RECORD, records])
        done = subprocess.run(
            [node, "--input-type=module", "-e", SCRIPT, module], input=asked, capture_output=True, text=True, check=True
        )
        build, each = json.loads(done.stdout)
        yield Row(
            "record of 4, Node", "the same in Python", each / ours, NODE, f"{shown(each)}; made in {shown(build)}"
        )
    script = files("epsworth.client").joinpath("epsworth.mjs").read_bytes()
    size = len(gzip.compress(script)) / 1000
    yield Row("epsworth.mjs, gzipped", "a kB", size, GZIPPED, f"{size:.1f} kB, {len(script) / 1000:.1f} kB plain")
