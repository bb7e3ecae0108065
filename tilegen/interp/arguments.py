"""Binds numpy arrays, torch tensors, shapes and numbers to the parameters of a prim_func."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilegen.interp.findings import InvalidKernelError, render
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import as_scalar
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array, is_float, is_narrow_float, is_packed, round_to, storage_dtype, unpack
from tilegen.interp.pointers import LOWEST_ADDRESS, array_at
from tilegen.interp.program import VARIABLES, Parameter, Program
from tilegen.interp.structure import variables_of


@dataclass
class Bound:
    """A buffer argument after binding: its storage, whether the caller gave its contents, or its address (``in_place``)."""

    parameter: Parameter
    storage: Storage
    given: bool
    in_place: bool = False


def bind(
    program: Program, inputs: Mapping[str, Any], frame: Frame, seed: int, diagnostics: bool
) -> tuple[list[Bound], dict[str, int]]:
    """Fill the environment and the memory of ``frame``; gives the buffer arguments and the values of dynamic dimensions.

    Raises ``InvalidKernelError`` for an argument that is unknown, missing, or of the wrong shape or dtype.
    """
    _check_names(program, inputs)
    dims: dict[str, int] = {}
    arrays: dict[str, Array] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    addresses: dict[str, int] = {}
    for parameter in program.parameters:
        if parameter.plan is None:
            if parameter.name in inputs:
                frame.environment[parameter.slot] = _scalar(parameter, inputs[parameter.name])
                dims[parameter.name] = frame.environment[parameter.slot]
        elif parameter.name in inputs:
            value = inputs[parameter.name]
            if value is None:
                if parameter.plan.read_in or parameter.plan.written_in:
                    raise InvalidKernelError(f"{parameter.name} is None, and the kernel uses it")
            elif isinstance(value, int) and value >= LOWEST_ADDRESS:
                addresses[parameter.name] = value
            elif isinstance(value, (tuple, list)) and all(isinstance(extent, int) for extent in value):
                shapes[parameter.name] = tuple(value)
            else:
                arrays[parameter.name] = as_array(value, parameter.dtype, parameter.name)
                shapes[parameter.name] = arrays[parameter.name].shape
    _bind_dimensions(program, inputs, shapes, arrays, frame, dims)
    generator = np.random.default_rng(seed)
    bound = []
    for parameter in program.parameters:
        if parameter.plan is None:
            if frame.environment[parameter.slot] is None:
                raise InvalidKernelError(f"the scalar argument {parameter.name} ({parameter.dtype}) has no value")
            continue
        _check_shape(parameter, shapes.get(parameter.name), frame)
        if parameter.name in addresses:
            program.compiler.follows_pointers = True
            storage = _at_address(parameter, addresses[parameter.name], frame)
            bound.append(Bound(parameter, storage, True, in_place=True))
            frame.memory[parameter.slot] = storage
            continue
        try:
            storage = _storage(parameter, arrays.get(parameter.name), frame, generator, diagnostics)
        except (MemoryError, ValueError) as error:  # numpy's, for an array that is too large
            raise InvalidKernelError(
                f"no memory for {parameter.name}, {_extents(parameter, frame)}: {error}"
            ) from error
        bound.append(Bound(parameter, storage, parameter.name in arrays or not _only_written(parameter)))
        frame.memory[parameter.slot] = storage
        storage.safe_value = parameter.plan.safe_value
        storage.write_places = parameter.plan.write_places
    for name in program.used_dimensions:
        if frame.environment[program.dimensions[name]] is None:
            raise InvalidKernelError(f"the kernel uses {name}, which no argument determines: give a number for it")
    return bound, dims


def _check_names(program: Program, inputs: Mapping[str, Any]) -> None:
    known = {parameter.name for parameter in program.parameters} | set(program.dimensions)
    for name in inputs:
        if name not in known:
            raise InvalidKernelError(f"{program.name} has no argument {name!r}; it has {', '.join(sorted(known))}")


def _scalar(parameter: Parameter, value: Any) -> Any:
    """A scalar argument as its dtype holds it."""
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    wanted = storage_dtype(parameter.dtype)
    fits = array.size == 1 and array.dtype.kind in ("iubf" if is_float(parameter.dtype) else "iub")
    if fits and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        fits = limits.min <= int(array.item()) <= limits.max
    if not fits:
        raise InvalidKernelError(
            f"the scalar argument {parameter.name} is {parameter.dtype}; {value!r:.60} is no such number"
        )
    return as_scalar(array.reshape(()).astype(wanted).item())


def _dimension(name: str, value: Any) -> int:
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        raise InvalidKernelError(f"the dimension {name} is {value!r:.60}, which is no whole number")
    return operator.index(value)


def _bind_dimensions(
    program: Program,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, Array],
    frame: Frame,
    dims: dict[str, int],
) -> None:
    """Give each dimension and stride its value: a number that the caller gave, else an argument's, else a dense shape's."""
    for name, slot in program.dimensions.items():
        if name in inputs:
            frame.environment[slot] = dims[name] = _dimension(name, inputs[name])
    with_shape = [parameter for parameter in program.parameters if parameter.buffer is not None]
    with_shape = [parameter for parameter in with_shape if parameter.name in shapes]
    for parameter in with_shape:
        shape = shapes[parameter.name]
        if len(shape) != len(parameter.buffer.shape):
            raise InvalidKernelError(
                f"{parameter.name} has {len(parameter.buffer.shape)} axes, the argument has shape {shape}"
            )
        _bind_extents(parameter, shape, frame, dims, program)
    for parameter in with_shape:
        _solve_extents(parameter, shapes[parameter.name], frame, dims, program)
    fixed = {slot for slot, value in enumerate(frame.environment) if value is not None}
    for parameter in with_shape:
        if parameter.name in arrays:
            _bind_strides(parameter, arrays[parameter.name], frame, dims, program, fixed)
    for parameter in with_shape:
        for stride, actual in zip(parameter.buffer.strides, _dense(shapes[parameter.name]), strict=False):
            _bind_if_open(stride, actual, frame, dims, program)


def _bind_strides(
    parameter: Parameter, array: Array, frame: Frame, dims: dict[str, int], program: Program, fixed: set[int]
) -> None:
    """Take dynamic strides from an array; two arrays that share one have to agree. Along an axis of one it is free."""
    for axis, (stride, extent, step) in enumerate(
        zip(parameter.buffer.strides, array.shape, array.strides, strict=False)
    ):
        actual = step // array.itemsize
        if extent <= 1 or type(stride).__name__ not in VARIABLES:
            continue
        _bind_if_open(stride, actual, frame, dims, program)
        slot = program.compiler.variable_slot(stride)
        if frame.environment[slot] != actual and slot not in fixed:
            raise InvalidKernelError(
                f"the stride of axis {axis} of {parameter.name} is {stride.name} = {frame.environment[slot]}, "
                f"the argument has {actual}"
            )


def _bind_if_open(stride: Any, actual: int, frame: Frame, dims: dict[str, int], program: Program) -> None:
    if type(stride).__name__ in VARIABLES:
        slot = program.compiler.variable_slot(stride)
        if frame.environment[slot] is None:
            frame.environment[slot] = dims[str(stride.name)] = actual


def _bind_extents(
    parameter: Parameter, shape: Sequence[int], frame: Frame, dims: dict[str, int], program: Program
) -> None:
    for axis, (extent, actual) in enumerate(zip(parameter.buffer.shape, shape, strict=True)):
        if type(extent).__name__ not in VARIABLES:
            continue
        slot, name = program.compiler.variable_slot(extent), str(extent.name)
        if frame.environment[slot] is None:
            frame.environment[slot] = dims[name] = actual
        elif frame.environment[slot] != actual:
            raise InvalidKernelError(
                f"axis {axis} of {parameter.name} is {name} = {frame.environment[slot]}, the argument has {actual}"
            )


def _solve_extents(
    parameter: Parameter, shape: Sequence[int], frame: Frame, dims: dict[str, int], program: Program
) -> None:
    """Take a dynamic dimension from an extent that is linear in it, such as ``n * 4 + 1``."""
    assert parameter.plan is not None
    for axis, (extent, code, actual) in enumerate(
        zip(parameter.buffer.shape, parameter.plan.shape, shape, strict=True)
    ):
        variables = variables_of(extent)
        open_ones = {
            str(variable.name): program.compiler.variable_slot(variable)
            for variable in variables
            if frame.environment[program.compiler.variable_slot(variable)] is None
        }
        if len(open_ones) != 1:
            continue
        ((name, slot),) = open_ones.items()
        values = []
        for guess in (0, 1):
            frame.environment[slot] = guess
            values.append(int(code.run(frame)))
        slope = values[1] - values[0]
        frame.environment[slot] = (actual - values[0]) // slope if slope else None
        if not slope or int(code.run(frame)) != actual:
            frame.environment[slot] = None
            raise InvalidKernelError(
                f"axis {axis} of {parameter.name} is {render(extent)}, the argument has {actual}: "
                f"no {name} gives that; give a number for {name}"
            )
        dims[name] = frame.environment[slot]


def _dense(shape: Sequence[int]) -> list[int]:
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


def _only_written(parameter: Parameter) -> bool:
    assert parameter.plan is not None
    return bool(parameter.plan.written_in) and not parameter.plan.read_in


def _storage(
    parameter: Parameter, array: Array | None, frame: Frame, generator: np.random.Generator, diagnostics: bool
) -> Storage:
    plan = parameter.plan
    assert plan is not None
    shape = _extents(parameter, frame)
    if plan.written_in:
        _check_no_overlap(parameter, shape, frame)
    if array is None:
        if _only_written(parameter):
            return Storage.poisoned(plan.name, plan.dtype, "global", shape, diagnostics)
        return Storage(plan.name, plan.dtype, "global", random_array(generator, shape, plan.dtype))
    symbolic = any(type(stride).__name__ in VARIABLES for stride in parameter.buffer.strides)
    if plan.written_in or plan.views or not symbolic:
        array = np.array(array, order="C", copy=bool(plan.written_in) or not array.flags.c_contiguous)
    return Storage(plan.name, plan.dtype, "global", array)


def _at_address(parameter: Parameter, address: int, frame: Frame) -> Storage:
    """The memory of this process at an address, read and written where it lies."""
    plan = parameter.plan
    assert plan is not None
    array = array_at(address, _extents(parameter, frame), plan.dtype, plan.name, bool(plan.written_in))
    return Storage(plan.name, plan.dtype, "global", array, safe_value=plan.safe_value)


def _check_no_overlap(parameter: Parameter, shape: tuple[int, ...], frame: Frame) -> None:
    """Refuse to write an argument whose strides give one place to several elements: which write stays is not modelled."""
    assert parameter.plan is not None
    strides = [code.run(frame) for code in parameter.plan.strides]
    if not strides or None in strides or 0 in shape:
        return
    reach = 0  # beyond the axes of smaller strides
    for stride, extent in sorted((abs(int(stride)), extent) for stride, extent in zip(strides, shape, strict=True)):
        if extent > 1 and stride <= reach:
            break
        reach += stride * (extent - 1)
    else:
        return
    places = np.zeros((), dtype=np.int64)
    for stride, extent in zip(strides, shape, strict=True):
        places = places[..., None] + int(stride) * np.arange(extent)
    distinct = np.unique(places).size
    if distinct < places.size:
        raise InvalidKernelError(
            f"{parameter.name} is written, but its strides {tuple(strides)} put its {places.size} elements "
            f"into {distinct} places"
        )


def _check_shape(parameter: Parameter, given: tuple[int, ...] | None, frame: Frame) -> None:
    shape = _extents(parameter, frame)
    if given is not None and given != shape:
        raise InvalidKernelError(f"{parameter.name} has the shape {shape}, the argument has {given}")


def _extents(parameter: Parameter, frame: Frame) -> tuple[int, ...]:
    assert parameter.plan is not None
    try:
        shape = parameter.plan.extents(frame)
    except TypeError:
        names = sorted({str(part.name) for extent in parameter.buffer.shape for part in variables_of(extent)})
        raise InvalidKernelError(
            f"the shape of {parameter.name} is not determined: give an array or a shape for it, "
            f"or values for {', '.join(names)}"
        ) from None
    if any(extent < 0 for extent in shape):
        raise InvalidKernelError(f"{parameter.name} would have the shape {shape}")
    return shape


def random_array(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Standard normal floats; integers from 0 to 7 (-4 to 3 where signed), so that sums stay small."""
    if is_float(dtype):
        values = generator.standard_normal(tuple(shape), dtype=np.float32)
        return np.asarray(round_to(values, dtype) if is_narrow_float(dtype) else values.astype(storage_dtype(dtype)))
    if dtype == "bool":
        return generator.integers(0, 2, tuple(shape)).astype(np.bool_)
    low = 0 if dtype.startswith("u") else -4
    return generator.integers(low, low + 8, tuple(shape)).astype(storage_dtype(dtype))


