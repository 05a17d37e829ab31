"""Random words for release: operating-system entropy, expanded by AES-256 in counter mode where many are needed.

A key lives for one call of ``draw`` and is forgotten: there is nothing to seed, nothing to save, and nothing
that a forked process could share.  The cipher is the `cryptography` library's (OpenSSL), not ours.  Tests replay
`ReplayableWords`: whatever is drawn with them says NOT PRIVATE and must never leave a device.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Indices

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words = NDArray[np.uint64]
KEY, NONCE = 32, 16  # bytes
FEW = 16  # words that cost less from the system than a key does
LONGEST = 1 << 16  # words per request; a key serves far fewer than the 2^64 blocks that would wear it out
_ZEROS = memoryview(bytes(8 * LONGEST))


class WordSource(ABC):
    """Where random words come from; ``private`` tells whether draws made from them may leave a device."""

    private: ClassVar[bool]

    @abstractmethod
    def take(self, count: int) -> Words:
        """Return the next ``count`` words, each uniform on 0..2^64 - 1; at most `LONGEST`."""

    def words(self, count: int) -> Words:
        """Return the next ``count`` words, however many."""
        if count <= LONGEST:
            return self.take(count)
        return np.concatenate([self.take(min(LONGEST, count - start)) for start in range(0, count, LONGEST)])

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled or copied: a key stream used twice reveals what it hid."""
        raise TypeError("a source of random words cannot be pickled or copied; every process draws its own")


class SystemWords(WordSource):
    """Words of the operating system: a few as they come, more by a fresh key of its; unpredictable without it."""

    private = True

    @cached_property
    def _stream(self) -> CipherContext:
        secret = os.urandom(KEY + NONCE)
        return _key_stream(secret[:KEY], secret[KEY:])

    def take(self, count: int) -> Words:
        """Return the system's own words, or the key stream itself: zeros, encrypted."""
        drawn = os.urandom(8 * count) if count <= FEW else self._stream.update(_ZEROS[: 8 * count])
        return np.frombuffer(drawn, dtype=np.uint64)


class KeyedWords(WordSource):
    """The words of one secret key, from the first: a run that was stopped draws them again, and shows nothing new.

    Claim: as unpredictable as the key, which serves one part of one run and is known to its ledger alone.

    Parameters
    ----------
    key : bytes
        32 secret bytes.
    """

    private = True

    def __init__(self, key: bytes) -> None:
        self._stream = _key_stream(key, bytes(NONCE))

    def take(self, count: int) -> Words:
        """Return the key stream itself; little-endian, so that every machine draws the same."""
        return np.frombuffer(self._stream.update(_ZEROS[: 8 * count]), dtype="<u8").astype(np.uint64, copy=False)


def _key_stream(key: bytes, nonce: bytes) -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # 20 ms, on first use

    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()


class NotPrivate(np.ndarray[Any, np.dtype[Any]]):
    """An array made from replayable words; arithmetic on it keeps the mark.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> from epsworth.mechanisms.words import NotPrivate, ReplayableWords
    >>> drawn = kernel("krr", 1, k=4).draw([0, 1, 2], words=ReplayableWords(7))
    >>> isinstance(drawn + 1, NotPrivate), str(drawn).startswith("NOT PRIVATE")
    (True, True)
    """

    def __repr__(self) -> str:
        """Return the values behind a warning."""
        return f"NOT PRIVATE, replayable: {np.asarray(self)!r}"

    __str__ = __repr__


class ReplayableWords(WordSource):
    """Words that anyone can produce again from a number.

    Examples
    --------
    >>> from epsworth.mechanisms import kernel
    >>> from epsworth.mechanisms.words import ReplayableWords
    >>> kernel("krr", 1, k=4).draw([0, 1, 2], words=ReplayableWords(7))
    NOT PRIVATE, replayable: array([2, 2, 2])
    """

    private = False

    def __init__(self, number: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(number))

    def take(self, count: int) -> Words:
        """Return the next words of a Philox generator."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)


def random_order(words: Callable[[int], Words], count: int) -> Indices:
    """Return a uniformly random permutation of 0..count-1: the order of words, all drawn again where two are alike.

    Examples
    --------
    >>> sorted(random_order(SystemWords().words, 5).tolist())
    [0, 1, 2, 3, 4]
    """
    while True:
        drawn = words(count)
        order = np.argsort(drawn, kind="stable")
        ranked = drawn[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order
