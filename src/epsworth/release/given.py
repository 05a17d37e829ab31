"""A policy as an argument: itself, or the path of its file."""

from __future__ import annotations

from pathlib import Path

from epsworth.release.policy import Policy

Given = Policy | str | Path


def as_policy(policy: Given, table: object = None) -> Policy:
    """Return a policy, read where a path is given.

    Parameters
    ----------
    policy : Policy or path
    table : object, optional
        What is given beside it, which is no policy unless the two were exchanged.

    Raises
    ------
    TypeError
        If it is neither, or the table is a policy.

    Examples
    --------
    >>> from epsworth import Policy
    >>> as_policy([[0.2, 0.7]], Policy.of("pm", 1, {"age": (0, 100)}))
    Traceback (most recent call last):
    TypeError: policy: the table was given in its place; give the policy first, then the table
    """
    if _names_policy(table) and not _names_policy(policy):
        raise TypeError("policy: the table was given in its place; give the policy first, then the table")
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, (str, Path)):
        raise TypeError(f"policy must be a Policy or the path of its file, got {type(policy).__name__}; give one")
    return Policy.load(policy)


def _names_policy(value: object) -> bool:
    """Tell whether a value is a policy, or a path that can be nothing else."""
    return isinstance(value, Policy) or (isinstance(value, (str, Path)) and Path(value).suffix.lower() == ".toml")
