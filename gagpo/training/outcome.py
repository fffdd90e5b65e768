"""What a run ends with, in lines for a terminal: held-out success and score, before and after."""

from collections.abc import Iterator

from shared.schemas.evaluation import EpisodeFigures, EvaluationReport


def outcome_lines(before: EvaluationReport | None, after: EvaluationReport | None) -> Iterator[str]:
    """Two lines for each environment and measure: before and after, each with its 95% interval.

    Scores are told where an environment grades its episodes; its name, where there are several.
    """
    told = {"before": before, "after": after}
    evaluations = {label: report for label, report in told.items() if report is not None}
    names = list(dict.fromkeys(name for report in evaluations.values() for name in report.environments))
    for name in names:
        own = {label: report.environments[name] for label, report in evaluations.items() if name in report.environments}
        who = f"{name} held-out" if len(names) > 1 else "held-out"
        for label, figures in own.items():
            yield f"{who} success {label:>6}: {_success(figures)}"
        if any(figures.graded for figures in own.values()):
            for label, figures in own.items():
                yield f"{who} score   {label:>6}: {_score(figures)}"


def _success(figures: EpisodeFigures) -> str:
    low, high = figures.success_interval.low, figures.success_interval.high
    return (
        f"{figures.success_rate:5.1%} (95%: {low:.1%}–{high:.1%}, {figures.episodes} episodes, "
        f"mean length {figures.mean_steps:.1f})"
    )


def _score(figures: EpisodeFigures) -> str:
    interval = figures.score_interval
    spread = "" if interval is None else f" (95%: {interval.low:.3f}–{interval.high:.3f})"
    return f"{figures.mean_score:5.3f}{spread}"
