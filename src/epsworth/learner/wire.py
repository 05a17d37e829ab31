"""Reports as bytes, and how bytes that no client sends are refused.

A report is the version of the format, a byte; the first 8 bytes of the configuration's fingerprint; the message in its
wire format; and zlib's CRC-32 of all that, 4 bytes, the lowest first.  CRC-32 sees every change within 32 successive
bits, every two changed bits, and every swap of two different bytes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from epsworth.arrays import Bools
from epsworth.learner.coins import Ints

if TYPE_CHECKING:
    from epsworth.learner.config import ClientConfig

Bytes = NDArray[np.uint8]
VERSION = 2  # of the format of reports; another number for whatever is changed in it
SHORT, MANY = 64, 64  # bytes of rows, and how many rows, whose checks are looked up rather than asked of zlib
HEAD, CHECK = 9, 4  # bytes before a message, of version and fingerprint, and behind it


@dataclass(frozen=True)
class Number:
    """One whole number, of an entry of a table of this shape, sent as its least number of little-endian bytes."""

    shape: tuple[int, ...]
    entries: ClassVar[int] = 1  # numbers that a message holds

    @property
    def below(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of the largest number."""
        return max(1, -(-(self.below - 1).bit_length() // 8))

    def encode(self, messages: Ints) -> Bytes:
        """Return little-endian bytes."""
        wide = messages.astype("<u8").view(np.uint8).reshape(-1, 8)
        return np.ascontiguousarray(wide[:, : self.size])

    def decode(self, blocks: Bytes) -> Ints:
        """Return the numbers; refuse what lies beyond the last one."""
        wide = np.zeros((len(blocks), 8), dtype=np.uint8)
        wide[:, : self.size] = blocks
        found = wide.view("<u8").ravel().astype(np.int64)
        refuse_if(found >= self.below)
        return found

    def counts(self, messages: Ints) -> Ints:
        """Return how many messages there are of every number, as the table."""
        return np.bincount(messages, minlength=self.below).astype(np.int64).reshape(self.shape)


@dataclass(frozen=True)
class Packed:
    """Rows of bytes: so many entries of 1 or 2 bits, zeros behind the last one; no entry has both of two bits."""

    entries: int
    bits: int
    order: Literal["little", "big"]  # of the bits in a byte

    @property
    def size(self) -> int:
        """Bytes that hold all entries."""
        return -(-self.entries * self.bits // 8)

    def encode(self, messages: Ints) -> Bytes:
        """Return the bytes."""
        return messages.astype(np.uint8)

    def decode(self, blocks: Bytes) -> Ints:
        """Return the bytes; refuse a 3, which nobody sends, and anything behind the last entry."""
        if self.bits == 2 and (both := blocks & blocks >> 1 & 0x55).any():
            refuse_if(np.asarray(both.any(axis=1)))
        spare = 8 * self.size - self.bits * self.entries
        refuse_if((blocks[:, -1] & np.packbits(np.arange(8) >= 8 - spare, bitorder=self.order)) != 0)
        return np.asarray(blocks)

    def unpacked(self, messages: Ints) -> Bytes:
        """Return the bits of all messages ``(n, entries * bits)``."""
        drawn = np.unpackbits(messages.astype(np.uint8, copy=False), axis=1, bitorder=self.order)
        return drawn[:, : self.entries * self.bits]


Format = Number | Packed


def column_sums(bits: Bytes) -> Ints:
    """Return how many rows set each bit: 255 bits fit into a byte, and bytes are quickly added."""
    whole = len(bits) - len(bits) % 255
    runs = bits[:whole].reshape(-1, 255, bits.shape[1]).sum(axis=1, dtype=np.uint8)
    return np.asarray(runs.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.uint8))


def refuse_if(bad: Bools) -> None:
    """Refuse reports that say what no client says."""
    if bad.any():
        raise ValueError(
            f"report {int(np.argmax(bad))}: its bytes are not a message of this mechanism; "
            "it was damaged or made by something else: drop it"
        )


def pack(config: ClientConfig, messages: Bytes) -> bytes:
    """Put version and fingerprint before each message and a check behind it."""
    n = len(messages)
    found = np.empty((n, config.report_size), dtype=np.uint8)
    found[:, :HEAD] = _head(config.fingerprint())
    found[:, HEAD:-CHECK] = messages
    found[:, -CHECK:] = check(found[:, :-CHECK]).view(np.uint8).reshape(n, CHECK)
    return found.tobytes()


def joined(config: ClientConfig, reports: Iterable[bytes]) -> bytes:
    """Return reports end to end; refuse one of another length."""
    parts = list(reports)
    for number, report in enumerate(parts):
        if len(report) != config.report_size:
            raise ValueError(
                f"report {number} has {len(report)} bytes, but one of this configuration has {config.report_size}; "
                "it was cut or is foreign"
            )
    return b"".join(parts)


def unpack(config: ClientConfig, data: bytes | bytearray | memoryview) -> Bytes:
    """Return the messages of reports that lie end to end; refuse the first that is not one of this configuration."""
    size, fingerprint = config.report_size, config.fingerprint()
    if len(data) == 0 or len(data) % size:
        raise ValueError(
            f"got {len(data)} bytes, but a report of this configuration has {size} in version {VERSION} of the format; "
            "one was cut or is foreign"
        )
    found = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    if (other := found[:, 0] != VERSION).any():
        raise ValueError(
            f"report {int(np.argmax(other))}: it is not in version {VERSION} of the format: it was made by another "
            "version of epsworth, or damaged; drop it"
        )
    foreign = np.ascontiguousarray(found[:, 1:HEAD]).view("<u8").ravel() != _head(fingerprint)[1:].view("<u8")
    if foreign.any():
        raise ValueError(
            f"report {int(np.argmax(foreign))}: its fingerprint is not {fingerprint[:16]}: it was "
            "made for another configuration, or damaged; aggregate it apart"
        )
    damaged = check(found[:, :-CHECK]) != np.ascontiguousarray(found[:, -CHECK:]).view("<u4").ravel()
    if damaged.any():
        raise ValueError(f"report {int(np.argmax(damaged))}: it was damaged on its way (its check fails); drop it")
    return found[:, HEAD:-CHECK]


def check(rows: Bytes) -> NDArray[np.uint32]:
    """Return the CRC-32 of every row, lowest byte first; of many short ones by tables, as fast as they can be read."""
    size = rows.shape[1]
    if size > SHORT or len(rows) < MANY:
        return np.fromiter(map(zlib.crc32, rows), dtype="<u4", count=len(rows))
    found = np.full(len(rows), zlib.crc32(bytes(size)), dtype="<u4")
    for changes, column in zip(_changes(size), rows.T, strict=True):
        found ^= changes[column]
    return found


@cache
def _changes(size: int) -> NDArray[np.uint32]:
    """Return what every value of every byte changes in a row's CRC-32, whatever the other bytes are ``(size, 256)``."""
    zeros, found = zlib.crc32(bytes(size)), np.empty((size, 256), dtype="<u4")
    for place, value in product(range(size), range(256)):
        row = bytes(place) + bytes([value]) + bytes(size - place - 1)
        found[place, value] = zlib.crc32(row) ^ zeros
    return found


@cache
def _head(fingerprint: str) -> Bytes:
    return np.frombuffer(bytes([VERSION]) + bytes.fromhex(fingerprint[:16]), dtype=np.uint8)
