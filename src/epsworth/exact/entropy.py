"""Random words for release: operating-system entropy, expanded by AES-256 in counter mode.

A key lives for one call of ``draw`` and is forgotten: there is nothing to seed, nothing to save, and nothing
that a forked process could share.  The cipher is the `cryptography` library's (OpenSSL), not ours.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import ClassVar, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
KEY, NONCE = 32, 16  # bytes
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
    """Words of a fresh key from the operating system; unpredictable without it."""

    private = True

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # 20 ms, on first use

        secret = os.urandom(KEY + NONCE)
        self._stream = Cipher(algorithms.AES(secret[:KEY]), modes.CTR(secret[KEY:])).encryptor()

    def take(self, count: int) -> Words:
        """Return the key stream itself: zeros, encrypted."""
        return np.frombuffer(self._stream.update(_ZEROS[: 8 * count]), dtype=np.uint64)
