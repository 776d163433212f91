"""The machine this process runs on: memory, cores, devices, and how TensorFlow uses them.

Where a GPU was expected, it says what keeps TensorFlow from it.

TensorFlow is imported by the functions that need it, so that counting cores costs nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

# What a CUDA build of TensorFlow loads as it starts; the `cuda` extra installs all but the driver.
DRIVER = "libcuda.so.1"
LIBRARIES = (
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcudnn.so.9",
    "libcupti.so.12",
    "libnccl.so.2",
)


def memory() -> int:
    """The bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores(threads: int) -> int:
    """How many cores to use: those asked for, or (0) those this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return threads or len(os.sched_getaffinity(0))
    return threads or os.cpu_count() or 1


def configure(threads: int) -> None:
    """Has TensorFlow use threads across operations, not inside them.

    These networks are too small to split one product over cores.

    Where the caller has used TensorFlow before, its threads and memory are set up already and stay
    as they are.
    """
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):
        if tf.config.threading.get_inter_op_parallelism_threads() == 0:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(cores(threads))
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)


def device_line(threads: int) -> str:
    """One line for the user.

    The GPU by name, or the CPU and, if a GPU was expected, what is missing.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        return "device: GPU " + ", ".join(
            tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
            for gpu in gpus
        )
    count = cores(threads)
    line = f"device: CPU, {count} core{'s' if count > 1 else ''}"
    sign = expects_gpu(os.environ)
    return f"{line}; {sign}, but {missing(tf.test.is_built_with_cuda())}" if sign else line


def expects_gpu(environment: Mapping[str, str], devices: Path = Path("/dev")) -> str:
    """What says that there should be a GPU, in words; empty where nothing does."""
    if any(devices.glob("nvidia[0-9]*")):
        return f"{devices}/nvidia* is there"
    visible = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    # Not that anybody asked for a GPU: NVIDIA's base images set it themselves.
    return f"NVIDIA_VISIBLE_DEVICES={visible} is set" if visible not in ("", "void", "none") else ""


def missing(built_with_cuda: bool, loads: Callable[[str], bool] | None = None) -> str:
    """What a GPU would need that is not there: the wheel, the driver, or libraries."""
    loads = loads or can_load
    if not built_with_cuda:
        return (
            "this TensorFlow was built without CUDA: install tensorflow[and-cuda], as"
            " virel-tf[cuda] does"
        )
    if not loads(DRIVER):
        return (
            f"the NVIDIA driver is missing ({DRIVER}): start the container with --gpus=all, on a"
            " host that has the driver and the NVIDIA container toolkit"
        )
    absent = missing_libraries(loads)
    if absent:
        return f"libraries are missing ({', '.join(absent)}): install virel-tf[cuda]"
    return (
        "TensorFlow found none it can use, though driver and libraries load: see nvidia-smi and"
        " CUDA_VISIBLE_DEVICES"
    )


def missing_libraries(loads: Callable[[str], bool] | None = None) -> list[str]:
    """The CUDA libraries that cannot be loaded."""
    return [name for name in LIBRARIES if not (loads or can_load)(name)]


def can_load(name: str, folders: Iterable[Path] | None = None) -> bool:
    """Whether the linker finds a library, or one of NVIDIA's wheels holds it.

    TensorFlow looks there too.
    """
    folders = wheel_folders() if folders is None else folders
    for path in [name, *(str(folder / name) for folder in folders)]:
        try:
            ctypes.CDLL(path)
            return True
        except OSError:
            continue
    return False


def wheel_folders() -> list[Path]:
    """nvidia/*/lib beside the installed packages."""
    spec = importlib.util.find_spec("nvidia")
    return [
        folder
        for root in (spec and spec.submodule_search_locations) or []
        for folder in Path(root).glob("*/lib")
    ]
