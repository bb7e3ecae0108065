"""Code that names CUDA devices, on a machine without one."""

import pytest

from tilegen.targets import target

torch = pytest.importorskip("torch")


@pytest.fixture
def on_cpu():
    from tilegen.interp.cpu_for_cuda import cpu_for_cuda

    with cpu_for_cuda(target("sm_90a")):
        yield


WAYS = {
    "device in words": lambda: torch.ones(2, device="cuda"),
    "device with a number": lambda: torch.ones(2, device="cuda:1"),
    "device object": lambda: torch.ones(2, device=torch.device("cuda")),
    "cuda()": lambda: torch.ones(2).cuda(),
    "cuda(device)": lambda: torch.ones(2).cuda(0),
    "to(device)": lambda: torch.ones(2).to("cuda"),
    "to(device, dtype)": lambda: torch.ones(2, dtype=torch.float16).to("cuda", torch.float32),
    "to(device=)": lambda: torch.ones(2).to(device=torch.device("cuda", 0)),
    "to(number)": lambda: torch.ones(2).to(0),
    "device=number": lambda: torch.ones(2, device=0),
    "device(number)": lambda: torch.ones(2).to(torch.device(0)),
    "pinned": lambda: torch.ones(2, pin_memory=True).to("cuda", non_blocking=True),
    "pin_memory()": lambda: torch.ones(2).pin_memory().cuda(),
    "like": lambda: torch.ones_like(torch.empty(2), device="cuda"),
    "default device": lambda: _with_default_device(),
    "a module": lambda: torch.nn.Linear(1, 2, bias=False, device="cuda").to("cuda").weight.detach().view(2) * 0 + 1,
}


def _with_default_device():
    with torch.device("cuda"):
        return torch.ones(2)


@pytest.mark.parametrize("name", WAYS)
def test_a_cuda_tensor_lives_on_the_cpu(on_cpu, name):
    tensor = WAYS[name]()
    assert tensor.device.type == "cpu"
    assert torch.equal(tensor, torch.ones(2))


def test_generators_of_a_cuda_device_are_those_of_the_cpu(on_cpu):
    generator = torch.Generator(device="cuda").manual_seed(1)
    assert torch.randn(3, device="cuda", generator=generator).device.type == "cpu"


def test_random_numbers_may_be_forked_on_cuda_devices(on_cpu):
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0]):
        inside = torch.rand(1)
    assert torch.equal(torch.rand(1), inside)


def test_torch_describes_the_chip(on_cpu):
    torch.cuda.synchronize()
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == target("sm_90a").part.sm_count
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0


def test_streams_and_events_are_there_and_order_nothing(on_cpu):
    from tilelang.carver.arch import driver

    stream, first, last = (
        torch.cuda.Stream(),
        torch.cuda.Event(enable_timing=True),
        torch.cuda.Event(enable_timing=True),
    )
    with torch.cuda.stream(stream):
        first.record()
        tensor = torch.ones(2, device="cuda")
        last.record(stream)
    torch.cuda.current_stream().wait_stream(stream)
    last.synchronize()
    assert first.elapsed_time(last) != first.elapsed_time(last)
    assert torch.equal(tensor, torch.ones(2))
    assert driver.get_num_sms() == target("sm_90a").part.sm_count


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_afterwards_there_is_no_device_again():
    from tilegen.interp.cpu_for_cuda import cpu_for_cuda

    with cpu_for_cuda(target("sm_80")):
        assert torch.cuda.get_device_capability() == (8, 0)
        assert not torch.cuda.is_available()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(2, device="cuda")
