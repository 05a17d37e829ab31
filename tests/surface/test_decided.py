"""When `recommend` has seen enough: the average is on one side of the wish everywhere, or as narrow as was asked."""

from __future__ import annotations

import numpy as np
import pytest

from epsworth.bounds import Interval
from epsworth.cli.asking import PATIENCE, deadline, decided
from epsworth.cli.running import Run
from epsworth.utility.deadline import RunState


def standing(lower, upper, seconds=1.5 * PATIENCE, done=0.1):
    bounds = Interval(np.array([lower]), np.array([upper]))
    return RunState(done, seconds, ("pm",), np.arange(1.0, 1 + len(lower)), lambda: bounds)


@pytest.mark.parametrize(
    ("lower", "upper", "enough"),
    [
        ([0.5, 0.91], [0.55, 0.95], True),  # below and above, narrow enough to be told
        ([0.5, 0.89], [0.55, 0.905], True),  # undecided, but as narrow as it gets
        ([0.5, 0.85], [0.55, 0.905], False),
        ([0.1, 0.91], [0.55, 0.95], False),  # decided, but too wide to be told
    ],
)
def test_a_run_ends_where_every_average_is_clear(lower, upper, enough):
    assert decided(0.9, 0.01)(standing(lower, upper)) is enough


def test_what_is_exact_within_seconds_is_waited_for():
    clear = ([0.5], [0.51])
    assert not decided(0.9, 0.01)(standing(*clear, seconds=0.9 * PATIENCE))
    assert not decided(0.9, 0.01)(standing(*clear, done=0.8))  # four tenths of the patience are left
    assert decided(0.9, 0.01)(standing(*clear, done=0.4))
    assert decided(0.9, 0.01)(standing(*clear, seconds=2 * PATIENCE, done=0.9))


def test_a_minute_is_the_most_unless_it_is_said_otherwise():
    assert deadline({"within_seconds": None}) == 60
    assert deadline({"within_seconds": None, "parts": "folder"}) is None
    assert deadline({"within_seconds": float("inf")}) is None
    assert deadline({"within_seconds": 5.0}) == 5
    with pytest.raises(ValueError, match="positive and finite"):
        deadline({"within_seconds": 0.0})


@pytest.mark.parametrize(
    ("seconds", "done", "within", "said"),
    [
        (2.5, 0.52, 60.0, None),  # five seconds are not worth a word
        (1.5, 0.04, 60.0, None),  # too early to know
        (3.0, 0.08, 60.0, "this takes about 49 s at its pace (60 s at most)"),
        (2.5, 0.034, None, "this takes about 9 min at its pace\n"),
        (
            3.5,
            0.04,
            60.0,
            "about 5 min at its pace, and ends after 60 s with what is proven by then; more:",
        ),
        (2.5, 0.03, 60.0, None),  # nothing is done since
        (30.0, 0.52, 60.0, "this takes about 59 s at its pace (60 s at most)"),
    ],
)
def test_the_time_is_foretold_once_where_it_is_long(capsys, seconds, done, within, said):
    """The pace is that of the work: reading the model, and workers that start, are no part of it."""
    run = Run(lambda what, share: None, "asking", lambda standing: "bounds", within)
    for moment in ((0.2, 0.02), (0.4, 0.02), (0.5, 0.03), (seconds, done), (seconds, done)):
        run.watch(standing([0.5], [0.6], *moment))
    told = capsys.readouterr().err
    assert told.count("this takes") == (said is not None)
    assert (said or "") in told
