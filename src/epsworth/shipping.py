"""How a function travels to other processes: pickled once; those of one machine share its large arrays."""

from __future__ import annotations

import mmap
import pickle
import secrets
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

MAPPED = 1 << 20  # bytes of an array from which processes of one machine share its memory


class Shipped:
    """A function on its way: pickled, or a folder of this machine that holds it and, apart, its large arrays."""

    def __init__(self, token: str, content: bytes | Path) -> None:
        self.token, self.content = token, content

    def function(self) -> Any:
        """Return the function, which a thread unpickles once: threads share nothing that could change."""
        held = getattr(_held, "function", None)
        if held is None or held[0] != self.token:
            _held.function = None  # before there are two of them
            held = _held.function = self.token, self._read()
        return held[1]

    def _read(self) -> Any:
        if isinstance(self.content, bytes):
            return pickle.loads(self.content)
        first, *arrays = sorted(self.content.iterdir())
        return pickle.loads(first.read_bytes(), buffers=map(_mapped, arrays))


_held = threading.local()


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def filed(function: Callable[[Any], Any], folder: Path) -> Shipped:
    """Ship a function to processes of this machine, which share the memory of its large arrays."""
    arrays = count(1)

    def within(buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as content:
            if content.nbytes >= MAPPED:
                (folder / f"{next(arrays):06}").write_bytes(content)
            return content.nbytes < MAPPED

    (folder / "000000").write_bytes(pickled(function, within))
    return Shipped(secrets.token_hex(8), folder)


def pickled(function: Callable[[Any], Any], within: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    """Return a function as bytes; ``within`` tells of each large array whether it is among them."""
    from joblib.externals.loky.cloudpickle_wrapper import dumps  # loky's own, which knows functions without a name

    try:
        content: bytes = dumps(function, protocol=5, buffer_callback=within)
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
        raise ValueError(
            f"this cannot be sent to other processes ({type(error).__name__} while it was pickled: a model with a lock "
            "or a connection?); leave out n_jobs"
        ) from error
    return content
