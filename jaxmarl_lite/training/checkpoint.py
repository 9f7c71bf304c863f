"""Parameters on disk, as safetensors."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict


def save_params(path: Path, params: Any, metadata: dict[str, str]) -> None:
    """Write a nested dict of arrays, names joined by "/". FileExistsError rather than overwrite a file."""
    from safetensors.numpy import save_file

    if path.exists():
        raise FileExistsError(f"{path} exists and is not overwritten.")
    arrays = {name: np.ascontiguousarray(x) for name, x in flatten_dict(params, sep="/").items()}
    aside = path.with_name(path.name + ".part")
    # safetensors writes its entries in a random order: a single one keeps equal runs equal byte for byte.
    save_file(arrays, aside, {"jaxmarl_lite": json.dumps(metadata, sort_keys=True)})
    os.replace(aside, path)


def load_params(path: Path) -> tuple[Any, dict[str, str]]:
    """Read what `save_params` wrote: the nested dict of NumPy arrays and the metadata.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
            metadata = json.loads((file.metadata() or {}).get("jaxmarl_lite", "{}"))
            return unflatten_dict(arrays, sep="/"), metadata
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}.") from error