def as_array(value: Any, dtype: str, name: str) -> Array:
    """A numpy array in the storage of ``dtype``; torch tensors (on the CPU) are taken without copying where numpy can."""
    storage = storage_dtype(dtype)
    if hasattr(value, "detach"):
        try:
            value = _from_torch(value.detach().cpu().resolve_conj().resolve_neg(), storage)
        except (RuntimeError, TypeError, KeyError) as error:  # a sparse, quantised or meta tensor
            raise InvalidKernelError(f"{name} is no plain tensor of numbers: {error}") from error
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidKernelError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype == storage:
        return array
    if is_packed(dtype) and array.dtype in (np.int8, np.uint8) and array.ndim:
        return unpack(array, dtype)
    if array.dtype.type is np.void or (  # what numpy reads back of a dtype that it does not know
        array.dtype.itemsize == storage.itemsize and array.dtype.kind == "u" and is_float(dtype)
    ):
        return array.view(storage)
    if array.dtype.kind not in "biuf":
        raise InvalidKernelError(f"{name} is {dtype}, the argument is {array.dtype}")
    same_kind = (array.dtype.kind in "iub") == (not is_float(dtype))
    if not same_kind or array.dtype.itemsize != storage.itemsize:
        if array.ndim == 0:
            raise InvalidKernelError(f"{name} is a buffer of {dtype}, the argument is the number {array}")
        raise InvalidKernelError(f"{name} is {dtype}, the argument is {array.dtype}; convert it first")
    return array.astype(storage)


def _from_torch(tensor: Any, storage: np.dtype[Any]) -> Array:
    try:
        result: Array = tensor.numpy()
        return result
    except TypeError:
        import torch

        width = {1: torch.uint8, 2: torch.int16}[storage.itemsize]
        bits: Array = tensor.view(width).numpy()
        return bits.view(np.uint16 if storage.itemsize == 2 else np.uint8)


def to_float64(array: Array) -> Array:
    """Any output as float64 (integers exactly as far as 53 bits go), for comparison and statistics."""
    if array.dtype.kind == "V" or array.dtype in (ml_dtypes.bfloat16,):
        return array.astype(np.float32).astype(np.float64)
    return array.astype(np.float64)
