"""Release: a policy that clients run, with draws that keep the promise exactly.

``policy``       what is perturbed, how, at which exact epsilon: public, readable, fingerprinted
``rules``        what it is made of; ``passed``: columns that it does not perturb; ``reading``: its document, checked
``columns``      one column: natural values -> public grid -> exact draw -> natural values; ``passing``: columns of
             arrays that are not drawn
``tables``       `perturb`: tables in memory
``file_tables``  tables in files, in parts that are read twice; ``csv_table``, ``json_table``,
             ``parquet_table``
``streams``  `perturb_file`: checked, charged, drawn; ``parts``: words of a part; ``outputs``: whole or absent
``many_files``  `perturb_files`: many files as one run; ``maps``: where; ``file_tasks``, ``released_folder``
``ledger``   `Ledger`: what each person lost, and which runs there were; ``dry_runs``: what a run would charge
``transformer``  `Perturb`: a step of a scikit-learn pipeline
``audit``    a policy proved again from its integers
``black_box``    any sampler refuted by its draws; ``replays``: seeds and forks; ``drawn``: its outputs
``locks``, ``folders``, ``receipt``
"""

from epsworth.release.audit import Audit, audit_policy
from epsworth.release.black_box import SamplerAudit, audit_sampler
from epsworth.release.grids import Rule, Sampling
from epsworth.release.ledger import Ledger
from epsworth.release.many_files import perturb_files
from epsworth.release.passed import Pass
from epsworth.release.policy import Policy
from epsworth.release.receipt import Receipt
from epsworth.release.streams import perturb_file
from epsworth.release.tables import perturb

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
