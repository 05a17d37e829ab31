"""Pictures of the report page for the documents.

    python docs/screenshots.py [folder]

Makes a page about data that ships with scikit-learn, and photographs it with Playwright and the Chromium on the path:
``pip install -e ".[browser]"``.  The site is built from the pictures as stored and needs no browser.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import epsworth as ew

SHOTS = {  # name: (width, height, colours, which part)
    "report": (1180, 860, "light", None),
    "report-dark": (1180, 860, "dark", None),
    "report-phone": (390, 844, "light", None),
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        path = Path(scratch) / "page.html"
        ew.report.report(curves(), at_least=0.8, command="epsworth utility model.skops flowers.csv ...").save(path)
        browser = started.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        for name, (width, height, colours, part) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
            page.goto(path.as_uri())
            (page.locator(part) if part else page).screenshot(path=folder / f"{name}.png")
            page.close()
        browser.close()


def curves() -> ew.Curves:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
    return ew.stability(
        model,
        X[1::2],
        sensitive=[2, 3],
        domain={2: (0, 8), 3: (0, 3)},
        mechanisms=["pm", "sw", "laplace_clipped", "krr:k=33"],
        epsilons=np.arange(1, 8.5, 0.5),
        tolerance=0.03,
        rng=0,
    )


if __name__ == "__main__":
    main()
