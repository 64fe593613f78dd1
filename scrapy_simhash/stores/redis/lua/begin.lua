#!lua flags=no-writes
-- KEYS: header, seq, leases, log, applied. ARGV: the two fields of the header, 'cluster' or ''.
-- Returns these fields, seq, the crawls that are alive, and in a cluster the commits that are not in
-- all slots yet.
return {
  redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2]),
  redis.call('GET', KEYS[2]) or '0',
  list_valid(KEYS[3]),
  ARGV[3] == '' and {} or
    redis.call('XRANGE', KEYS[4], '(' .. (redis.call('GET', KEYS[5]) or '0'), '+'),
}
