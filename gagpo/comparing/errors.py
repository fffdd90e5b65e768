"""What can be wrong with a study."""


class StudyError(Exception):
    """A study that cannot be used. The message has one line a fault."""
