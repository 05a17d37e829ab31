"""What other libraries say of a table may quote its values: it is kept back, and told by its kind alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from epsworth.refusals import alone, raised_in

FOREIGN = "could not convert"  # NumPy's words, raised under a frame of ours, which go on with the value


@contextmanager
def values_withheld(what: str) -> Iterator[None]:
    """Let our own sentences and the system's errors pass; say of any other accident what kind it was.

    Parameters
    ----------
    what : str
        The sentence's subject, such as "the column age".

    Examples
    --------
    >>> with values_withheld("the column age"):
    ...     {}["77.4242"]
    Traceback (most recent call last):
    ValueError: the column age cannot be read by the libraries at hand (KeyError); give plain numbers or texts
    """
    with alone():
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit, OSError):
            raise
        except BaseException as error:  # a panic of compiled code is no Exception
            if is_ours(error):
                raise
            kind = type(error).__name__
        else:
            return
        raise ValueError(f"{what} cannot be read by the libraries at hand ({kind}); give plain numbers or texts")


def is_ours(error: BaseException) -> bool:
    """Tell a sentence of ours, which holds no value, from another library's words."""
    if not isinstance(error, (ValueError, TypeError)) or str(error).startswith(FOREIGN):
        return False
    return raised_in(error).startswith("epsworth.")
