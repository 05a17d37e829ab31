"""Policies: what clients release, with draws that keep the promise exactly.

``policy``       what is perturbed, how, at which exact epsilon: public, readable, fingerprinted
``rules``        a feature with its mechanism and epsilon; ``passed``: columns that leave as they are; ``reading``: the
                 document, checked
``columns``      one column: natural values -> public grid -> exact draw -> natural values
``tables``       `perturb`: tables in memory; ``beside``: an index, notes and metadata that must not travel
``files/``       `perturb_file`, `perturb_files`: read twice, charged between, written whole or not at all
``ledger/``      `Ledger`: what each person lost, and which runs there were; ``folders``: its own place
``audit/``       a policy proven again from its integers; any sampler refuted by its draws
``transformer``  `Perturb`: a step of a scikit-learn pipeline
``client_files`` what devices get; ``analysis``: the law that is released; ``receipt``

A policy is analysed more often than carried out: what reads files, keeps ledgers and audits is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from epsworth.policy.passed import Pass
from epsworth.policy.policy import Policy
from epsworth.policy.rules import Rule, Sampling

if TYPE_CHECKING:
    from epsworth.policy.audit import Audit, SamplerAudit, audit_policy, audit_sampler
    from epsworth.policy.files.many_files import perturb_files
    from epsworth.policy.files.one_file import perturb_file
    from epsworth.policy.ledger import Ledger
    from epsworth.policy.receipt import Receipt
    from epsworth.policy.tables import perturb

_HOMES = {
    "Audit": "audit",
    "Ledger": "ledger",
    "Receipt": "receipt",
    "SamplerAudit": "audit",
    "audit_policy": "audit",
    "audit_sampler": "audit",
    "perturb": "tables",
    "perturb_file": "files.one_file",
    "perturb_files": "files.many_files",
}

__all__ = [
    "Audit",
    "Ledger",
    "Pass",
    "Policy",
    "Receipt",
    "Rule",
    "SamplerAudit",
    "Sampling",
    "audit_policy",
    "audit_sampler",
    "perturb",
    "perturb_file",
    "perturb_files",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'epsworth.policy' has no attribute {name!r}")
    value = getattr(import_module(f"epsworth.policy.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
