"""Greedy cubes and key ranges of boxes on the Z-curve: the source's lemmas in small cases, and its examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import ceil, log2, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering.classical.zcurve import Cube, Universe, count_cubes, cubes_needed
from palio.errors import InvalidArgument


def runs(stretches: Iterable[range]) -> int:
    """How many stretches of keys remain when neighbours are joined."""
    count, end = 0, -1
    for each in sorted(stretches, key=lambda each: each.start):
        count += each.start != end
        end = each.stop
    return count


def runs_of(sides: Sequence[int], bits: int) -> int:
    universe = Universe(len(sides), bits)
    return runs(map(universe.key_range, universe.cubes(sides)))


def quadtree(sides: Sequence[int], bits: int) -> Iterator[Cube]:
    """The largest standard cubes in a box at the far corner, by halving the universe."""
    waiting = [Cube(bits, (0,) * len(sides))]
    starts = [(1 << bits) - side for side in sides]
    while waiting:
        cube = waiting.pop()
        low = [at << cube.level for at in cube.corner]
        if all(at >= start for at, start in zip(low, starts, strict=True)):
            yield cube
        elif all(at + (1 << cube.level) > start for at, start in zip(low, starts, strict=True)) and cube.level:
            waiting += [
                Cube(cube.level - 1, tuple(2 * at + bit for at, bit in zip(cube.corner, half, strict=True)))
                for half in product((0, 1), repeat=len(sides))
            ]


def kept(number: int, bits: int) -> int:
    """A number with its so many most significant bits, and zeros after them."""
    rest = max(0, number.bit_length() - bits)
    return number >> rest << rest


def aspect(sides: Sequence[int]) -> int:
    return max(sides).bit_length() - min(sides).bit_length()


@st.composite
def boxes(draw: st.DrawFn, most_bits: int = 5, most_dimensions: int = 3) -> tuple[int, tuple[int, ...]]:
    bits = draw(st.integers(1, most_bits))
    sides = draw(st.lists(st.integers(1, 1 << bits), min_size=1, max_size=most_dimensions))
    return bits, tuple(sides)


class TestKeys:
    def test_bits_take_turns(self) -> None:
        universe = Universe(2, 3)
        assert universe.key(Cube(0, (0b010, 0b011))) == 13
        assert universe.key(Cube(0, (0b011, 0b011))) == 15

    @given(st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=6))
    def test_they_are_those_of_the_definition(self, corner: list[int]) -> None:
        bits = [f"{each:020b}" for each in corner]
        expected = int("".join("".join(column) for column in zip(*bits, strict=True)), 2)
        assert Universe(len(corner), 20).key(Cube(0, tuple(corner))) == expected

    def test_the_cells_of_a_cube_are_one_stretch(self) -> None:
        universe = Universe(2, 4)
        for level in range(5):
            for corner in product(range(1 << (4 - level)), repeat=2):
                cells = product(*(range(at << level, (at + 1) << level) for at in corner))
                keys = sorted(universe.key(Cube(0, cell)) for cell in cells)
                assert keys == list(universe.key_range(Cube(level, corner)))

    def test_another_curve_may_have_fewer_runs(self) -> None:
        """Three cells in a row are three runs of the Z-curve, and two of Hilbert's."""
        universe = Universe(2, 2)
        cells = [(0, 0), (1, 0), (2, 0)]
        keys = [universe.key(Cube(0, cell)) for cell in cells]
        assert sorted(keys) == [0, 2, 8]
        assert runs(range(key, key + 1) for key in keys) == 3
        hilbert = [hilbert_key(4, *cell) for cell in cells]
        assert hilbert == [0, 1, 14]
        assert runs(range(key, key + 1) for key in hilbert) == 2


def hilbert_key(size: int, x: int, y: int) -> int:
    key = 0
    half = size // 2
    while half:
        right, up = int(x & half > 0), int(y & half > 0)
        key += half * half * ((3 * right) ^ up)
        if not up:
            if right:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        half //= 2
    return key


