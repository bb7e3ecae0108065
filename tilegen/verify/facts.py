"""Lowering facts: what TileLang 0.1.15 makes of a prim_func for one target, without a GPU.

Everything is read from the lowered IR, not from the text of the CUDA source: launch extents and dynamic shared memory
from the attributes of each device function, instructions from its calls, tensor maps from the host function.
"""

import hashlib
import logging
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tilegen.targets import Target
from tilegen.verify.expression import extent_of
from tilegen.verify.extent import Extent

_OPS = {
    "tl.ptx_wgmma_ss": "wgmma",
    "tl.ptx_wgmma_rs": "wgmma",
    "tirx.ptx_mma": "mma",
    "tl.ptx_mma": "mma",
    "tl.ptx_mma_sm70": "mma",
    "tl.ptx_tcgen05_mma_ss": "tcgen05",
    "tl.ptx_tcgen05_mma_ts": "tcgen05",
    "tl.tvm_mfma": "mfma",
    "tl.tma_load": "tma_load",
    "tl.tma_load_multicast": "tma_load",
    "tl.tma_store": "tma_store",
    "tl.ptx_cp_async": "cp_async",
    "tirx.ptx_cp_async": "cp_async",
    "tl.ptx_ldmatrix": "ldmatrix",
    "tl.ptx_stmatrix": "stmatrix",
    "tl.set_max_nreg": "setmaxnreg",
}
_MATRIX = {"wgmma", "mma", "tcgen05", "mfma"}


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor; extents innermost first, as the driver takes them."""

    name: str
    shape: tuple[Extent, ...]
    stride_bytes: tuple[Extent, ...]
    """Of the outer dimensions: one less than the rank."""
    box: tuple[int, ...]
    swizzle_bytes: int


@dataclass(frozen=True)
class KernelFacts:
    """One device function."""

    name: str
    grid: tuple[Extent, Extent, Extent]
    threads: int
    """Threads of a block as launched, the producer warp group included."""
    dynamic_bytes: Extent
    static_bytes: int
    """Barriers and static buffers as declared; ptxas pads the sum to 1024 before a dynamic arena."""
    barriers: int
    counts: Mapping[str, int]
    """Call sites in the code (an unrolled loop counts once): wgmma, mma, tcgen05, mfma, tma_load, tma_store, cp_async,
    ldmatrix, stmatrix, setmaxnreg."""
    shapes: tuple[str, ...]
    """Matrix instruction shapes, e.g. `m64n256k16`."""
    setmaxnreg: tuple[int, ...]
    """Registers asked for by reallocation, in order of the code."""
    cp_async_bytes: tuple[int, ...]
    global_access_bytes: tuple[int, ...]
    """Widths of ordinary loads and stores of global memory by one thread, distinct and ascending."""
    tensor_access_bytes: Mapping[str, tuple[int, ...]]
    """Widths of every access by one thread, `cp.async` included and TMA not, by the name of the global tensor."""
    shared_offsets: Mapping[str, int]
    """Byte offset of each buffer in the dynamic arena."""
    local_elements: Mapping[str, int]
    """Elements of each register array of a thread: a fragment's share, replicas included."""

    def count(self, instruction: str) -> int:
        return self.counts.get(instruction, 0)


@dataclass(frozen=True)
class LoweringFacts:
    target: str
    kernels: tuple[KernelFacts, ...]
    tensor_maps: tuple[TensorMap, ...]
    sha256: str
    """Of the device source."""
    source: str = field(repr=False)
    warnings: tuple[str, ...]
    """What TileLang printed while lowering, without time stamps, each once."""

    def kernel(self, name: str) -> KernelFacts:
        """The device function of this name. Raises KeyError."""
        return {k.name: k for k in self.kernels}[name]


class LoweringError(Exception):
    """TileLang refused. `reason` is the line that says why; the whole traceback is the cause."""

    def __init__(self, target: str, cause: BaseException) -> None:
        self.target = target
        self.reason = _reason(cause)
        super().__init__(f"TileLang cannot lower for {target}: {self.reason}")


