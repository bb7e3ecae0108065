"""Everything that a page shows of one state of a kernel, worked out; the templates only print it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen import __version__
from tilegen.check.checker import settle, spec_findings
from tilegen.check.findings import findings
from tilegen.expr import is_symbolic, multiply, to_text
from tilegen.plan.model import Gemm, KernelPlan, Loop, LoopKind, Scope
from tilegen.review.budget import launch_budget
from tilegen.review.page.banks import BankPicture, bank_pictures
from tilegen.review.page.listing import Listing, listing
from tilegen.review.page.memory import SharedBar, shared_bar
from tilegen.review.page.ownership import Accumulator, Exchange, RowShare, accumulators, exchanges, row_share
from tilegen.review.page.paths import instruction_text, product_path
from tilegen.review.page.proofs import RuleRow, rule_rows
from tilegen.review.page.roofline import Roofline, rooflines
from tilegen.review.page.selector import Expressions, selector
from tilegen.review.page.sized import TIMES
from tilegen.review.page.tiles import TilePicture, tile_picture, tones_of
from tilegen.review.page.timeline import Timeline, timeline
from tilegen.review.page.views import View, views
from tilegen.spec.diagnostic import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilegen.check.result import Result
    from tilegen.plan.model import TilePlan
    from tilegen.review.page.measured import Measurement
    from tilegen.spec.diagnostic import Diagnostic
    from tilegen.spec.model import Spec

MOST_VIEWS = 40
"""Cases of a page that are drawn; all are listed."""


class NothingToShowError(ValueError):
    """A target, case or dtype that the spec does not have; the message says which it has."""

    def __init__(self, spec: Spec, found: list[View], target: str | None, case: int | None, dtype: str | None) -> None:
        archs = list(dict.fromkeys(view.arch for view in found))
        mine = [view for view in found if target in (None, view.arch)]
        if not mine:
            message = f"{spec.kernel} has no target {target}; it has {', '.join(archs)}"
        elif not any(_has(view, dtype) for view in mine):
            known = sorted({name for view in mine for name in _dtypes(view)})
            message = f"{spec.kernel} has no tensor of {dtype}; it has {', '.join(known)}"
        else:
            most = max(view.number for view in mine)
            message = f"{spec.kernel} has {most} cases on {target or archs[0]}, and no case {case}"
        super().__init__(message)


@dataclass(frozen=True)
class Number:
    """A number that follows the shape: ``expression`` is its place in the page's JSON, None where it is a constant."""

    label: str
    text: str
    expression: int | None = None
    form: str = "int"
    note: str = ""


@dataclass(frozen=True)
class KernelFigures:
    """The figures of one ``T.Kernel``."""

    name: str
    tiles: TilePicture
    timeline: Timeline | None
    accumulators: tuple[Accumulator, ...]
    exchanges: tuple[Exchange, ...]
    rows: RowShare | None
    memory: SharedBar | None
    beside: bool
    """It runs before or after the kernel that multiplies."""


@dataclass(frozen=True)
class ViewFigures:
    """``kernels`` is empty where no shape of the case is known."""

    view: View
    numbers: tuple[Number, ...]
    tiles: tuple[tuple[str, str], ...]
    kernels: tuple[KernelFigures, ...]


