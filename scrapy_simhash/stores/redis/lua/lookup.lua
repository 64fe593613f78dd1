#!lua flags=no-writes
-- For a server that is no cluster. ARGV: begin of the hashes of records, documents of each, hash of
-- walls, most documents of a row; then by rows of a fingerprint their hash and their two fields.
-- Returns the values of these fields, and of the first documents in them number, record and wall.
local function record_of(number)
  local chunk = string.format('%s%.0f}', ARGV[1], math.floor(number / tonumber(ARGV[2])))
  return redis.call('HGET', chunk, string.format('%.0f', number))
end

local values, documents, known = {}, {}, {}
for at = 5, #ARGV, 3 do
  local row = redis.call('HMGET', ARGV[at], ARGV[at + 1], ARGV[at + 2])
  values[#values + 1], values[#values + 2] = row[1], row[2]
  local numbers = {}
  for start = 1, #(row[2] or '') - 7, 8 do
    numbers[#numbers + 1] = {struct.unpack('>I8', row[2], start), string.sub(row[2], start, start + 7)}
  end
  table.sort(numbers, function(one, other) return one[1] < other[1] end)
  for place = 1, math.min(#numbers, tonumber(ARGV[4])) do
    local number, packed = numbers[place][1], numbers[place][2]
    if not known[number] then
      known[number] = true
      documents[#documents + 1] = packed
      documents[#documents + 1] = record_of(number)
      documents[#documents + 1] = redis.call('HGET', ARGV[3], packed)
    end
  end
end
return {values, documents}
