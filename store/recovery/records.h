#pragma once
// Interprets the pairs of a state directory (docs/reference/state-directory.md lists the tables),
// to check all of them and to name one for a person.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// A key, separated into its components.
struct RecordKey {
  std::string table;
  std::vector<std::string> texts;       // text components, in order
  std::optional<std::uint64_t> number;  // the numeric component, if any
};

// Returns nullopt if the bytes are not a key of any table.
std::optional<RecordKey> parse_key(std::string_view key);

// `ledger of job "a-1", version 7`; works for any bytes.
std::string name_of_key(std::string_view key);

// Error (failure): no table has this key, or this program did not write the value.
Status check_record(std::string_view key, std::string_view value);

// Checks all pairs. Error (failure): the first wrong pair, by name.
Status check_records(const KeyValueStore& store);

// Keys after `after` from which there may be records, ascending, for salvage_database.
std::vector<std::string> starts_after(const std::map<std::string, std::string>& pairs,
                                      const std::string& after);

}  // namespace es::store
