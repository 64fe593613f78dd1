#!lua flags=allow-oom
-- KEYS: applied. ARGV: seq of a commit that is in all slots, as are those before it.
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1])
end
