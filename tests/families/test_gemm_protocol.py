"""The barriers of the hand-written schedules under random interleavings, and the arithmetic of stream-K.

The barriers: one actor for each warp group and one for the producer. A run fails if TMA overwrites a stage that is being
read, if a stage is read before it is whole or holds another step, if a barrier gets more arrivals than it expects in a
phase, or if the actors stop.
"""

import random

import pytest


class Barrier:
    """An mbarrier: a phase ends when no arrival is pending and no byte is expected."""

    def __init__(self, count):
        self.count = self.pending = count
        self.bytes = self.phase = 0

    def _settle(self):
        assert self.pending >= 0, "more arrivals than the barrier expects"
        if self.pending == 0 and self.bytes == 0:
            self.phase ^= 1
            self.pending = self.count

    def arrive(self, expect=0):
        self.bytes += expect
        self.pending -= 1
        self._settle()

    def complete(self, size):
        self.bytes -= size
        self._settle()

    def passed(self, parity):
        """try_wait.parity: the phase of this parity is over."""
        return self.phase != parity


class Block:
    def __init__(self, stages, groups):
        self.loaded = [Barrier(2) for _ in range(stages)]
        self.freed = [Barrier(groups) for _ in range(stages)]
        self.tiles = {"a": [None] * stages, "b": [None] * stages}
        self.readers = [0] * stages
        self.flights = []


def produce(block, steps, stages, fault):
    for step in range(steps):
        stage, parity = step % stages, step // stages % 2
        while fault != "producer does not wait" and not block.freed[stage].passed(parity ^ 1):
            yield
        for operand in ("a", "b"):
            block.loaded[stage].arrive(expect=1)
            block.flights.append((operand, stage, step))
            yield


def consume(block, steps, k_steps, stages, fault, chance):
    held = None
    for step in range(steps):
        stage, parity = step % stages, step // stages % 2
        while not block.loaded[stage].passed(parity ^ (fault == "consumer waits for the other phase")):
            yield
        assert block.tiles["a"][stage] == block.tiles["b"][stage] == step, "the stage does not hold this step"
        block.readers[stage] += 1
        yield
        if fault == "stage freed while it is read":
            block.freed[stage].arrive()
            yield
            block.readers[stage] -= 1
            continue
        if held is not None:  # wait_wgmma(1): the product before this one is complete
            yield from release(block, held)
        held = stage
        if step % k_steps == k_steps - 1:  # wait_wgmma(0), then the epilogue
            yield from release(block, held)
            held = None
            for _ in range(chance.randrange(6)):
                yield


def release(block, stage):
    block.readers[stage] -= 1
    block.freed[stage].arrive()
    yield


def land(block, chance):
    operand, stage, step = block.flights.pop(chance.randrange(len(block.flights)))
    assert block.readers[stage] == 0, "TMA overwrites a stage that is being read"
    block.tiles[operand][stage] = step
    block.loaded[stage].complete(1)


def interleave(seed, stages, groups, tiles=3, fault=None):
    chance = random.Random(seed)
    k_steps = chance.choice((1, 2, 5, 8))
    steps, block = tiles * k_steps, Block(stages, groups)
    actors = [produce(block, steps, stages, fault)]
    actors += [consume(block, steps, k_steps, stages, fault, chance) for _ in range(groups)]
    weights = [chance.choice((1, 4, 16)) for _ in actors]
    for _ in range(400 * steps * len(actors)):
        if block.flights and chance.random() < 0.2:
            land(block, chance)
        if not actors:
            assert not block.flights
            return
        chosen = chance.choices(range(len(actors)), weights)[0]
        try:
            next(actors[chosen])
        except StopIteration:
            del actors[chosen], weights[chosen]
    raise AssertionError(f"stopped: seed {seed}, {len(actors)} actors left")


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_no_interleaving_of_producer_and_consumers_goes_wrong(groups, stages) -> None:
    for seed in range(60):
        interleave(seed, stages, groups)


@pytest.mark.parametrize(
    "fault",
    ["producer does not wait", "consumer waits for the other phase", "stage freed while it is read"],
)
def test_the_simulation_finds_a_fault(fault) -> None:
    found = 0
    for seed in range(60):
        try:
            interleave(seed, 2, 2, fault=fault)
        except AssertionError:
            found += 1
    assert found > 0


def ceildiv(x, y):
    return -(-x // y)


def runs_of(tiles, k_steps, blocks):
    """The parts of each block, by the index expressions of runs.jinja: (block, part, tile, k_start, k_count)."""
    total = tiles * k_steps
    run = ceildiv(total, blocks)
    for block in range(blocks):
        start = min(block * run, total)
        stop = min(start + run, total)
        for part in range(ceildiv(stop, k_steps) - start // k_steps):
            tile = start // k_steps + part
            k_start = max(start - tile * k_steps, 0)
            yield block, part, tile, k_start, min(stop - tile * k_steps, k_steps) - k_start


def shapes(count):
    chance = random.Random(0)
    for _ in range(count):
        yield chance.randint(1, 270), chance.randint(1, 40), chance.choice((1, 2, 7, 64, 112, 128, 132, 264))


def test_stream_k_does_every_step_once_and_every_slot_once() -> None:
    for tiles, k_steps, blocks in shapes(1500):
        covered = [0] * (tiles * k_steps)
        slots = set()
        for block, part, tile, k_start, k_count in runs_of(tiles, k_steps, blocks):
            assert k_count > 0, "a run with an empty part"
            for k in range(k_start, k_start + k_count):
                covered[tile * k_steps + k] += 1
            if k_count < k_steps:
                slot = 2 * block + min(part, 1)
                assert slot not in slots, "two parts in one slot"
                slots.add(slot)
        assert all(times == 1 for times in covered)


def test_the_last_block_of_a_tile_knows_it_and_finds_every_run() -> None:
    for tiles, k_steps, blocks in shapes(1500):
        run = ceildiv(tiles * k_steps, blocks)
        arrivals, slots, counters = {}, {}, {}
        for block, part, tile, _, k_count in runs_of(tiles, k_steps, blocks):
            if k_count < k_steps:
                arrivals[tile] = arrivals.get(tile, 0) + 1
                slots[2 * block + min(part, 1)] = tile
                counters.setdefault(tile * k_steps // run, set()).add(tile)
        for tile, count in arrivals.items():
            first_block = tile * k_steps // run
            runs = (tile * k_steps + k_steps - 1) // run - first_block + 1
            assert runs == count
            for w in range(runs):
                assert slots[2 * (first_block + w) + min(tile - (first_block + w) * run // k_steps, 1)] == tile
        assert all(first_block < blocks for first_block in counters)
        assert all(len(sharing) == 1 for sharing in counters.values()), "two tiles count in one place"
