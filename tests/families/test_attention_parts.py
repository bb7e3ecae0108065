"""How schedule `delayed` divides the keys of a batch: no key is left out, and the combine reads what the parts wrote.

The arithmetic stands here once more as plain Python, line for line that of the kernels.
"""

import random

import pytest

BLOCK_N = 64


def blocks_of(lengths):
    """block_offset: key blocks before each sequence; one without keys counts as one."""
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + max(-(-length // BLOCK_N), 1))
    return offsets


def find_parts(offsets, parts):
    """part_batch: the sequence in which each part begins, B past the end."""
    batch = len(offsets) - 1
    size = -(-offsets[-1] // parts)
    found = [None] * (parts + 1)
    for sequence in range(batch):
        for part in range(-(-offsets[sequence] // size), -(-offsets[sequence + 1] // size)):
            found[part] = sequence
    for part in range(-(-offsets[-1] // size), parts + 1):
        found[part] = batch
    return found


def attend(offsets, part_batch, parts):
    """What the parts take and write: the key blocks, the sequences written whole, and the sequence of each slot."""
    size = -(-offsets[-1] // parts)
    taken, whole, slots = [], [], {}
    for part in range(parts):
        start = part * size
        steps = min(offsets[-1] - start, size)
        if steps <= 0:
            continue
        first, last = part_batch[part], part_batch[part + 1]
        if offsets[last] == start + steps:
            last -= 1
        for sequence in range(first, last + 1):
            base, end = offsets[sequence], offsets[sequence + 1]
            first_step, last_step = max(base - start, 0), min(end - start, steps) - 1
            taken += [(sequence, start + step - base) for step in range(first_step, last_step + 1)]
            if last_step - first_step == end - base - 1:
                whole.append(sequence)
            else:
                slot = 2 * part + (sequence > first)
                assert slot not in slots, "two sequences write one slot"
                slots[slot] = sequence
    return taken, whole, slots


def combined(offsets, parts, sequence):
    """The slots that the combine reads for a sequence; none where it lies in one part."""
    share = -(-offsets[-1] // parts)
    begin, end = offsets[sequence], offsets[sequence + 1]
    first = begin // share
    pieces = (end - 1) // share - first + 1
    first_slot = 2 * first + (first * share < begin)
    return [max(first_slot, 2 * (first + piece)) for piece in range(pieces)] if pieces > 1 else []


def batches():
    choose = random.Random(0)
    yield [0], 66
    yield [1], 1
    yield [8192], 66
    yield [64] * 66, 66
    yield [0, 0, 0, 5000, 0], 7
    for _ in range(400):
        batch = choose.randint(1, 40)
        longest = choose.choice([1, 64, 65, 1000, 8192])
        yield [choose.randint(0, longest) for _ in range(batch)], choose.choice([1, 2, 7, 54, 66, 132])


BATCHES = list(batches())


@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_every_key_block_is_taken_once_and_the_combine_reads_what_was_written(case):
    lengths, parts = BATCHES[case]
    offsets = blocks_of(lengths)
    taken, whole, slots = attend(offsets, find_parts(offsets, parts), parts)
    assert sorted(taken) == [
        (sequence, block)
        for sequence in range(len(lengths))
        for block in range(offsets[sequence + 1] - offsets[sequence])
    ]
    assert max(slots, default=0) < 2 * parts
    for sequence in range(len(lengths)):
        read = combined(offsets, parts, sequence)
        assert read == sorted(slot for slot, owner in slots.items() if owner == sequence)
        assert (sequence in whole) == (not read)