class TestCubes:
    @given(boxes())
    def test_they_are_those_of_a_quadtree(self, case: tuple[int, tuple[int, ...]]) -> None:
        """Lemma 5 and 6: the greedy cubes are the largest that halving finds; disjoint, aligned, inside, and all."""
        bits, sides = case
        found = list(Universe(len(sides), bits).cubes(sides))
        assert len(set(found)) == len(found)
        assert set(found) == set(quadtree(sides, bits))
        assert [cube.level for cube in found] == sorted((cube.level for cube in found), reverse=True)

    @given(boxes())
    def test_their_number_is_known_in_advance(self, case: tuple[int, tuple[int, ...]]) -> None:
        """Lemma 7, and that their volumes add up; Lemma 3: there are no more runs than cubes."""
        bits, sides = case
        counts = count_cubes(sides)
        found = [cube.level for cube in Universe(len(sides), bits).cubes(sides)]
        assert counts == [found.count(level) for level in range(min(sides).bit_length())]
        assert sum(count << (level * len(sides)) for level, count in enumerate(counts)) == prod(sides)
        assert runs_of(sides, bits) <= sum(counts)

    @given(boxes())
    def test_cubes_of_a_size_are_there_where_a_side_has_that_bit(self, case: tuple[int, tuple[int, ...]]) -> None:
        """Lemma 6."""
        _, sides = case
        for level, count in enumerate(count_cubes(sides)):
            assert (count > 0) == any(side >> level & 1 for side in sides)

    @given(boxes())
    def test_a_box_of_twice_the_size_has_as_many(self, case: tuple[int, tuple[int, ...]]) -> None:
        _, sides = case
        assert sum(count_cubes([2 * side for side in sides])) == sum(count_cubes(sides))

    def test_seven_by_five(self) -> None:
        """The source's Figure 4.10."""
        universe = Universe(2, 3)
        found = list(universe.cubes((7, 5)))
        assert count_cubes((7, 5)) == [11, 2, 1]
        assert [cube.corner for cube in found if cube.level == 2] == [(1, 1)]
        assert [cube.corner for cube in found if cube.level == 1] == [(1, 2), (1, 3)]
        unit = [cube for cube in found if cube.level == 0]
        assert sorted(map(universe.key, unit)) == [7, 13, 15, 18, 19, 22, 23, 37, 39, 45, 47]
        assert [universe.key(cube) for cube in found if cube.level == 1] == [6, 7]
        assert [universe.key(cube) for cube in found if cube.level == 2] == [3]
        assert runs_of((7, 5), 3) == 9

    @pytest.mark.parametrize(
        ("sides", "counts", "count", "of_runs"),
        [
            ((3, 3), [5, 1], 6, 4),
            ((5, 3), [7, 2], 9, 6),
            ((6, 6), [0, 5, 1], 6, 4),
            ((8, 8), [0, 0, 0, 1], 1, 1),
            ((8, 3), [8, 4], 12, 8),
        ],
    )
    def test_small_boxes(self, sides: tuple[int, int], counts: list[int], count: int, of_runs: int) -> None:
        assert count_cubes(sides) == counts
        assert sum(counts) == count
        assert runs_of(sides, 3) == of_runs

    @pytest.mark.parametrize("bits", [9, 10])
    def test_a_cell_more_makes_one_run_hundreds(self, bits: int) -> None:
        """The source's Figure 4.7."""
        assert (sum(count_cubes((256, 256))), runs_of((256, 256), bits)) == (1, 1)
        assert (sum(count_cubes((257, 257))), runs_of((257, 257), bits)) == (514, 385)
        assert cubes_needed((257, 257), 0.01) == 1


