#pragma once
// Decodes all records in a range of keys.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/kv/key_value_store.h"
#include "store/kv/keys.h"

namespace es::store {

// Returns the records of all keys in [begin, end), or of the first `most` of them, in the order of
// the keys. `decode(key, value)` returns a Result<Record>; its first error ends the scan and is
// returned.
template <class Record, class Decode>
Result<std::vector<Record>> scan_records(const KeyValueStore& store, const std::string& begin,
                                         const std::string& end, Decode decode,
                                         std::size_t most = SIZE_MAX) {
  std::vector<Record> records;
  Status decoded;
  const Status scanned = store.scan(begin, end, [&](std::string_view key, std::string_view value) {
    Result<Record> record = decode(key, value);
    if (record.ok())
      records.push_back(std::move(*record));
    else
      decoded = record.error();
    return decoded.ok() && records.size() < most;
  });
  ES_RETURN_IF_ERROR(scanned);
  ES_RETURN_IF_ERROR(decoded);
  return records;
}

// Returns all records of a table, in the order of their keys. Error: the first one of `decode`.
template <class Record>
Result<std::vector<Record>> load_table(const KeyValueStore& store, const char* table,
                                       Result<Record> (*decode)(std::string_view value)) {
  const std::string begin = KeyBuilder(table).key();
  return scan_records<Record>(
      store, begin, prefix_end(begin),
      [decode](std::string_view, std::string_view value) { return decode(value); });
}

}  // namespace es::store
