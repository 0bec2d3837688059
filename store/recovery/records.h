#pragma once
// What the pairs of a state directory are (store/README.md has the tables): for checking all of
// them, and for naming one to a person.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// A key, taken apart.
struct RecordKey {
  std::string table;
  std::vector<std::string> texts;       // components, in order
  std::optional<std::uint64_t> number;  // the component that is one
};

// None: not a key of any table.
std::optional<RecordKey> parse_key(std::string_view key);

// `ledger of job "a-1", version 7`; of any bytes.
std::string name_of_key(std::string_view key);

// Error (failure): no table has this key, or its value was not written by this program.
Status check_record(std::string_view key, std::string_view value);

// Of all pairs. Error (failure): the first that is wrong, by name.
Status check_records(const KeyValueStore& store);

// Keys after `after` from which there may be records, ascending: `salvage_database` asks for them.
std::vector<std::string> starts_after(const std::map<std::string, std::string>& pairs,
                                      const std::string& after);

}  // namespace es::store
