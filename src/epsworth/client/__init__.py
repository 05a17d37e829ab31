"""The device's door: one record at a time, by the standard library alone; `epsworth.mjs` beside it says the same.

``door``      `Client`: a record in, a record out
``tailored``  policies that send what stands for a region of a classifier's map
``copies``    which region that is, by whole numbers
``kernels``   the integers of two levels, defined here for the library too, and proven
``grids``     values to places, and back
``reading``   the policy's JSON, strictly read
"""

from epsworth.client.door import Client, NotPrivate

__all__ = ["Client", "NotPrivate"]
