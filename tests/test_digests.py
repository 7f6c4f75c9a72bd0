"""Digests of rows: the same everywhere and for ever, different for different rows, and matched in order."""

import hashlib
from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import digests
from recallatk.digests import match_rows, row_digests

DTYPES = ("float16", "float32", "float64", "int8", "uint8")

# Stored digests are compared with new ones: if one of these changes, every stored truth is out of date.
GOLDEN = {
    "float16": [
        [0x6012D641090E74AA, 0x26852CF65AA2E614],
        [0xBF72B9011C7124DA, 0xCE9C2C5DAFB52794],
    ],
    "float32": [
        [0x155A051E7670E214, 0x51CA178EAC364E28],
        [0xCE2F166BA80575CE, 0xA166880A98335F82],
    ],
    "float64": [
        [0x9036A1C2D7269370, 0xACA73CB037C40610],
        [0x13619B370C6C9E2C, 0x3A97E3B98F3F5D05],
    ],
    "int8": [
        [0x7D70B2A801768727, 0x8F57383AE975178B],
        [0xEB381BA739FD258D, 0x2BC040051EF9BE46],
    ],
    "uint8": [
        [0x7D70B2A801768727, 0x8F57383AE975178B],
        [0xEB381BA739FD258D, 0x2BC040051EF9BE46],
    ],
}


def any_rows(dtype, rows, width, seed=0):
    """Rows of any bytes at all, NaNs of every kind among them."""
    size = rows * width * np.dtype(dtype).itemsize
    octets = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return octets.view(np.dtype(dtype).newbyteorder("<")).reshape(rows, width)


def digest_by_definition(octets):
    """The digest of one row in whole numbers: each half of a folded word times the key of that half."""
    words = [int.from_bytes(octets[at : at + 8], "little") for at in range(0, len(octets), 8)]
    found = []
    for column in range(2):
        stream = hashlib.shake_256(b"recallatk row digest 1, column %d" % column).digest(8 + 16 * len(words))
        keys = [int.from_bytes(stream[at : at + 8], "little") for at in range(0, len(stream), 8)]
        total = keys[0] * len(octets)
        for place, word in enumerate(words):
            folded = word ^ (word >> 17)
            lower_key, extra = keys[1 + 2 * place : 3 + 2 * place]
            total += (folded % 2**32) * lower_key + (folded >> 32) * (lower_key * 2**32 + extra)
        found.append(total % 2**64)
    return found


def match_by_definition(old, new):
    waiting = defaultdict(deque)
    for row, digest in enumerate(new.tolist()):
        waiting[tuple(digest)].append(row)
    place = [waiting[key].popleft() if waiting[key] else -1 for key in map(tuple, old.tolist())]
    return place, sorted(row for rows in waiting.values() for row in rows)


def assert_matched(old, new):
    place, added = match_rows(old, new)
    assert place.dtype == added.dtype == np.int64
    assert (place.tolist(), added.tolist()) == match_by_definition(old, new)


def assert_all_different(rows):
    """No two digests are equal, and what is more, no two of either half."""
    assert len({row.tobytes() for row in rows}) == len(rows), "the rows themselves are not all different"
    found = row_digests(rows)
    for half in found.T:
        assert len(np.unique(half)) == len(half)


