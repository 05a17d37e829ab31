"""Examples in modules that need an extra are left out where it is not installed."""

from importlib.util import find_spec

collect_ignore = [
    f"epsworth/gateway/{module}.py"
    for module in ("application", "serving")
    if any(find_spec(package) is None for package in ("starlette", "uvicorn"))
]
