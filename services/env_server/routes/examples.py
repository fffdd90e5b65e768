"""Examples for the OpenAPI document, as the server really answers."""

from typing import Any

OBSERVATION: dict[str, Any] = {
    "session_id": "pX0r5Zy1mE2vQ8sT4uWkLg",
    "task_id": "pick_and_place_simple-Mug-None-Desk-308/trial_T20190907_012345_678901",
    "observation": "You are in the middle of a room. Looking quickly around you, you see a desk 1, a shelf 1.\n\n"
    "Your task is to: put some mug on desk.",
    "admissible_actions": ["go to desk 1", "go to shelf 1", "inventory", "look"],
    "state_key": "You are in the middle of a room. Looking quickly around you, you see a desk 1, a shelf 1.",
    "step_index": 0,
    "info": {"won": False, "task_type": "pick_and_place_simple"},
}
STEP_RESULT: dict[str, Any] = OBSERVATION | {
    "observation": "On the shelf 1, you see a mug 1.",
    "admissible_actions": ["go to desk 1", "inventory", "look", "take mug 1 from shelf 1"],
    "state_key": "On the shelf 1, you see a mug 1.",
    "step_index": 1,
    "info": {"won": False, "task_type": "pick_and_place_simple", "valid_action": True},
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
}
PROBLEM: dict[str, Any] = {
    "type": "/problems/step-conflict",
    "title": "The step does not fit the session's history",
    "status": 409,
    "detail": "step_index: step 7 is not next; session pX0r5Zy1mE2vQ8sT4uWkLg is at step 1, "
    "as GET /v1/sessions/pX0r5Zy1mE2vQ8sT4uWkLg tells.",
    "expected_step_index": 1,
}
SESSION_REQUEST: dict[str, Any] = {"environment": "alfworld", "split": "train", "index": 0, "count": 8}
STEP_REQUEST: dict[str, Any] = {"action": "go to shelf 1", "step_index": 0}
STEP_BATCH: dict[str, Any] = {"steps": [{"session_id": OBSERVATION["session_id"], **STEP_REQUEST}]}
STEP_BATCH_RESULT: dict[str, Any] = {"results": [STEP_RESULT, PROBLEM]}
SESSION_STATE: dict[str, Any] = OBSERVATION | {
    "history_length": 0,
    "expires_in_s": 3600.0,
    "terminated": False,
    "truncated": False,
}
