"""What a result was made with: versions, hardware, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("diffmask", "torch", "accelerate", "safetensors", "numpy", "transformers")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a number."""
    found = {name: version for name in PACKAGES if (version := _version(name)) is not None}
    return {"python": platform.python_version(), **found}


@cache  # every explanation carries them, and the disk is slow
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def hardware() -> dict[str, Any]:
    """Return what the run had to run on."""
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def commit() -> str | None:
    """Return the commit of a development checkout, marked when there are changes on top of it.

    Where a copy without history runs, such as on a lent machine, DIFFMASK_COMMIT says what it was copied from.
    """
    if given := os.environ.get("DIFFMASK_COMMIT"):
        return given
    here = Path(__file__).parent
    try:
        sha = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True).stdout
        dirty = subprocess.run(
            ["git", "status", "--porcelain", "--", "."], cwd=here, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return sha.strip()[:12] + ("+changes" if dirty.strip() else "")
