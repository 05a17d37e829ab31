"""Names that readers see: of mechanisms, of noises, of the reports that users send."""

from __future__ import annotations

from epsworth.mechanisms.family import titled

KERNELS = {"laplace": "Laplace", "gaussian": "Gaussian", "staircase": "Staircase", "optimal": "Optimal"}
KINDS = {"pb": "boosted", "truncated": "truncated", "discrete": "discrete", "clamped": "clamped"}
REPORTS = {
    "hadamard": "Hadamard bit",
    "ternary": "Signs of all cells",
    "krr": "Randomised response",
    "oue": "Optimised unary encoding",
    "parity": "Hadamard bit of overlapping cells",
    "slides": "Noisy overlapping cells",
    "cosine": "Cosine bit",
}


def mechanism_name(words: str) -> str:
    """Return a mechanism's title with its words in brackets; one that users bring keeps its own name.

    Examples
    --------
    >>> mechanism_name("pm"), mechanism_name("krr:k=33"), mechanism_name("my noise")
    ('Piecewise (pm)', 'Randomised response (krr:k=33)', 'my noise')
    """
    return _named(titled(words), words)


def noise_name(name: str) -> str:
    """Return a noise's title with its name in brackets.

    Examples
    --------
    >>> noise_name("pb_discrete_laplace"), noise_name("pb_gaussian (published)"), noise_name("x")
    ('Boosted discrete Laplace (pb_discrete_laplace)', 'Boosted Gaussian (pb_gaussian, published)', 'x')
    """
    *kinds, kernel = name.removesuffix(" (published)").split("_")
    if kernel not in KERNELS or not KINDS.keys() >= set(kinds):
        return name
    title = " ".join([*(KINDS[kind] for kind in kinds), KERNELS[kernel]])
    return _named(title[0].upper() + title[1:], name.replace(" (published)", ", published"))


def report_name(name: str) -> str:
    """Return the title of a learner's mechanism with its name in brackets.

    Examples
    --------
    >>> report_name("oue")
    'Optimised unary encoding (oue)'
    """
    return _named(REPORTS.get(name, ""), name)


def _named(title: str, words: str) -> str:
    return f"{title} ({words})" if title else words
