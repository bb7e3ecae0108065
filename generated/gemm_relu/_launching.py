"""What stands between a call and its launch: the torch op, the route, the checks not repeated, and scratch memory.

This file is the same beside every kernel. It needs torch, and nothing else.
"""

import hashlib
import math
import sys
import threading
import types
from pathlib import Path

import torch

from ._runtime import raw_stream

PLAIN = (torch.Tensor, torch.nn.Parameter)

# How many modes (fake tensors, tracers, counters) and function transforms watch what this thread calls.
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_transform = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)


class Launcher:
    """Calls a kernel. ``prepare(*arguments)`` checks everything and returns ``launch(*arguments)``, which is kept.

    ``signature(*arguments)`` is what decides how a call is launched: types, shapes, dtypes, devices and order in memory.
    A later call with the same goes straight to ``launch``. It is None where autograd takes part. Such a call, and one
    that a tracer or a tensor subclass must see, goes to ``dispatch``, the torch custom op.
    """

    REMEMBERED = 4096

    def __init__(self, prepare, dispatch, signature):
        self._prepare = prepare
        self._dispatch = dispatch
        self._signature = signature
        self._ready = {}

    def fresh(self):
        """One that has nothing prepared."""
        return Launcher(self._prepare, self._dispatch, self._signature)

    def __call__(self, *arguments):
        if _modes() or _transform() is not None:
            return self._dispatch(*arguments)
        try:
            signature = self._signature(*arguments)
        except AttributeError:  # what is no tensor: it is refused with a better message
            self._prepare(*arguments)
            raise
        if signature is None:
            return self._dispatch(*arguments)
        launch = self._ready.get(signature)
        if launch is None:
            launch = self._remember(signature, arguments)
        return launch(*arguments)

    def _remember(self, signature, arguments):
        plain = all(type(value) in PLAIN for value in arguments if isinstance(value, torch.Tensor))
        launch = self._prepare(*arguments) if plain else self._dispatch
        if len(self._ready) >= self.REMEMBERED:
            self._ready.clear()
        self._ready[signature] = launch
        return launch

    def direct(self, *arguments):
        """The launch itself, below torch's dispatcher."""
        with torch.no_grad():
            signature = self._signature(*arguments)
        launch = self._ready.get(signature)
        if launch is None:
            launch = self._remember(signature, arguments)
        return launch(*arguments)

    def forget(self):
        """Prepares every call anew."""
        self._ready.clear()


def described(tensor):
    """The part of a signature that belongs to an argument that may be None."""
    if tensor is None:
        return None
    return type(tensor), tensor.shape, tensor.dtype, tensor.get_device(), tensor.is_contiguous()


def check_no_grad(message, arguments):
    """Raises RuntimeError where autograd would silently lose a gradient."""
    if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
        raise RuntimeError(message)


def custom_op(name, fake, backward=None, mutates_args=()):
    """``torch.library.custom_op`` with all that belongs to it, registered once in a process.

    A second copy of the kernel has the op of the first where it is the same to the byte, and else one of its own, whose
    name ends with a digest of its files: so no call ends in another kernel's code. (torch would register the op again
    by freeing the first one, which is still called: by the first copy, by compiled functions, by exported programs.)
    """
    known = sys.modules.setdefault("_tilegen_ops", types.ModuleType("_tilegen_ops")).__dict__
    content = _content()

    def register(function):
        with known.setdefault("_lock", threading.Lock()):
            first = known.get(name)
            same = first is None or getattr(first, "content", None) == content
            own = name if same else f"{name}_{content[:12]}"
            if own not in known:
                op = torch.library.custom_op(own, function, mutates_args=mutates_args)
                op.register_fake(fake)
                if backward is not None:
                    op.register_autograd(backward, setup_context=remember)
                op.content, op.calls = content, function
                known[own] = op
            return known[own]

    return register


def _content():
    """sha256 of what decides how this copy computes: the Python files of its folder, and the libraries beside them."""
    here = Path(__file__)
    modules = sorted(here.parent.glob("*.py")) if here.stem == "_launching" else []
    hasher = hashlib.sha256()
    for file in (*(modules or [here]), here.parent / "aot" / "manifest.json"):
        try:
            hasher.update(file.read_bytes())
        except OSError:  # there are no libraries; or this is a file of an archive, told from others by its place
            hasher.update(b"" if file.suffix == ".json" else str(file).encode())
    return hasher.hexdigest()


def remember(ctx, inputs, output):
    """Keeps the arguments of a call for :func:`differentiate`."""
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
    ctx.arguments = [None if isinstance(value, torch.Tensor) else value for value in inputs]


def differentiate(eager, ctx, grad):
    """The gradient of each argument, None where nobody asks: ``eager``, the same by torch's operations, is run again.

    Under ``create_graph`` it can itself be differentiated.
    """
    again = torch.is_grad_enabled()
    saved = iter(ctx.saved_tensors)
    arguments = [value if value is not None else next(saved) for value in ctx.arguments]
    with torch.enable_grad():
        if not again:
            arguments = [
                value.detach().requires_grad_(wanted) if isinstance(value, torch.Tensor) else value
                for value, wanted in zip(arguments, ctx.needs_input_grad, strict=True)
            ]
        y = eager(*arguments)
        wanted = [value for value, asked in zip(arguments, ctx.needs_input_grad, strict=True) if asked]
        found = iter(torch.autograd.grad(y, wanted, grad, create_graph=again))
    return tuple(next(found) if asked else None for asked in ctx.needs_input_grad)


class Workspaces(threading.local):
    """Scratch memory of launches; integers are zero before their first use.

    Two launches that may overlap need two pieces, so there is one for each device, stream and thread, kept from call to
    call. (A call of several kernels may interleave with that of another thread, even on one stream.) A captured graph
    may be replayed beside anything: its launches take memory of the graph, zeroed inside it.
    """

    def __init__(self):
        self._kept = {}
        self._views = {}

    def get(self, device, layout):
        """A tensor for each entry of ``layout``, a :class:`Layout`."""
        if torch.cuda.is_current_stream_capturing():
            return [_new(math.prod(shape), dtype, device).view(shape) for shape, dtype in layout]
        place = device.index, raw_stream(device.index)
        views = self._views.get((place, layout))
        return self._view(device, place, layout) if views is None else views

    def _view(self, device, place, layout):
        views = []
        for position, (shape, dtype) in enumerate(layout):
            size = math.prod(shape)
            kept = self._kept.get((place, position, dtype))
            if kept is None or kept.numel() < size:
                # Views of the smaller piece would keep it alive. The stream orders its last use before its next one.
                self._views = {index: found for index, found in self._views.items() if index[0] != place}
                kept = self._kept[place, position, dtype] = _new(size, dtype, device)
            views.append(kept[:size].view(shape))
        if len(self._views) >= Launcher.REMEMBERED:
            self._views.clear()
        self._views[place, layout] = views
        return views


class Layout(tuple):
    """``(shape, dtype)`` of each piece of scratch memory. Found by its identity: one is made for each prepared launch."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


def _new(size, dtype, device):
    make = torch.empty if dtype.is_floating_point else torch.zeros
    return make(size, dtype=dtype, device=device)
