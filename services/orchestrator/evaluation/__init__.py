"""Evaluation: episodes of any policy on a seeded choice of tasks, their transcripts and their report."""