class TestBounds:
    @given(boxes(most_bits=30, most_dimensions=8), st.sampled_from([0.5, 0.2, 0.1, 0.05, 0.01]))
    def test_few_bits_of_the_sides_hold_most_of_the_volume(
        self, case: tuple[int, tuple[int, ...]], epsilon: float
    ) -> None:
        """Lemma 4; and hence a search needs no more cubes than the shortened sides have."""
        _, sides = case
        bits = ceil(log2(2 * len(sides) / epsilon))
        shortened = [kept(side, bits) for side in sides]
        assert prod(shortened) >= (1 - epsilon) * prod(sides)
        assert cubes_needed(sides, epsilon) <= sum(count_cubes(shortened))

    def test_the_example_of_shortened_sides(self) -> None:
        assert ceil(log2(2 * 2 / 0.05)) == 7
        assert kept(257, 7) == 256
        assert kept(1000, 7) == 1000
        assert round(kept(257, 7) * kept(1000, 7) / (257 * 1000), 4) == 0.9961

    @pytest.mark.parametrize("dimensions", [2, 3])
    @pytest.mark.parametrize("bits", [1, 2, 3])
    @pytest.mark.parametrize("ratio", [0, 1])
    def test_the_most_cubes_are_of_sides_with_all_bits_set(self, dimensions: int, bits: int, ratio: int) -> None:
        """Lemma 8: the shortest side shorter, all others as long as the longest, every kept bit a one."""
        longest = bits + ratio
        worst = [(1 << bits) - 1, *[((1 << bits) - 1) << ratio] * (dimensions - 1)]
        assert aspect(worst) == ratio
        most = sum(count_cubes(worst))
        lengths = [each for each in range(1, 1 << longest) if kept(each, bits) == each]
        for sides in product(lengths, repeat=dimensions):
            if aspect(sides) == ratio and max(sides).bit_length() == longest:
                assert sum(count_cubes(sides)) <= most

    @given(boxes(most_bits=12, most_dimensions=4), st.integers(1, 4))
    def test_the_corrected_bound_on_cubes(self, case: tuple[int, tuple[int, ...]], bits: int) -> None:
        """Lemma 9 with a factor of 2d in the place of m, which is where the proof's rounding loses."""
        _, sides = case
        dimensions = len(sides)
        if dimensions > 1:
            shortened = [kept(side, bits) for side in sides]
            bound = 2 * dimensions * (2 ** aspect(sides) * (2**bits - 1)) ** (dimensions - 1)
            assert sum(count_cubes(shortened)) <= bound

    @pytest.mark.parametrize(
        ("dimensions", "bits", "cubes", "printed"), [(3, 2, 20, 18), (4, 2, 66, 54), (4, 3, 1171, 1029)]
    )
    def test_the_printed_bound_fails(self, dimensions: int, bits: int, cubes: int, printed: int) -> None:
        side = (1 << bits) - 1
        assert sum(count_cubes([side] * dimensions)) == cubes
        assert bits * side ** (dimensions - 1) == printed
        assert cubes > printed

    @pytest.mark.parametrize(("dimensions", "most"), [(2, 6), (3, 4)])
    def test_a_full_search_needs_as_many_runs_as_the_lower_bound_says(self, dimensions: int, most: int) -> None:
        """Theorem 3: the shortest side is 2^γ - 1, the others have γ + α bits."""
        for short in range(1, most):
            for ratio in range(most - short):
                others = [(1 << (short + ratio)) - 1] * (dimensions - 1)
                sides = (*others, (1 << short) - 1)
                assert runs_of(sides, most) >= (2 ** (short + ratio - 1)) ** (dimensions - 1)

    def test_the_cost_of_a_partial_search_does_not_grow_with_the_box(self) -> None:
        """Theorem 2: with the same ratio of sides, cubes reach a limit while those of all grow with the side."""
        sides = [(1 << bits) - 1 for bits in (8, 12, 16, 20)]
        assert [cubes_needed((side, side), 0.05) for side in sides] == [126, 155, 157, 157]
        assert [sum(count_cubes((side, side))) for side in sides] == [996, 16_344, 262_092, 4_194_240]
        assert [cubes_needed((side, side), 0.0) for side in sides] == [996, 16_344, 262_092, 4_194_240]


@given(boxes(), st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9]))
def test_what_is_planned_is_what_a_search_takes(case: tuple[int, tuple[int, ...]], epsilon: float) -> None:
    bits, sides = case
    volume, needed = 0, 0
    for cube in Universe(len(sides), bits).cubes(sides):
        if volume >= (1 - epsilon) * prod(sides):
            break
        volume += 1 << (cube.level * len(sides))
        needed += 1
    assert abs(cubes_needed(sides, epsilon) - needed) <= (epsilon not in (0.0, 0.5))  # floats of a tenth are no tenth
    assert cubes_needed(sides, 0.0) == sum(count_cubes(sides))


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 1.5])
def test_what_is_left_out_is_a_share(epsilon: float) -> None:
    with pytest.raises(InvalidArgument):
        cubes_needed((3, 3), epsilon)
