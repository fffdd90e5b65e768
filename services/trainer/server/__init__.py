"""The trainer service: the job API, and the supervisor that works off the queue of jobs (DESIGN §8)."""