def lower_facts(prim_func: Any, target: Target, pass_configs: Mapping[str, Any] | None = None) -> LoweringFacts:
    """Lower `prim_func` for a chip and read what came out. Raises `LoweringError` where TileLang refuses.

    `tilelang.lower` ignores the configurations that `T.annotate_pass_configs` wrote into the prim_func; `tilelang.compile`
    does not, so they are applied here. `pass_configs` adds to them.
    """
    import tilelang
    from tilelang import tvm

    annotated = dict(prim_func.attrs.get("tilelang_pass_configs", {}))

    with _captured_stderr() as lines:
        try:
            with (
                tvm.target.Target(target.tvm_target) as tvm_target,
                tilelang.transform.PassContext(opt_level=3, config={**annotated, **(pass_configs or {})}),
            ):
                artifact = tilelang.lower(prim_func, target=tvm_target)
        except Exception as error:
            raise LoweringError(target.name, error) from error
    kernels = tuple(_kernel(f) for f in artifact.device_mod.functions.values())
    source = artifact.kernel_source
    return LoweringFacts(
        target=target.name,
        kernels=tuple(sorted(kernels, key=lambda k: k.name)),
        tensor_maps=_tensor_maps(artifact.host_mod),
        sha256=hashlib.sha256(source.encode()).hexdigest(),
        source=source,
        warnings=_warnings(lines),
    )


