-- Lease groups that nobody has made and nobody is making, a fair share of them at most.
-- KEYS: leases hash, makers sorted set, seen hash, frontier
-- ARGV: holder, life of a lease (ms), most groups to lease now, groups that the holder is making already,
--       candidates "<step>:<index>", the most urgent first, without those that the holder is making
-- Returns the candidates that were leased. Asking again after a lost answer leases the same ones.
local holder, life = ARGV[1], tonumber(ARGV[2])
local room, held = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ends = string.format("%.0f", now + life)

redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", now)
redis.call("ZADD", KEYS[2], ends, holder)
local makers = redis.call("ZCARD", KEYS[2])

local frontier = tonumber(redis.call("GET", KEYS[4]) or "0")
local missing, free = held, {}
for i = 5, #ARGV do
  local step = tonumber(string.match(ARGV[i], "^(%d+):"))
  if step >= frontier and redis.call("HEXISTS", KEYS[3], ARGV[i]) == 0 then
    missing = missing + 1
    local lease = redis.call("HGET", KEYS[1], ARGV[i])
    local until_ms, by = string.match(lease or "0 ", "^(%d+) (.*)$")
    if by == holder or tonumber(until_ms) <= now then free[#free + 1] = ARGV[i] end
  end
end

-- Together the shares are never less than what is missing, so no group waits for an orchestrator that has enough.
local count = math.min(room, math.ceil(missing / makers) - held, #free)
local taken = {}
for i = 1, count do
  redis.call("HSET", KEYS[1], free[i], ends .. " " .. holder)
  taken[i] = free[i]
end
-- When every holder is gone, nothing is left behind.
redis.call("PEXPIRE", KEYS[1], life)
redis.call("PEXPIRE", KEYS[2], life)
return taken
