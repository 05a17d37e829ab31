"""The trusted shuffler: full batches of checked reports, in random order, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from epsworth.files import check_writable, replacing
from epsworth.learner.aggregation import Aggregator
from epsworth.learner.assignment import refuse_files
from epsworth.learner.config import Asked
from epsworth.learner.report_files import PACKED, check_sources, report_blocks
from epsworth.mechanisms.words import SystemWords, random_order
from epsworth.numerals import whole


class Batch(NamedTuple):
    """What became of a batch: how many reports arrived, and whether they were forwarded.

    Examples
    --------
    >>> from epsworth.learner import Batch
    >>> Batch(reports=12, forwarded=False).forwarded
    False
    """

    reports: int
    forwarded: bool


def shuffle_files(config: Asked, sources: Sequence[str | Path], destination: str | Path, *, at_least: int) -> Batch:
    """Forward reports as a trusted shuffler does: checked, in an order that tells nothing, in full batches alone.

    Claim: the file written is a uniformly random permutation of the reports, by the operating system's randomness; it
    holds nothing of names, files or arrival, and is written only where ``at_least`` reports arrived.  That no user
    sends two reports is for the shuffler's door to see to.

    Parameters
    ----------
    config : LatticeConfig, Round or ScoreAudit
        What clients and server agree on; clients draw their rows.
    sources : paths
        ``.ldp`` and ``.jsonl`` files of reports.
    destination : path
        ``.ldp``: reports end to end.
    at_least : int
        The number that was planned with; a smaller batch is held back, as its promise would be weaker.

    Returns
    -------
    Batch
        With ``forwarded`` false where nothing was written.

    Raises
    ------
    ValueError
        For damaged or foreign reports, states of aggregators, a file that is named twice, and another ending.

    Notes
    -----
    Reports are held in memory: their bytes, and sixteen more of each.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from epsworth.learner import LatticeConfig, shuffle_files, write_reports
    >>> config = LatticeConfig(box=(0, 1), m=8, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     arrived, batch = Path(folder, "arrived.ldp"), Path(folder, "batch.ldp")
    ...     sent = write_reports(config, [[0.2], [0.9]], [0, 1], arrived)
    ...     shuffle_files(config, [arrived], batch, at_least=2), shuffle_files(config, [arrived], batch, at_least=3)
    (Batch(reports=2, forwarded=True), Batch(reports=2, forwarded=False))
    """
    refuse_files(config)
    least = whole("at_least", at_least, least=2)
    target = check_writable(destination)
    if target.suffix != PACKED:
        raise ValueError(f"{target} has an unknown ending; a batch is written as {PACKED}, reports end to end")
    paths = [Path(source) for source in sources]
    check_sources(paths, target)
    checked, blocks = Aggregator(config), []
    for path in paths:
        for block in report_blocks(config, path):
            try:
                checked.add(block)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
            blocks.append(block if isinstance(block, bytes) else b"".join(block))
    reports = np.frombuffer(b"".join(blocks), dtype=np.uint8).reshape(-1, config.report_size)
    if len(reports) < least:
        return Batch(len(reports), False)
    with replacing(target) as temporary:
        temporary.write_bytes(reports[random_order(SystemWords().words, len(reports))].tobytes())
    return Batch(len(reports), True)