def _kernel(function: Any) -> KernelFacts:
    attrs = function.attrs
    extents = {str(k): extent_of(v) for k, v in attrs["thread_extent"].items()}
    calls = _Calls()
    calls.visit(function.body)
    return KernelFacts(
        name=str(attrs["global_symbol"]),
        grid=(extents.get("blockIdx.x", 1), extents.get("blockIdx.y", 1), extents.get("blockIdx.z", 1)),
        threads=_product(extents.get(f"threadIdx.{axis}", 1) for axis in "xyz"),
        dynamic_bytes=extent_of(attrs["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attrs else 0,
        static_bytes=calls.static_bytes,
        barriers=calls.barriers,
        counts=MappingProxyType(dict(sorted(calls.counts.items()))),
        shapes=tuple(sorted(calls.shapes)),
        setmaxnreg=tuple(calls.setmaxnreg),
        cp_async_bytes=tuple(sorted(calls.cp_async_bytes)),
        global_access_bytes=tuple(sorted(calls.global_bytes)),
        tensor_access_bytes=MappingProxyType({k: tuple(sorted(v)) for k, v in sorted(calls.tensor_bytes.items())}),
        shared_offsets=MappingProxyType(calls.offsets),
        local_elements=MappingProxyType(calls.locals),
    )


class _Calls:
    """What one walk over a device function finds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.shapes: set[str] = set()
        self.setmaxnreg: list[int] = []
        self.cp_async_bytes: set[int] = set()
        self.global_bytes: set[int] = set()
        self.tensor_bytes: defaultdict[str, set[int]] = defaultdict(set)
        self.offsets: dict[str, int] = {}
        self.locals: dict[str, int] = {}
        self.static_bytes = 0
        self.barriers = 0

    def visit(self, body: Any) -> None:
        from tvm.tirx.stmt_functor import post_order_visit

        post_order_visit(body, self._node)

    def _node(self, node: Any) -> None:
        kind = type(node).__name__
        if kind == "Call":
            self._call(node)
        elif kind in ("BufferLoad", "BufferStore"):
            self._access(node)
        elif kind == "AllocBuffer":
            self._alloc(node.buffer)
        elif kind == "Bind":
            self._bind(node)

    def _call(self, call: Any) -> None:
        spelt = getattr(call.op, "name", "")
        whole = re.fullmatch(r"tl\.(?:ldg|stg)(\d+)", spelt)
        if whole:
            self._wide_access(call, int(whole[1]) // 8)
        name = _OPS.get(spelt)
        if name is None:
            return
        self.counts[name] += 1
        if name in _MATRIX:
            self.shapes |= {shape for shape in (_shape(a) for a in call.args[:2]) if shape}
        elif name == "setmaxnreg":
            self.setmaxnreg.append(int(call.args[0].value))
        elif name == "cp_async":
            width = int(call.args[2].value) * _bits(call.args[0].args[0].dtype) // 8
            self.cp_async_bytes.add(width)
            self.tensor_bytes[_pointed_at(call.args[1])].add(width)

    def _wide_access(self, call: Any, width: int) -> None:
        """An access of 32 bits or more under a predicate (`tl.enable_lower_ldgstg`): its first argument is a pointer."""
        self.global_bytes.add(width)
        self.tensor_bytes[_pointed_at(call.args[0])].add(width)

    def _access(self, node: Any) -> None:
        if str(node.buffer.scope()) != "global":
            return
        lanes = max((int(getattr(i.dtype, "lanes", 1)) for i in node.indices), default=1)
        width = lanes * _bits(node.buffer.dtype) // 8
        self.global_bytes.add(width)
        self.tensor_bytes[str(node.buffer.name)].add(width)

    def _alloc(self, buffer: Any) -> None:
        elements = _product(extent_of(e) for e in buffer.shape)
        scope = str(buffer.scope())
        if scope == "local":
            self.locals[str(buffer.name)] = elements
        elif scope in ("shared", "shared.barrier", "shared.cluster_barrier"):
            self.static_bytes += elements * _bits(buffer.dtype) // 8
            self.barriers += elements if scope != "shared" else 0

    def _bind(self, node: Any) -> None:
        value = node.value
        if type(value).__name__ == "Call" and value.op.name == "tirx.handle_add_byte_offset":
            self.offsets[str(node.var.name)] = int(value.args[1])


def _tensor_maps(host_mod: Any) -> tuple[TensorMap, ...]:
    maps: dict[str, TensorMap] = {}
    for function in host_mod.functions.values() if host_mod is not None else ():
        for args in function.attrs.get("tma_descriptor_args", {}).values():
            found = _tensor_map(args)
            if found is not None:
                maps[found.name] = found
    return tuple(maps[name] for name in sorted(maps))


def _tensor_map(args: Any) -> TensorMap | None:
    """From (function, handle, dtype, rank, address, shape, strides, box, element strides, interleave, swizzle, ...)."""
    if "im2col" in str(args[0]):
        return None
    rank = int(args[3])
    shape, strides, box = (tuple(extent_of(a) for a in args[5 + i * rank : 5 + (i + 1) * rank]) for i in range(3))
    swizzle = int(args[6 + 4 * rank])
    return TensorMap(
        name=str(args[1].name),
        shape=shape,
        stride_bytes=strides[1:],
        box=tuple(int(e) for e in box),
        swizzle_bytes=16 << swizzle if swizzle else 0,
    )


def _pointed_at(pointer: Any) -> str:
    """The name of the buffer that `tvm_access_ptr` points into."""
    return str(pointer.args[1].name)


def _shape(arg: Any) -> str | None:
    """`m64n256k16` out of the name of a matrix instruction; AMD's `f32_16x16x16f16` is spelt the same way."""
    text = getattr(arg, "value", None)
    found = re.search(r"m?(\d+)[nx](\d+)[kx](\d+)", text) if isinstance(text, str) else None
    return "m{}n{}k{}".format(*found.groups()) if found else None


def _product(extents: Iterator[Extent]) -> int:
    product = 1
    for extent in extents:
        product *= extent if isinstance(extent, int) else 1
    return product


def _bits(dtype: Any) -> int:
    from tilelang import tvm

    return int(tvm.DataType(str(dtype)).bits) if not hasattr(dtype, "bits") else int(dtype.bits)


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Check failed" in line or "Error" in line or "error" in line]
    text = (telling or lines or [type(error).__name__])[-1 if telling else 0]
    return text[:400]


@contextmanager
def _captured_stderr() -> Iterator[list[str]]:
    """Collects what C++ writes to file descriptor 2. For the whole process: lower in one thread at a time."""
    lines: list[str] = []
    logged = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield lines
        finally:
            logging.disable(logged)
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            log.seek(0)
            lines += log.read().decode(errors="replace").splitlines()


def _warnings(lines: list[str]) -> tuple[str, ...]:
    marks = [line.split("Warning:", 1)[1].strip() for line in lines if "Warning:" in line]
    return tuple(dict.fromkeys(mark for mark in marks if "ROCm version" not in mark))
