-- Prolong a holder's leases, and its place among those at work.
-- KEYS: leases hash, makers sorted set
-- ARGV: holder, life of a lease (ms), groups "<step>:<index>"
-- Returns the groups that somebody else has leased meanwhile.
local holder, life = ARGV[1], tonumber(ARGV[2])
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ends = string.format("%.0f", now + life)
redis.call("ZADD", KEYS[2], ends, holder)

local lost = {}
for i = 3, #ARGV do
  local lease = redis.call("HGET", KEYS[1], ARGV[i])
  local until_ms, by = string.match(lease or "0 ", "^(%d+) (.*)$")
  if by ~= holder and tonumber(until_ms) > now then
    lost[#lost + 1] = ARGV[i]
  else
    redis.call("HSET", KEYS[1], ARGV[i], ends .. " " .. holder)
  end
end
redis.call("PEXPIRE", KEYS[1], life)
redis.call("PEXPIRE", KEYS[2], life)
return lost
