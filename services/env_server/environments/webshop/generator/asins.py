"""Product numbers to asins: ``B0`` and eight digits."""

from services.env_server.environments.webshop.generator.dice import Dice

HALF = 10_000
LARGEST_CATALOGUE = HALF * HALF
ROUNDS = 4


class AsinScramble:
    """A bijection between product numbers and asins, so that none repeats and none has to be remembered.

    A Feistel network over the two halves of an eight-digit number: whatever its round function, it is reversible.
    Neighbours get unrelated asins, which matters because equal search scores are ordered by asin.
    """

    def __init__(self, seed: int) -> None:
        dice = Dice.seeded("asins", seed)
        self.keys = [dice.below(1 << 30) for _ in range(ROUNDS)]

    def __call__(self, number: int) -> str:
        """The asin of a product, for numbers below `LARGEST_CATALOGUE`."""
        left, right = divmod(number, HALF)
        for key in self.keys:
            mixed = (right + key) * 0x9E3779B1 & 0xFFFFFFFF
            mixed = (mixed ^ mixed >> 15) * 0x85EBCA77 & 0xFFFFFFFF
            left, right = right, (left + (mixed ^ mixed >> 13)) % HALF
        return f"B0{left:04d}{right:04d}"
