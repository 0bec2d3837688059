#include "store/journal/vacated_nodes.h"

#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kVacatedTable = "vacated";
constexpr std::uint8_t kVacatedRecordVersion = 1;

std::string vacated_key(const std::string& node) {
  return KeyBuilder(kVacatedTable).text(node).key();
}

}  // namespace

Result<VacatedNode> decode_vacated_node(std::string_view bytes) {
  RecordReader in(bytes, kVacatedRecordVersion, "vacated node");
  VacatedNode node;
  node.node = in.text();
  node.gone_unix_ms = in.u64();
  ES_RETURN_IF_ERROR(in.finish());
  return node;
}

Status VacatedNodes::save(const VacatedNode& node) {
  RecordWriter out(kVacatedRecordVersion);
  // The name is in the key too, as a check of the directory needs it (store/recovery/records.cc).
  out.text(node.node);
  out.u64(node.gone_unix_ms);
  WriteBatch batch;
  batch.put(vacated_key(node.node), out.take());
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
