-- Set the state of a job, unless a trainer service keeps it: then only the service decides.
-- KEYS: jobs hash, the job's state
-- ARGV: id, new state
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then redis.call("SET", KEYS[2], ARGV[2]) end
return redis.status_reply("OK")
