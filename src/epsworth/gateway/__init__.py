"""A gateway: what a data holder runs on its own side, so that only perturbed records reach a model elsewhere.

``settings``     what is public, who is who, how much is too much
``refusals``     what does not pass, in one sentence that names the field and never a value
``strict_json``  bodies that every reader reads alike
``tensors``      Open Inference Protocol v2; ``objects``: records as JSON objects; ``asked``: what both become
``people``       the ledger: charged on the disk before a draw leaves
``draws``        the policy's kernels, for all requests that wait together
``upstream``     the same bytes, sent again where sending failed
``counts``       metrics that workers share; ``logs``: lines without values
``application``  the ASGI service; ``serving``: sockets, workers, signals
"""

from epsworth.gateway.settings import Settings

__all__ = ["Settings"]
