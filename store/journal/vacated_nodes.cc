#include "store/journal/vacated_nodes.h"

#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kVacatedTable = "vacated";

std::string vacated_key(const std::string& node) {
  return KeyBuilder(kVacatedTable).text(node).key();
}

}  // namespace

// The name is in the key too, as a check of the directory needs it (store/recovery/records.cc).
template <>
struct RecordFields<VacatedNode> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class Node, class Visit>
  static void visit_fields(Node& node, Visit& visit) {
    visit("node", node.node);
    visit("gone_unix_ms", node.gone_unix_ms);
  }
};

Result<VacatedNode> decode_vacated_node(std::string_view bytes) {
  return decode_record<VacatedNode>(bytes, "vacated node");
}

Status VacatedNodes::save(const VacatedNode& node) {
  WriteBatch batch;
  batch.put(vacated_key(node.node), encode_record(node));
  return store_.write(batch, Durability::kSynced);
}

Status VacatedNodes::erase(const std::string& node) {
  WriteBatch batch;
  batch.erase(vacated_key(node));
  return store_.write(batch, Durability::kSynced);
}

Result<std::vector<VacatedNode>> VacatedNodes::load_all() const {
  return load_table(store_, kVacatedTable, decode_vacated_node);
}

}  // namespace es::store
