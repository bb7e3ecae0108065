"""The route of a call: straight to the launch, or through torch's dispatcher where something has to see it."""

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


class Traced:
    """Writes down which way calls went."""

    def __init__(self, launching):
        self.seen = []
        self.launcher = launching.Launcher(self.prepare, self.dispatch, self.signature)

    def prepare(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError("`x` must be a torch.Tensor")
        self.seen.append("prepare")
        return lambda x: self.seen.append("launch")

    def dispatch(self, x):
        self.seen.append("dispatch")

    def signature(self, x):
        if torch.is_grad_enabled() and x.requires_grad:
            return None
        return type(x), x.shape, x.dtype


@pytest.fixture
def traced(support):
    return Traced(support("launching"))


def test_a_second_call_like_the_first_goes_straight_to_the_launch(traced):
    for rows in (4, 4, 5):
        traced.launcher(torch.zeros(rows))
    assert traced.seen == ["prepare", "launch", "launch", "prepare", "launch"]


def test_autograd_sees_a_call_only_where_it_records(traced):
    x = torch.zeros(4, requires_grad=True)
    traced.launcher(x)
    with torch.no_grad():
        traced.launcher(x)
    assert traced.seen == ["dispatch", "prepare", "launch"]


def test_a_parameter_is_a_tensor_like_any_other(traced):
    with torch.no_grad():
        traced.launcher(torch.nn.Parameter(torch.zeros(4)))
    assert traced.seen == ["prepare", "launch"]


def test_fake_tensors_modes_and_transforms_go_through_torch(traced):
    with FakeTensorMode():
        fake = torch.zeros(4)
        traced.launcher(fake)
    traced.launcher(fake)
    torch.func.vmap(lambda x: (traced.launcher(x), x)[1])(torch.zeros(2, 4))
    assert traced.seen == ["dispatch"] * 3


def test_what_is_no_tensor_is_refused_by_the_checks(traced):
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
        traced.launcher([1.0])


def test_the_launch_below_the_dispatcher_does_not_go_back_to_it(traced):
    traced.launcher.direct(torch.zeros(4, requires_grad=True))
    assert traced.seen == ["prepare", "launch"]


def test_launches_are_forgotten_on_request_and_when_there_are_too_many(traced):
    traced.launcher.REMEMBERED = 2
    for rows in (1, 2, 3, 1):
        traced.launcher(torch.zeros(rows))
    assert traced.seen.count("prepare") == 4
    traced.launcher.forget()
    traced.launcher(torch.zeros(1))
    assert traced.seen.count("prepare") == 5


def test_a_gradient_can_be_differentiated_again(support):
    launching = support("launching")

    @torch.library.custom_op("tilegen_test_launching::cube", mutates_args=())
    def cube(x: torch.Tensor, factor: float) -> torch.Tensor:
        return factor * x**3

    cube.register_fake(lambda x, factor: torch.empty_like(x))
    cube.register_autograd(
        lambda ctx, grad: launching.differentiate(lambda x, factor: factor * x**3, ctx, grad),
        setup_context=launching.remember,
    )
    x = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(cube(x, 0.5).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [6.0, 1.5]
    assert second.tolist() == [6.0, -3.0]
    assert torch.autograd.gradcheck(lambda x: cube(x, 0.5), x)
