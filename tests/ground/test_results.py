"""What every result does: HTML that is escaped, JSON that every reader takes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from epsworth.results import Result, Table


@dataclass(frozen=True)
class Answer(Result):
    name: str
    values: np.ndarray
    most: float = math.inf
    inner: Answer | None = None

    def __str__(self):
        return f"{self.name} < {self.most}"

    def shown(self):
        return [str(self), Table("a & b", ("x", "y"), [("<1>", "2")])]


def test_a_result_is_written_whole_with_null_for_what_json_lacks(tmp_path):
    answer = Answer("a", np.array([0.1, np.nan]), inner=Answer("b", np.arange(2)))
    answer.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "name": "a",
        "values": [0.1, None],
        "most": None,
        "inner": {"name": "b", "values": [0, 1], "most": None, "inner": None},
    }


def test_a_notebook_shows_tables_and_escapes_every_text():
    shown = Answer("<b>", np.zeros(1))._repr_html_()
    assert shown.endswith("</table>")
    assert ">&lt;b&gt; &lt; inf</pre><table><caption>a &amp; b</caption><tr><th>x</th><th>y</th>" in shown
    assert "<td>&lt;1&gt;</td><td>2</td>" in shown
