"""What a plan cannot be made from."""


class PlanError(ValueError):
    """Something needed for a plan is missing or makes no sense; the message says what would be right."""
