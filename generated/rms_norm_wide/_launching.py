"""What stands between a call and its launch: the route it takes, the checks it need not repeat, and scratch memory.

This file is the same beside every kernel. It needs torch, and nothing else.
"""

import math
import threading

import torch

from ._runtime import current_device, raw_stream

PLAIN = (torch.Tensor, torch.nn.Parameter)

# How many modes (fake tensors, tracers, counters) and function transforms watch what this thread calls.
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_transform = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)


class Launcher:
    """Calls a kernel. ``prepare(*arguments)`` checks everything and returns ``launch(*arguments)``, which is kept.

    A later call whose arguments have the same shapes, dtypes and devices goes straight to ``launch``. A call that
    autograd, a tracer or a tensor subclass must see goes to ``dispatch``, the torch custom op, instead.
    """

    REMEMBERED = 4096

    def __init__(self, prepare, dispatch):
        self._prepare = prepare
        self._dispatch = dispatch
        self._ready = {}

    def __call__(self, *arguments):
        recording = torch.is_grad_enabled()
        for argument in arguments:
            kind = type(argument)
            if kind in PLAIN:
                if recording and argument.requires_grad:
                    return self._dispatch(*arguments)
            elif isinstance(argument, torch.Tensor):
                return self._dispatch(*arguments)
        if _dispatch_modes() or _transform() is not None:
            return self._dispatch(*arguments)
        return self.direct(*arguments)

    def direct(self, *arguments):
        """The launch itself, unseen by torch's dispatcher."""
        signature = []
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                # The shape decides the kernel; whether it may be used hangs on the address and the order in memory too.
                place = argument.get_device(), argument.is_contiguous(), argument.data_ptr() & 15
                signature += (argument.shape, argument.dtype, *place)
            else:
                signature.append(argument if isinstance(argument, (bool, int)) else type(argument))
        signature = tuple(signature)
        launch = self._ready.get(signature)
        if launch is None:
            launch = self._prepare(*arguments)
            if len(self._ready) >= self.REMEMBERED:
                self._ready.clear()
            self._ready[signature] = launch
        device = arguments[0].get_device()
        if device != current_device():
            with torch.cuda.device(device):
                return launch(*arguments)
        return launch(*arguments)

    def forget(self):
        """Prepares every call anew."""
        self._ready.clear()


class Workspaces(threading.local):
    """Scratch memory of launches: tensors of the shapes and dtypes of ``layout``; integers are zero before the first use.

    Two launches that may overlap need two pieces, so there is one for each device, stream and thread, kept from call to
    call. (A call of several kernels may interleave with that of another thread, even on one stream.) A captured graph
    may be replayed beside anything: its launches take memory of the graph, zeroed inside it.
    """

    def __init__(self):
        self._kept = {}
        self._views = {}

    def get(self, device, layout):
        """A tensor for each ``(shape, dtype)`` of ``layout``, which is a tuple."""
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
        self._views[place, layout] = views
        return views


def _new(size, dtype, device):
    make = torch.empty if dtype.is_floating_point else torch.zeros
    return make(size, dtype=dtype, device=device)
