"""Arithmetic with temporary arrays of 1 to 8 MiB, as in many programs: `arrays.pgr`."""

import numpy

ROUNDS = 60


def main() -> None:
    """Prints a sum, so that nothing is left out."""
    random = numpy.random.default_rng(1)
    small, other = random.random(1 << 18), random.random(1 << 18)
    large = random.random(1 << 20)
    total = 0.0
    for number in range(ROUNDS):
        total += float((small * other + numpy.sqrt(small) - other * 0.5).sum())
        if number % 3 == 0:
            total += float(numpy.where(large > 0.5, large * 2, large - 1)[::97].sum())
        empty = numpy.zeros(1 << 17)
        empty[:] = small[: 1 << 17]
        picture = numpy.full((256 + number % 7 * 64, 256, 4), number & 255, dtype=numpy.uint8)
        total += float(empty[5]) + float(picture[3, 4, 1])
    print(total)


if __name__ == "__main__":
    main()
