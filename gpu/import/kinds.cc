// Collects the entries of all topics.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>

#include "gpu/import/kind.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

using KindTable = std::map<std::string_view, Kind>;
using Entries = std::vector<Kind> (*)();

KindTable make_kind_table() {
  KindTable table;
  for (KindTopic& topic : kind_topics())
    for (Kind& kind : topic.kinds) {
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

std::vector<Kind> all_of(std::initializer_list<Entries> files) {
  std::vector<Kind> kinds;
  for (const Entries entries : files) std::ranges::move(entries(), std::back_inserter(kinds));
  return kinds;
}

}  // namespace

std::vector<KindTopic> kind_topics() {
  return {
      {"Element by element", all_of({elementwise_kinds})},
      {"Integers", all_of({integer_kinds})},
      {"Random numbers", all_of({random_kinds})},
      {"Reductions", all_of({reduction_kinds})},
      {"Products", all_of({product_kinds, conv_kinds, attention_kinds, recurrent_kinds})},
      {"Normalisation", all_of({norm_kinds})},
      {"States", all_of({state_kinds})},
      {"Moves", all_of({move_kinds, padding_kinds, row_kinds})},
      {"Pooling and resizing", all_of({pool_kinds, resize_kinds})},
      {"Losses", all_of({loss_kinds, detection_kinds})},
  };
}

const Kind* find_kind(std::string_view name) {
  const auto found = kind_table().find(name);
  return found == kind_table().end() ? nullptr : &found->second;
}

bool is_element_wise_kind(std::string_view name) {
  static const std::set<std::string_view> kNames = [] {
    std::set<std::string_view> names;
    for (const Kind& kind : elementwise_kinds()) names.insert(kind.name);
    return names;
  }();
  return kNames.contains(name);
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
