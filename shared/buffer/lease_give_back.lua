-- End a holder's leases on some groups.
-- KEYS: leases hash
-- ARGV: holder, groups "<step>:<index>"
for i = 2, #ARGV do
  local lease = redis.call("HGET", KEYS[1], ARGV[i])
  if lease and string.match(lease, "^%d+ (.*)$") == ARGV[1] then redis.call("HDEL", KEYS[1], ARGV[i]) end
end
return 0
