"""Secret words of each part of a run, derived from the run's key: drawn again, a part is the same part, to the byte.

A run's key arises in the transaction that charges it (`Ledger.begin`), so whatever was drawn is charged; equal parts
give equal bytes, so k executions of a run show what one shows (Goldreich, Goldwasser & Micali 1986: a pseudorandom
function of the part).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields

import numpy as np

from epsworth.mechanisms.kernels import Kernel
from epsworth.mechanisms.words import KeyedWords
from epsworth.release.policy import Policy

PERSON = b"epsworth-part"
VERSION = 1  # of the way from words to outputs: where that changes no run goes on with what another one began
WIDTH = 32  # bytes of keys and digests


class PartWords:
    """The words of a run's parts.

    Parameters
    ----------
    key : bytes
        The run's.
    identity : str
        What is drawn, as `derivation` says it.
    """

    def __init__(self, key: bytes, identity: str) -> None:
        self._key, self._identity = key, hashlib.blake2b(identity.encode(), digest_size=WIDTH).digest()

    def __call__(self, index: int, digest: bytes) -> KeyedWords:
        """Return the words of part ``index``, whose bytes have this digest: no word may move to another row."""
        part = index.to_bytes(8, "little") + digest + self._identity
        return KeyedWords(hashlib.blake2b(part, key=self._key, digest_size=WIDTH, person=PERSON).digest())


def derivation(policy: Policy, kind: str, unit: str | None = None, most: int | None = None) -> str:
    """Return the text that names everything besides words and input that an output is a function of."""
    content = {
        "version": VERSION,
        "policy": policy.fingerprint,
        "kernels": [_integers(rule.kernel) for rule in policy.rules],
        "format": kind,
    }
    if unit is not None and most is not None:
        content["first rows"] = [unit, most]
    return json.dumps(content, sort_keys=True)


def _integers(kernel: Kernel) -> str:
    """Return a hash of the integers that a kernel draws by."""
    found = hashlib.blake2b(type(kernel).__name__.encode(), digest_size=WIDTH)
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        shown = np.asarray(value).tobytes().hex() if isinstance(value, np.ndarray) else _text(value)
        found.update(f"|{field.name}={shown}".encode())
    return found.hexdigest()


def _text(value: object) -> str:
    return _integers(value) if isinstance(value, Kernel) else repr(value)
