#pragma once
// VacatedNodes keeps the nodes that jobs have to leave (`esctl drain`), also across restarts of the
// head. Every write is on disk before the call returns.
//
// One thread of the head owns it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

struct VacatedNode {
  std::string node;
  std::uint64_t gone_unix_ms = 0;  // when it will be gone, in milliseconds since 1970
  bool operator==(const VacatedNode&) const = default;
};

// Error (failure): the bytes were not written by VacatedNodes.
Result<VacatedNode> decode_vacated_node(std::string_view bytes);

class VacatedNodes {
 public:
  // `store` must outlive this object.
  explicit VacatedNodes(KeyValueStore& store) : store_(store) {}

  // Inserts the node, or replaces its time.
  Status save(const VacatedNode& node);
  // It is no error if the node is not contained.
  Status erase(const std::string& node);
  // All by name. Error (failure): a record cannot be read.
  Result<std::vector<VacatedNode>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
