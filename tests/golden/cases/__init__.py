"""Golden cases, one module per part of the package."""
