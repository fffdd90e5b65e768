-- Acknowledge and delete every entry of the training steps that a checkpoint covers, and move the frontier.
-- KEYS: groups stream, seen hash, held bytes, frontier
-- ARGV: first step to keep, name of the consumer group
-- Returns the number of entries deleted.
local upto = tonumber(ARGV[1])
local frontier = tonumber(redis.call("GET", KEYS[4]) or "0")
if upto > frontier then redis.call("SET", KEYS[4], ARGV[1]) end

local entries = redis.call("HGETALL", KEYS[2])
local freed, deleted = 0, 0
for i = 1, #entries, 2 do
  local step = tonumber(string.match(entries[i], "^(%d+):"))
  if step < upto then
    local id, size = string.match(entries[i + 1], "^(%S+) (%d+)$")
    -- The stream or its consumer group may be gone after a loss of data; releasing must still work.
    redis.pcall("XACK", KEYS[1], ARGV[2], id)
    redis.call("XDEL", KEYS[1], id)
    redis.call("HDEL", KEYS[2], entries[i])
    freed = freed + tonumber(size)
    deleted = deleted + 1
  end
end
if freed > 0 then redis.call("DECRBY", KEYS[3], freed) end
return deleted
