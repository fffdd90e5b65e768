"""Where training steps are told to: the run's own ``metrics.jsonl``, and TensorBoard, W&B and MLflow as asked for."""

from services.trainer.trackers.metrics_file import MetricsFile
from services.trainer.trackers.opening import Trackers, check_trackers
from services.trainer.trackers.tracker import TrackedJob, Tracker, TrackerError

__all__ = ["MetricsFile", "TrackedJob", "Tracker", "TrackerError", "Trackers", "check_trackers"]
