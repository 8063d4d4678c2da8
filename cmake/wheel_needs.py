"""Ends with a sentence if the target `wheel` lacks something that it needs of Python."""
import importlib.metadata
import re
import sys


def version(name):
    """Returns the first two numbers of an installed package's version; (0, 0): it is not installed."""
    try:
        found = re.match(r"(\d+)\.?(\d*)", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return 0, 0
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


missing = [] if version("pip") > (0, 0) else ["pip"]
if version("setuptools") < (61, 0):
    missing.append("setuptools from 61 on")  # older ones do not read [project] of pyproject.toml
if version("setuptools") < (70, 1) and version("wheel") == (0, 0):
    missing.append("wheel")  # later setuptools make wheels by themselves
if missing:
    sys.exit(
        "A wheel needs the Python packages pip, setuptools and wheel (Debian: python3-pip python3-setuptools "
        f"python3-wheel), found no {', no '.join(missing)}"
    )
