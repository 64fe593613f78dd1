#!lua flags=allow-oom
-- KEYS: leases. ARGV: crawl, its holder (the crawl and a token), microseconds, 'new' to take it,
-- 'old' to keep it. Returns whether the holder has it now; it takes none from another holder.
local time = now()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', time))
if ARGV[4] == 'new' then
  for _, holder in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local of_crawl = string.find(holder, ARGV[1] .. ' ', 1, true) == 1
    -- Its own where the answer was lost on the way, and this was sent again.
    if of_crawl and holder ~= ARGV[2] then return 0 end
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', time + tonumber(ARGV[3])), ARGV[2])
return 1
