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


def ragged_parts(offsets, parts):
    """(start, steps, first, last) of every part that is not empty: its key blocks and its sequences."""
    part_batch, size = find_parts(offsets, parts), -(-offsets[-1] // parts)
    for part in range(parts):
        start = part * size
        steps = min(offsets[-1] - start, size)
        if steps > 0:
            first, last = part_batch[part], part_batch[part + 1]
            yield start, steps, first, last - (offsets[last] == start + steps)


def even_parts(batch, key_blocks, chunk):
    """The same where every sequence has as many key blocks, and nothing is looked up."""
    for part in range(-(-batch * key_blocks // chunk)):
        start = part * chunk
        steps = min(batch * key_blocks - start, chunk)
        yield start, steps, start // key_blocks, (start + steps - 1) // key_blocks


def attend(offsets, parts):
    """What the parts take and write: the key blocks, the sequences written whole, and the sequence of each slot."""
    taken, whole, slots = [], [], {}
    for part, (start, steps, first, last) in enumerate(parts):
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


def combined(offsets, share, sequence):
    """The slots that the combine reads for a sequence; none where it lies in one part of `share` blocks."""
    begin, end = offsets[sequence], offsets[sequence + 1]
    first = begin // share
    pieces = (end - 1) // share - first + 1
    first_slot = 2 * first + (first * share < begin)
    return [max(first_slot, 2 * (first + piece)) for piece in range(pieces)] if pieces > 1 else []


def assert_divided(offsets, parts, share):
    """Every key block is taken once, and the combine reads what was written, of the sequences that are cut."""
    sequences = range(len(offsets) - 1)
    parts = list(parts)
    taken, whole, slots = attend(offsets, parts)
    assert sorted(taken) == [(i, block) for i in sequences for block in range(offsets[i + 1] - offsets[i])]
    assert max(slots, default=0) < 2 * len(parts)
    for sequence in sequences:
        read = combined(offsets, share, sequence)
        assert read == sorted(slot for slot, owner in slots.items() if owner == sequence)
        assert (sequence in whole) == (not read)


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
def test_of_a_batch_of_lengths_every_key_block_is_taken_once_and_the_combine_reads_what_was_written(case):
    lengths, parts = BATCHES[case]
    offsets = blocks_of(lengths)
    assert_divided(offsets, ragged_parts(offsets, parts), -(-offsets[-1] // parts))


@pytest.mark.parametrize("context", [1, 63, 64, 65, 1000, 4090, 8192])
def test_of_equal_lengths_every_key_block_is_taken_once_and_the_combine_reads_what_was_written(context):
    key_blocks = -(-context // BLOCK_N)
    for batch in (1, 2, 3, 7, 16, 66):
        offsets = blocks_of([context] * batch)
        for chunk in range(1, min(batch * key_blocks, 140) + 1):
            assert_divided(offsets, even_parts(batch, key_blocks, chunk), chunk)


def test_equal_lengths_are_divided_as_their_list_would_be():
    for batch, context, parts in ((1, 8192, 66), (4, 8192, 66), (16, 4096, 66), (3, 1000, 7)):
        offsets = blocks_of([context] * batch)
        chunk = -(-offsets[-1] // parts)
        by_list = list(ragged_parts(offsets, parts))
        assert list(even_parts(batch, offsets[1], chunk)) == by_list
