#!lua flags=allow-oom
-- KEYS: leases. ARGV: name, its holder (the name and a token), microseconds, and what to do: 'take' it,
-- unless it has another holder; 'keep' it; or keep it if it did not end meanwhile, 'hold'.
-- Returns whether the holder has it now.
local time = now()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', time))
if ARGV[4] == 'hold' and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
if ARGV[4] == 'take' then
  for _, holder in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local same = string.find(holder, ARGV[1] .. ' ', 1, true) == 1
    -- Its own where the answer was lost on the way, and this was sent again.
    if same and holder ~= ARGV[2] then return 0 end
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', time + tonumber(ARGV[3])), ARGV[2])
return 1