@dataclass(frozen=True)
class PageModel:
    """``drawn`` are the views with figures; ``views`` are all."""

    spec: Spec
    version: str
    diagnostics: tuple[Diagnostic, ...]
    views: tuple[View, ...]
    drawn: tuple[ViewFigures, ...]
    rooflines: tuple[Roofline, ...]
    banks: tuple[BankPicture, ...]
    rules: tuple[RuleRow, ...]
    listing: Listing
    selector: str

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The choices of dtypes, where they make a difference to a plan; empty elsewhere."""
        differ = any(not view.alone for view in self.views)
        return tuple(dict.fromkeys(choice for view in self.views for choice in view.dtypes)) if differ else ()

    @property
    def first(self) -> str:
        """The id of the view to open: of those drawn at listed sizes, the one with the most operations."""
        known = [entry for entry in self.drawn if entry.kernels] or list(self.drawn)
        listed = [entry for entry in known if _is_listed(entry.view)] or known
        return max(listed, key=lambda entry: entry.view.sized.number(entry.view.plan.flops) or 0).view.id

    @property
    def allowed(self) -> int:
        """Obligations that do not hold, and that the spec allows with a reason."""
        return sum(row.refuted for row in self.rules if row.status == "allowed")

    @property
    def drawn_ids(self) -> tuple[str, ...]:
        return tuple(entry.view.id for entry in self.drawn)

    @property
    def obligations(self) -> int:
        return sum(row.proved + row.refuted + row.undecided for row in self.rules)

    @property
    def proved(self) -> int:
        return sum(row.proved for row in self.rules)


def page_model(
    spec: Spec,
    measurements: Sequence[Measurement] = (),
    *,
    target: str | None = None,
    case: int | None = None,
    dtype: str | None = None,
) -> PageModel:
    """The model of a spec. ``target``, ``case`` and ``dtype`` leave out the other plans; raises
    :class:`NothingToShowError` where they leave none.

    A spec whose tile values are not always defined has no plans: its page shows the findings and its text.
    """
    broken = spec_findings(spec)
    settled = [] if broken else list(settle(spec))
    found = views(spec, settled)
    every = [
        view for view in found if target in (None, view.arch) and case in (None, view.number) and _has(view, dtype)
    ]
    if found and not every:
        raise NothingToShowError(spec, found, target, case, dtype)
    drawn = _telling(every)
    expressions = Expressions()
    figures = tuple(_figures(view, expressions) for view in drawn)
    diagnostics = broken or _findings(spec, settled)
    return PageModel(
        spec,
        __version__,
        tuple(diagnostics),
        tuple(every),
        figures,
        tuple(rooflines(spec, every, list(measurements))),
        tuple(bank_pictures(drawn)),
        tuple(rule_rows(spec, every)),
        listing(spec, fails=any(entry.severity is Severity.ERROR for entry in diagnostics)),
        selector(spec, every, expressions),
    )


def _findings(spec: Spec, settled: Sequence[tuple[TilePlan, list[Result]]]) -> list[Diagnostic]:
    cases = {(plan.target.name, plan.case.condition) for plan, _ in settled}
    return findings(spec, (result for _, results in settled for result in results), cases)


def _has(view: View, dtype: str | None) -> bool:
    return dtype is None or dtype in _dtypes(view)


def _dtypes(view: View) -> set[str]:
    return {name for choice in view.dtypes for name in choice.split(", ")} | set(view.plan.dtypes.values())


def _telling(every: list[View]) -> list[View]:
    """The views to draw: all; of more than fit, an even choice of each target's, in their order."""
    if len(every) <= MOST_VIEWS:
        return every
    archs = list(dict.fromkeys(view.arch for view in every))
    share = max(1, MOST_VIEWS // len(archs))
    kept = []
    for arch in archs:
        mine = [view for view in every if view.arch == arch]
        listed = sorted(mine, key=lambda view: not _is_listed(view))[:share]
        kept += [view for view in mine if view in listed]
    return kept


def _is_listed(view: View) -> bool:
    """Whether the shape that a view is drawn at has listed sizes only."""
    dims = {dim.name: dim for dim in view.plan.spec.dims}
    return bool(view.sized.shape) and all(
        dims[name].dynamic or value in dims[name].values for name, value in view.sized.shape.items()
    )


def _figures(view: View, expressions: Expressions) -> ViewFigures:
    kernels = view.plan.kernels if view.sized.shape else ()
    # What multiplies comes first: a reader asks for it, and what runs before and after it is small.
    ordered = sorted(kernels, key=lambda kernel: not any(kernel.find(Gemm)))
    return ViewFigures(
        view,
        tuple(_numbers(view, expressions)),
        tuple(
            (name, value if isinstance(value, str) else to_text_of(value)) for name, value in view.plan.tiles.items()
        ),
        tuple(_kernel(view, kernel) for kernel in ordered),
    )


def to_text_of(value: Any) -> str:
    """A tile value as text: a number, an expression, a word, or a swizzle."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or is_symbolic(value):
        return to_text(value)
    if hasattr(value, "panel"):
        return f"panels of {value.panel}, by {value.order}"
    return "none" if value is None else str(value)


def _kernel(view: View, kernel: KernelPlan) -> KernelFigures:
    sized = view.sized
    return KernelFigures(
        kernel.name,
        tile_picture(sized, kernel),
        timeline(sized, kernel),
        tuple(accumulators(sized, kernel)),
        tuple(exchanges(kernel)),
        row_share(sized, kernel),
        shared_bar(sized, kernel, tones_of(kernel)),
        any(True for entry in view.plan.kernels for _ in entry.find(Gemm)) and not any(kernel.find(Gemm)),
    )


def _numbers(view: View, expressions: Expressions) -> Iterator[Number]:
    """What a reader wants to know first. Those of the kernel with the most work stand for the plan."""
    sized, plan = view.sized, view.plan
    kernel = max(plan.kernels, key=lambda entry: (len(list(entry.find(Gemm))), len(entry.buffers)))

    def number(label: str, size: Any, note: str = "", form: str = "int") -> Number:
        value = sized.number(size)
        text = to_text(size) if value is None else engineering(value) if form == "si" else f"{value:,}"
        return Number(label, text, expressions.add(size), form, note)

    grid = TIMES.join(to_text(extent) for extent in kernel.launch.grid)
    yield number("Blocks", multiply(*kernel.launch.grid), grid)
    producers = kernel.launch.producer_threads
    threads = f"{to_text(kernel.launch.threads)} + {to_text(producers)} of the producer" if producers != 0 else ""
    yield number("Threads a block", kernel.launch.block_threads, threads)
    for loop, _ in kernel.find(Loop):
        if loop.kind is not LoopKind.UNROLLED and not any(isinstance(op, Loop) for op in loop.body):
            yield number("Trips of the loop", loop.trips, f"{loop.variable}: {to_text(loop.trips)}")
            break
    bar = shared_bar(sized, kernel, {})
    if bar is not None:
        yield Number(
            "Shared memory",
            f"{bar.used:,}",
            None,
            "int",
            f"bytes of {bar.limit:,}",
        )
    yield from _resident(view, kernel)
    yield Number(
        "Fragments", f"{_fragments(view, kernel):,}", None, "int", "registers a thread, of the group with the most"
    )
    paths = dict.fromkeys(instruction_text(product_path(sized, kernel, gemm)) for gemm, _ in kernel.find(Gemm))
    if paths:
        yield Number("Products", ", ".join(paths), None, "text")
    yield number("Operations", plan.flops, "multiply and add count as two", "si")
    yield number("Bytes", plan.bytes_moved, "every operand read once, every result written once", "si")


def _resident(view: View, kernel: KernelPlan) -> Iterator[Number]:
    """Blocks that an SM holds at once, as ``tilegen diff`` has them: registers count by their estimate."""
    try:
        found = launch_budget(view.plan, kernel, view.sized.values)
    except (KeyError, ZeroDivisionError):
        return
    registers = "" if found.registers is None else f"; about {found.registers} registers a thread"
    yield Number("Blocks an SM", str(found.blocks_per_sm), None, "int", f"limited by {found.limiter}{registers}")


def _fragments(view: View, kernel: KernelPlan) -> int:
    """Registers that the fragments of a thread take, of the warp group that has the most."""
    from tilegen.plan.resources import fragment_registers

    totals: dict[int | None, int] = {}
    for buffer in kernel.scope(Scope.FRAGMENT):
        count = (view.sized.number(fragment_registers(kernel, buffer)) or 0) * view.sized.least(buffer.count)
        totals[buffer.warp_group] = totals.get(buffer.warp_group, 0) + count
    common = totals.pop(None, 0)
    return common + max(totals.values(), default=0)


def engineering(value: float) -> str:
    """``4.83 G``: three digits and a letter for the power of a thousand."""
    letters = ["", " k", " M", " G", " T", " P", " E"]
    step = 0
    while abs(value) >= 999.5 and step < len(letters) - 1:
        value, step = value / 1000, step + 1
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits if step else 0}f}{letters[step]}"
