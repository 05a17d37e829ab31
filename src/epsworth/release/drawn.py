"""What a sampler returned: checked, and read bit by bit or as numbers in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Floats
from epsworth.release.replays import Sampler

NUMBERS = "fiubcmM"  # kinds of types whose values are all of one size


def guarded(sampler: Sampler) -> Sampler:
    """Refuse in one sentence what no audit can use; numbers stay as they are, objects become text."""

    def call(values: NDArray[Any]) -> NDArray[Any]:
        try:
            drawn = np.asarray(sampler(values.copy()))
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            told = repr(error) if isinstance(error, SystemExit) else error
            raise ValueError(f"the sampler failed on {len(values)} values: {told}; repair it") from error
        if drawn.shape != values.shape:
            raise ValueError(
                f"the sampler must return one output per input, shape {values.shape}, got {drawn.shape}; repair it"
            )
        if drawn.dtype.type in (np.longdouble, np.clongdouble) and drawn.dtype.itemsize > np.dtype(float).itemsize:
            raise ValueError("the sampler returns long doubles, whose bytes hold padding; return doubles")
        return drawn.astype(drawn.dtype.newbyteorder("=") if drawn.dtype.kind in NUMBERS else str)

    return call


def stacked(drawn: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack the draws of all inputs; a common type of different ones would round some."""
    types = {str(draws.dtype) for draws in drawn if draws.dtype.kind != "U"}
    if len(types) + any(draws.dtype.kind == "U" for draws in drawn) > 1:
        raise ValueError("the sampler's type of outputs depends on the input and tells of it; return one type")
    return np.stack(drawn)


def words(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return what stands in memory, word by word, where two outputs are equal only if all their bits are."""
    if outputs.dtype.kind not in NUMBERS:
        return outputs
    size = outputs.dtype.itemsize
    return np.ascontiguousarray(outputs).view(f"u{size}" if size <= 8 else f"S{size}")


def doubles(outputs: NDArray[Any]) -> Floats:
    """Return outputs to be ordered: NaN becomes infinity, and large integers are rounded."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(outputs.astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
