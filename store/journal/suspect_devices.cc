#include "store/journal/suspect_devices.h"

#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kSuspectTable = "suspect";

std::string key_of(const SuspectDevice& device) {
  return KeyBuilder(kSuspectTable)
      .text(device.node)
      .text(device.type.name)
      .number(device.index)
      .key();
}

}  // namespace

template <>
struct RecordFields<SuspectDevice> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class Device, class Visit>
  static void visit_fields(Device& device, Visit& visit) {
    visit("node", device.node);
    visit("type", device.type.name);
    visit("index", device.index);
    visit("reason", device.reason);
  }
};

Result<SuspectDevice> decode_suspect_device(std::string_view bytes) {
  return decode_record<SuspectDevice>(bytes, "suspect device");
}

Status SuspectDevices::save(const SuspectDevice& device) {
  WriteBatch batch;
  batch.put(key_of(device), encode_record(device));
  return store_.write(batch, Durability::kSynced);
}

Status SuspectDevices::clear(const SuspectDevice& device) {
  WriteBatch batch;
  batch.erase(key_of(device));
  return store_.write(batch, Durability::kSynced);
}

Result<std::vector<SuspectDevice>> SuspectDevices::load_all() const {
  return load_table(store_, kSuspectTable, decode_suspect_device);
}

}  // namespace es::store
