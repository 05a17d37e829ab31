"""Release: a policy that clients run, with draws that keep the promise exactly.

``policy``       what is perturbed, how, at which exact epsilon: public, readable, fingerprinted
``rules``        what it is made of; ``reading``: its document, checked
``columns``      one column: natural values -> public grid -> exact draw -> natural values
``tables``       `perturb`: tables in memory
``text``         CSV and JSON lines, spliced in place
``streams``      `perturb_file`: files and standard streams, in bounded memory
``many_files``   `perturb_files`: many files as one run; ``maps``: where; ``file_tasks``, ``released_folder``
``transformer``  `Perturb`: a step of a scikit-learn pipeline
``audit``        a policy proved again from its integers
``black_box``    any sampler refuted by its draws; ``replays``: seeds and forks
``outputs``      charged before a draw of it exists, and whole or absent
``ledger``       what left already; ``keyed``: hashes of inputs; ``locks``; ``receipt``
"""

from epsworth.release.audit import Audit, audit_policy
from epsworth.release.black_box import SamplerAudit, audit_sampler
from epsworth.release.many_files import perturb_files
from epsworth.release.policy import Policy
from epsworth.release.receipt import Receipt
from epsworth.release.rules import Rule, Sampling
from epsworth.release.streams import perturb_file
from epsworth.release.tables import perturb

__all__ = [
    "Audit",
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
