"""Canonical forms: differences between worlds that mean nothing are taken away before noise is measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from epsworth.arrays import Floats, as_floats


def procrustes(A: ArrayLike, B: ArrayLike) -> Floats:
    """Return the orthogonal matrix M that brings ``M @ B`` nearest to ``A`` (Frobenius norm).

    Parameters
    ----------
    A, B : array_like of shape ``(k, d)``
        Two bases, one vector per row.

    Raises
    ------
    ValueError
        For anything but two matrices of one shape.

    Examples
    --------
    >>> from epsworth.pac import procrustes
    >>> procrustes([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([[0., 1.],
           [1., 0.]])

    References
    ----------
    Schoenemann 1966.  Claim 1 of Sridhar, Xiao & Devadas 2024 truncates V_A V_B^T instead, which is in general
    not orthogonal; its polar factor, between the left factors, would be right.
    """
    a, b = as_floats(A), as_floats(B)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"A and B must be two matrices of one shape, got {a.shape} and {b.shape}")
    left, _, right = np.linalg.svd(a @ b.T)
    return np.asarray(left @ right)


def polar(matrix: Floats) -> Floats:
    """Return the nearest matrix with orthonormal rows."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def matching(reference: ArrayLike, rows: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the order that brings ``rows[order]`` nearest to the reference (sum of squared distances)."""
    _, order = linear_sum_assignment(cdist(as_floats(reference), as_floats(rows), "sqeuclidean"))
    return np.asarray(order, dtype=np.intp)