class TestRowDigests:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_golden_values_never_change(self, dtype):
        block = np.array([[0, 1, 2], [3, 4, 127]], dtype=dtype)
        assert row_digests(block).tolist() == GOLDEN[dtype]

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 25, 100, 384])
    def test_the_definition_in_whole_numbers_agrees(self, dtype, width):
        block = any_rows(dtype, 5, width, seed=width)
        assert row_digests(block).tolist() == [digest_by_definition(row.tobytes()) for row in block]

    def test_there_is_one_pair_of_numbers_per_row(self):
        found = row_digests(np.zeros((3, 4), dtype=np.float32))
        assert found.shape == (3, 2)
        assert found.dtype == np.uint64

    def test_no_rows_have_no_digests(self):
        assert row_digests(np.empty((0, 4), dtype=np.float32)).shape == (0, 2)

    @given(
        dtype=st.sampled_from(DTYPES),
        width=st.integers(1, 40),
        cuts=st.lists(st.integers(0, 60), max_size=5).map(sorted),
        chunk_bytes=st.sampled_from([1, 100, 1000, 2**18]),
    )
    def test_blocks_and_chunks_do_not_matter(self, monkeypatch, dtype, width, cuts, chunk_bytes):
        block = any_rows(dtype, 60, width)
        whole = row_digests(block)
        with monkeypatch.context() as patch:
            patch.setattr(digests, "_CHUNK_BYTES", chunk_bytes)
            parts = [row_digests(part) for part in np.split(block, cuts)]
        assert (np.concatenate(parts) == whole).all()

    def test_a_block_of_many_chunks_is_its_rows(self):
        block = any_rows("float32", 2000, 384)
        assert block.nbytes > 2 * digests._CHUNK_BYTES
        assert (row_digests(block)[::97] == row_digests(block[::97])).all()

    def test_a_row_longer_than_a_chunk_has_a_digest(self):
        block = any_rows("float64", 2, digests._CHUNK_BYTES // 8 + 1)
        assert row_digests(block).tolist() == [digest_by_definition(row.tobytes()) for row in block]

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_memory_layout_does_not_matter(self, dtype):
        block = any_rows(dtype, 50, 13)
        wanted = row_digests(block)
        apart = np.zeros((100, 39), dtype=block.dtype)[::-2, 1::3]
        apart[...] = block
        shifted = np.zeros(block.nbytes + 1, dtype=np.uint8)[1:].view(block.dtype).reshape(block.shape)
        shifted[...] = block
        read_only = block.copy()
        read_only.flags.writeable = False
        for other in (np.asfortranarray(block), apart, shifted, read_only):
            assert (row_digests(other) == wanted).all()

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("width", [1, 6, 8])
    def test_byte_order_of_the_array_does_not_matter(self, dtype, width):
        block = any_rows(dtype, 20, width)
        swapped = block.astype(block.dtype.newbyteorder(">"))
        assert (row_digests(swapped) == row_digests(block)).all()

    def test_a_file_that_is_mapped_has_the_same_digests(self, tmp_path):
        block = any_rows("float32", 30, 7)
        np.save(tmp_path / "block.npy", block)
        mapped = np.load(tmp_path / "block.npy", mmap_mode="r")
        assert (row_digests(mapped) == row_digests(block)).all()

    def test_the_input_is_left_alone(self):
        block = any_rows("float32", 30, 8)
        before = block.tobytes()
        row_digests(block)
        assert block.tobytes() == before


class TestDifferentRows:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("width", [1, 3, 8, 100])
    def test_every_single_bit_counts(self, dtype, width):
        row = any_rows(dtype, 1, width).view(np.uint8)
        bits = np.packbits(np.eye(row.size * 8, dtype=np.uint8), axis=1)
        assert_all_different(np.vstack([row, row ^ bits]).view(dtype))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_pair_of_bits_counts(self, dtype):
        row = any_rows(dtype, 1, 16 // np.dtype(dtype).itemsize).view(np.uint8)
        bits = np.eye(128, dtype=np.uint8)
        pairs = [bits[one] | bits[other] for one in range(128) for other in range(one)]
        assert_all_different(np.vstack([row, row ^ np.packbits(pairs, axis=1)]).view(dtype))

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize("width", [13, 384])
    def test_signs_of_any_subset_count(self, dtype, width):
        generator = np.random.default_rng(5)
        row = generator.standard_normal(width).astype(dtype)
        # Few, about half and nearly all of the signs.
        shares = generator.choice([0.01, 0.5, 0.99], (20_000, 1))
        subsets = np.unique(generator.random((20_000, width)) < shares, axis=0)
        assert len(subsets) > 2000
        assert_all_different(np.where(subsets, -row, row))

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
    def test_every_vector_of_plus_and_minus_one_is_told_apart(self, dtype):
        signs = (np.arange(2**16)[:, np.newaxis] >> np.arange(16)) & 1
        assert_all_different((2 * signs - 1).astype(dtype))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_signs_of_every_two_elements_count(self, dtype):
        row = np.random.default_rng(6).standard_normal(100).astype(dtype)
        block = np.tile(row, (100 * 99 // 2, 1))
        one, other = np.triu_indices(100, k=1)
        for elements in (one, other):
            block[np.arange(len(block)), elements] *= -1
        assert_all_different(np.vstack([row, block]))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_swapping_any_two_elements_counts(self, dtype):
        row = np.random.default_rng(7).permutation(100).astype(dtype)
        one, other = np.triu_indices(100, k=1)
        block = np.tile(row, (len(one), 1))
        places = np.arange(len(one))
        block[places, one], block[places, other] = row[other], row[one]
        assert_all_different(np.vstack([row, block]))

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("width", [3, 128])
    def test_order_of_the_elements_counts(self, dtype, width):
        generator = np.random.default_rng(8)
        orders = np.unique(generator.permuted(np.tile(np.arange(width), (5000, 1)), axis=1), axis=0)
        assert_all_different(orders.astype(dtype))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_moving_a_value_to_another_place_counts(self, dtype):
        values = np.array([1, 2, 3, 64, 100], dtype=dtype)
        alone = [value * np.eye(384, dtype=dtype) for value in values]
        assert_all_different(np.vstack([np.zeros((1, 384), dtype=dtype), *alone]))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_shifting_all_values_by_one_place_counts(self, dtype):
        row = any_rows(dtype, 1, 384, seed=9)[0]
        assert_all_different(np.stack([np.roll(row, shift) for shift in range(384)]).view(np.uint8))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_any_change_of_any_row_counts(self, dtype):
        generator = np.random.default_rng(10)
        block = any_rows(dtype, 10_000, 24, seed=10)
        changed = block.view(np.uint8).copy()
        rows = np.arange(len(block))
        for _ in range(3):
            places = generator.integers(0, changed.shape[1], len(block))
            changed[rows, places] ^= generator.integers(1, 256, len(block), dtype=np.uint8)
        # Two changes of one byte may undo each other.
        really = (changed != block.view(np.uint8)).any(axis=1)
        differs = row_digests(block) != row_digests(changed)
        assert (differs == really[:, np.newaxis]).all()

    def test_zeros_at_the_end_count(self):
        lengths = [row_digests(np.zeros((1, width), dtype=np.uint8))[0].tolist() for width in range(1, 30)]
        assert len(set(map(tuple, lengths))) == len(lengths)

    def test_the_two_zeros_differ(self):
        plus, minus = row_digests(np.array([[0.0], [-0.0]], dtype=np.float32))
        assert (plus != minus).all()


# Few values, so that digests repeat, and often in one half alone.
SOME_DIGESTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2**64 - 1])), max_size=30)


