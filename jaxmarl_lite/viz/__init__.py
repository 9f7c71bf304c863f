"""Pictures of states (`draw`), animations (`animate`) and learning curves (`curves`).

The modules are imported one by one, where they are needed: training loads neither Pillow nor matplotlib.
"""

import os
from collections.abc import Callable
from pathlib import Path


def write_picture(path: str | os.PathLike, suffix: str, save: Callable[[Path], None], overwrite: bool) -> Path:
    """Write a file so that it appears under its name only once it is complete. Makes missing folders.

    Args:
        path: where to.
        suffix: what the name must end with, such as ".gif".
        save: writes the file to the path that it is given.
        overwrite: whether a file that exists may be replaced.

    Returns:
        The path written.

    Raises:
        ValueError: for another suffix.
        FileExistsError: if the file exists and may not be replaced.
        OSError: if the file cannot be written there.
    """
    path = Path(path)
    if path.suffix.lower() != suffix:
        raise ValueError(f"path must end in {suffix}, got {str(path)!r}.")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already: remove it or choose another name.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        # Not there after a success; where it could not be made, it cannot be removed either.
        if temporary.is_file():
            temporary.unlink()
    return path
