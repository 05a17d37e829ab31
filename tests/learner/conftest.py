"""The published mechanism is one of those that are tested."""

import reproduction.published_lattice  # noqa: F401
