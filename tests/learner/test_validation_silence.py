"""What a candidate says while it votes stays on the device."""

from __future__ import annotations

import logging
import sys
import warnings

import numpy as np
import pytest

from epsworth.learner import PrivateValidation


def test_nothing_that_a_candidate_says_gets_out(capsys, caplog):
    def talkative(X):
        warnings.warn(f"{X}", stacklevel=1)
        logging.getLogger("candidate").error(X)
        print(X)
        print(X, file=sys.stderr)
        return np.log(X[:, 0]) / 0 * 0 + 1

    def failing(X):
        raise RuntimeError(f"{X}")

    def leaving(X):
        sys.exit(f"{X}")

    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        votes = PrivateValidation([talkative, failing, leaving], epsilon=30).vote(np.zeros((40, 1)), np.ones(40))
    assert votes.shape == (40, 2)
    assert (capsys.readouterr(), caplog.records) == (("", ""), [])
    with pytest.warns(UserWarning, match="again"):
        warnings.warn("again", stacklevel=1)
    logging.getLogger("candidate").error("again")
    assert len(caplog.records) == 1