def as_digests(pairs):
    return np.array(pairs, dtype=np.uint64).reshape(-1, 2)


class TestMatchRows:
    @given(old=SOME_DIGESTS, new=SOME_DIGESTS)
    def test_the_definition_agrees(self, old, new):
        assert_matched(as_digests(old), as_digests(new))

    @given(start=SOME_DIGESTS, old=SOME_DIGESTS, new=SOME_DIGESTS)
    def test_the_definition_agrees_after_a_common_start(self, start, old, new):
        assert_matched(as_digests(start + old), as_digests(start + new))

    @given(data=st.data(), old=SOME_DIGESTS, fresh=SOME_DIGESTS)
    def test_the_definition_agrees_on_edits(self, data, old, fresh):
        kept = [pair for pair in old if data.draw(st.booleans())]
        new = data.draw(st.permutations(kept + fresh))
        assert_matched(as_digests(old), as_digests(new))

    @pytest.mark.parametrize("seed", range(5))
    def test_rows_that_were_deleted_inserted_and_moved_are_found(self, seed):
        generator = np.random.default_rng(seed)
        old = row_digests(generator.integers(-3, 3, (5000, 4)).astype(np.int8))
        fresh = row_digests(generator.integers(-9, 9, (500, 4)).astype(np.int8))
        kept = old[generator.random(5000) < 0.9]
        for new in (
            kept,
            np.insert(kept, 70, fresh, axis=0),
            generator.permutation(np.vstack([kept, fresh])),
        ):
            assert_matched(old, new)
            assert_matched(new, old)

    def test_appended_rows_are_added_without_a_sort(self, monkeypatch):
        monkeypatch.setattr(digests, "_match_sorted", None)
        new = row_digests(any_rows("float32", 100, 4))
        for count in (0, 60, 100):
            place, added = match_rows(new[:count], new)
            assert place.tolist() == list(range(count))
            assert added.tolist() == list(range(count, 100))

    def test_rows_cut_off_at_the_end_are_gone_without_a_sort(self, monkeypatch):
        monkeypatch.setattr(digests, "_match_sorted", None)
        old = row_digests(any_rows("float32", 10, 4))
        place, added = match_rows(old, old[:7])
        assert place.tolist() == [0, 1, 2, 3, 4, 5, 6, -1, -1, -1]
        assert added.tolist() == []

    def test_equal_rows_are_matched_in_order(self):
        a, b, c = (1, 1), (1, 2), (2, 1)
        place, added = match_rows(as_digests([a, b, a, a, c]), as_digests([b, a, a, b]))
        assert place.tolist() == [1, 0, 2, -1, -1]
        assert added.tolist() == [3]

    def test_both_halves_must_agree(self):
        place, added = match_rows(as_digests([(5, 1), (5, 2)]), as_digests([(5, 2), (5, 3), (4, 1)]))
        assert place.tolist() == [-1, 0]
        assert added.tolist() == [1, 2]

    def test_the_digests_are_left_alone(self):
        old, new = as_digests([(3, 1), (2, 2)]), as_digests([(2, 2), (3, 1)])
        match_rows(old, new)
        assert old.tolist() == [[3, 1], [2, 2]]
        assert new.tolist() == [[2, 2], [3, 1]]
