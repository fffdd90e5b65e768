"""``gagpo compare``: algorithms × seeds under one budget, and the report of how they differ.

A `study` is planned into ordinary runs (`planning`), which processes of their own make one after another (`lane`) while
the command watches (`running`). The report is made from the runs' files alone: `figures` and `curves` of each run,
`statistics` over seeds, put together in `numbers` and told by `markdown` and `plots`.
"""

from gagpo.comparing.estimate import estimates
from gagpo.comparing.planning import PlannedRun, StudyFolder, plan_runs
from gagpo.comparing.report import write_report
from gagpo.comparing.running import StudyJob, make_runs
from gagpo.comparing.study import Study, StudyError, load_study

__all__ = [
    "PlannedRun",
    "Study",
    "StudyError",
    "StudyFolder",
    "StudyJob",
    "estimates",
    "load_study",
    "make_runs",
    "plan_runs",
    "write_report",
]
