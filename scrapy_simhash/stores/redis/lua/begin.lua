#!lua flags=no-writes
-- KEYS: header, seq, leases, log, applied. ARGV: 'cluster' or ''. Returns header, seq, the crawls
-- that are alive, and in a cluster the commits that are not in all slots yet.
return {
  redis.call('GET', KEYS[1]),
  redis.call('GET', KEYS[2]) or '0',
  redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.0f', now()), '+inf'),
  ARGV[1] == '' and {} or
    redis.call('XRANGE', KEYS[4], '(' .. (redis.call('GET', KEYS[5]) or '0'), '+'),
}
