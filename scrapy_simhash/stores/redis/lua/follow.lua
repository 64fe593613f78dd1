#!lua flags=no-writes
-- For a server that is no cluster. ARGV: by two tables the begin and end of their hashes' names, and
-- how many octets of a key are between; then hash, field and prefix of sets with members of 16 octets,
-- of which the last 8 are a key of these tables. Returns the sets, and for each of the keys in members
-- that begin with the prefix the key and its two values.
local function read(at, key)
  local octets = tonumber(ARGV[at + 2])
  local lead = string.format(string.rep('%02x', octets), string.byte(key, 1, octets))
  return redis.call('HGET', ARGV[at] .. lead .. ARGV[at + 1], string.sub(key, octets + 1))
end

local sets, found, known = {}, {}, {}
for at = 7, #ARGV, 3 do
  local set, prefix = redis.call('HGET', ARGV[at], ARGV[at + 1]), ARGV[at + 2]
  sets[#sets + 1] = set
  for start = 1, set and #set or 0, 16 do
    local key = string.sub(set, start + 8, start + 15)
    if not known[key] and string.sub(set, start, start + #prefix - 1) == prefix then
      known[key] = true
      found[#found + 1] = key
      found[#found + 1] = read(1, key)
      found[#found + 1] = read(4, key)
    end
  end
end
return {sets, found}
