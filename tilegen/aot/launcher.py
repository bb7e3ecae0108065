"""The C source of a host launcher."""

from __future__ import annotations

from tilegen import __version__
from tilegen.aot.launch import Kernel, Launch
from tilegen.emit.environment import render_template

ABI = 1
"""Of the exported functions and of the manifest; a loader of another number refuses."""


def launcher_source(launch: Launch, label: str, arch: str, device_command: str, host_command: str) -> str:
    """The launcher of one compile key. It embeds ``kernel.cubin`` of the folder that it is compiled in."""
    kernels = []
    for kernel in launch.kernels:
        declared, addresses = _values(kernel, launch)
        kernels.append({**vars(kernel), "attributes": _attributes(kernel), "locals": declared, "addresses": addresses})
    return render_template(
        "aot/launcher.c.jinja",
        {
            "label": label,
            "version": __version__,
            "arch": arch,
            "device_command": device_command,
            "host_command": host_command,
            "parameters": launch.parameters,
            "pointers": [parameter for parameter in launch.parameters if parameter.kind == "pointer"],
            "tensor_maps": launch.tensor_maps,
            "kernels": kernels,
        },
    )


def _values(kernel: Kernel, launch: Launch) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Variables to declare (type, name, value), and where each argument of a kernel lies.

    An argument that the launcher was given as it is, or a tensor map, needs no variable.
    """
    given = {f"given->{parameter.c_name}": parameter.c_type for parameter in launch.parameters}
    declared: list[tuple[str, str, str]] = []
    found = []
    for argument in kernel.arguments:
        if argument.c_type == "CUtensorMap":
            found.append(f"&{argument.text}")
        elif given.get(argument.text) == argument.c_type:
            found.append(f"(void*)&{argument.text}")
        else:
            declared.append((argument.c_type, f"value_{len(declared)}", argument.text))
            found.append(f"&{declared[-1][1]}")
    return declared, found


def _attributes(kernel: Kernel) -> list[str]:
    found = []
    if kernel.cluster != (1, 1, 1):
        extents = ", ".join(str(extent) for extent in kernel.cluster)
        found.append(f"{{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {{{extents}}}}}")
    if kernel.overlaps:
        name = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
        found.append(f"{{.id = {name}, .value.programmaticStreamSerializationAllowed = 1}}")
    return found
