"""The device's door: one record at a time, by the standard library alone; `epsworth.mjs` beside it says the same.

``door``     `Client`: a record in, a record out
``reading``  the policy's JSON, strictly read
``kernels``  integers recomputed from epsilon, and proven
"""

from epsworth.client.door import Client, NotPrivate

__all__ = ["Client", "NotPrivate"]
