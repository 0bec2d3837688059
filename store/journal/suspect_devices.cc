#include "store/journal/suspect_devices.h"

#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr const char* kSuspectTable = "suspect";
constexpr std::uint8_t kSuspectRecordVersion = 1;

std::string key_of(const SuspectDevice& device) {
  return KeyBuilder(kSuspectTable)
      .text(device.node)
      .text(device.type.name)
      .number(device.index)
      .key();
}

}  // namespace

Result<SuspectDevice> decode_suspect_device(std::string_view bytes) {
  RecordReader in(bytes, kSuspectRecordVersion, "suspect device");
  SuspectDevice device;
  device.node = in.text();
  device.type.name = in.text();
  device.index = in.u32();
  device.reason = in.text();
  ES_RETURN_IF_ERROR(in.finish());
  return device;
}

Status SuspectDevices::save(const SuspectDevice& device) {
  RecordWriter out(kSuspectRecordVersion);
  out.text(device.node);
  out.text(device.type.name);
  out.u32(device.index);
  out.text(device.reason);
  WriteBatch batch;
  batch.put(key_of(device), out.take());
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
