// Collects the entries of all topics.
#include <map>

#include "gpu/import/kind.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

using KindTable = std::map<std::string_view, Kind>;

KindTable make_kind_table() {
  KindTable table;
  for (auto topic :
       {attention_kinds, conv_kinds, detection_kinds, elementwise_kinds, integer_kinds, loss_kinds,
        move_kinds, norm_kinds, padding_kinds, pool_kinds, product_kinds, random_kinds,
        recurrent_kinds, reduction_kinds, resize_kinds, row_kinds, state_kinds})
    for (Kind& kind : topic()) {
      const std::string_view name = kind.name;
      ES_CHECK_MSG(kind.outputs != nullptr && kind.lower != nullptr, kind.name);
      ES_CHECK_MSG(table.emplace(name, std::move(kind)).second, std::string(name));
    }
  return table;
}

const KindTable& kind_table() {
  static const KindTable table = make_kind_table();
  return table;
}

}  // namespace

const Kind* find_kind(std::string_view name) {
  const auto found = kind_table().find(name);
  return found == kind_table().end() ? nullptr : &found->second;
}

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, kind] : kind_table()) names.push_back(name);
  return names;
}

Outputs same_as_input(const NodeView& node) {
  return one_output(node.in().type, node.shape());
}

}  // namespace es::gpu
