"""The device's door in a browser: a page that imports the module, runs its vectors and asks nobody else.

Needs Playwright for Python (``pip install -e ".[browser]"``) and a Chromium on the path.
"""

from __future__ import annotations

import json
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from made_clients import POLICY, SAMPLED
from made_tailored import BY_HAND

from epsworth.policy.client_files import write_client

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install -e .[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on the path")
ALONE = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
RUN = """async () => {
  const { Client } = await import("./epsworth.mjs");
  const client = new Client(await (await fetch("policy.json")).text());
  const { vectors } = await (await fetch("vectors.json")).json();
  return vectors.map(({ record, words }) => {
    try { return { released: { ...client.replay(record, words.map(BigInt)) } }; }
    catch (error) { return { refused: error.message }; }
  });
}"""


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, *words):
        pass


TAILORED = BY_HAND["gain, drawn, a rule"]


@pytest.mark.parametrize("policy", [POLICY, SAMPLED, TAILORED], ids=["plain", "sampled", "tailored"])
def test_a_browser_finds_the_same_vectors(policy, tmp_path):
    write_client(policy, tmp_path / "client", 500)
    (tmp_path / "client" / "index.html").write_text("<!doctype html><title>client</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "client")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with playwright.sync_playwright() as started:
            running = started.chromium.launch(executable_path=CHROMIUM, args=ALONE)
            page, said = running.new_page(), []
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
            found = page.evaluate(RUN)
            running.close()
    finally:
        server.shutdown()
        server.server_close()
    assert said == []
    vectors = json.loads((tmp_path / "client" / "vectors.json").read_text())["vectors"]
    assert len(vectors) == len(found) == 500
    for vector, answer in zip(vectors, found, strict=True):
        if vector.get("refused"):
            assert set(answer) == {"refused"}
        else:
            assert answer == {"released": vector["released"]}
