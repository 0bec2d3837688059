"""The build backend of `pip install .`: meson-python, with metadata that needs no build (PEP 517).

meson-python has no hook for the metadata of a wheel. pip then builds the whole wheel while it says
"Preparing metadata", and says "Building wheel" for the moment in which nothing is left to do.
"""
import re
import tomllib
from pathlib import Path

import pyproject_metadata
from mesonpy import (build_editable, build_sdist, build_wheel, get_requires_for_build_editable,
                     get_requires_for_build_sdist, get_requires_for_build_wheel)
from packaging.version import Version

__all__ = ["build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
           "get_requires_for_build_sdist", "get_requires_for_build_wheel",
           "prepare_metadata_for_build_wheel"]
ROOT = Path(__file__).resolve().parent.parent


def metadata() -> pyproject_metadata.StandardMetadata:
    """What meson-python writes into the wheel; the version is that of meson.build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    made = pyproject_metadata.StandardMetadata.from_pyproject(project, ROOT)
    version = re.search(r"^ *version: '(.*)',$", (ROOT / "meson.build").read_text(), re.MULTILINE)
    made.version = Version(version[1])
    return made


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    made = metadata()
    name = f"{made.canonical_name.replace('-', '_')}-{made.version}.dist-info"
    folder = Path(metadata_directory, name)
    folder.mkdir()
    (folder / "METADATA").write_bytes(bytes(made.as_rfc822()))
    return name
