"""What goes wrong with an evaluation and can be told in a sentence."""


class EvaluationError(Exception):
    """The evaluation cannot be made, or two cannot be compared; the message says why and what to do."""
