#include "store/plans/plan_store.h"

#include <cmath>

#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr std::uint8_t kRecordVersion = 1;
constexpr std::uint8_t kPlansVersion = 2;

std::string plans_key(const std::string& model_key, std::uint32_t max_p) {
  return KeyBuilder("plans").text(model_key).number(max_p).key();
}

KeyBuilder capability_prefix(const std::string& model_key, std::uint32_t batch_size) {
  KeyBuilder key("capability");
  key.text(model_key).number(batch_size);
  return key;
}

std::string sync_key(const std::string& model_key, std::uint32_t batch_size) {
  return KeyBuilder("sync").text(model_key).number(batch_size).key();
}

bool is_rate(double value) {
  return std::isfinite(value) && value >= 0.0;
}

PlanRecord read_plan(RecordReader& in) {
  PlanRecord plan;
  // A part has three fields of 4 bytes and the text of a name.
  const std::uint32_t parts = in.count(12);
  for (std::uint32_t i = 0; i < parts && in.ok(); ++i) {
    PlanPart part;
    part.type.name = in.text();
    part.devices = in.u32();
    part.ests = in.u32();
    in.expect(!part.type.name.empty() && part.devices > 0 && part.ests > 0, "parts");
    plan.parts.push_back(std::move(part));
  }
  plan.waste = in.f64();
  plan.throughput_local_steps_per_s = in.f64();
  in.expect(is_rate(plan.waste), "waste");
  in.expect(is_rate(plan.throughput_local_steps_per_s), "throughput");
  return plan;
}

std::string encode_capability(const CapabilityRecord& record) {
  RecordWriter out(kRecordVersion);
  out.f64(record.local_steps_per_s);
  out.u64(record.measurements);
  return out.take();
}

}  // namespace

Result<CapabilityRecord> decode_capability(std::string_view bytes, const std::string& type,
                                           const std::string& model_key) {
  RecordReader in(bytes, kRecordVersion,
                  "capability of " + type + " for model \"" + model_key + '"');
  CapabilityRecord record;
  record.type.name = type;
  record.local_steps_per_s = in.f64();
  record.measurements = in.u64();
  // The scheduler divides by it, so 0, NaN and infinity are refused.
  in.expect(is_rate(record.local_steps_per_s) && record.local_steps_per_s > 0.0,
            "local_steps_per_s");
  ES_RETURN_IF_ERROR(in.finish());
  return record;
}

Result<std::vector<SyncRecord>> decode_sync(std::string_view bytes, const std::string& what) {
  RecordReader in(bytes, kRecordVersion, what);
  std::vector<SyncRecord> points;
  const std::uint32_t count = in.count(12);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    SyncRecord point;
    point.devices = in.u32();
    point.seconds = in.f64();
    in.expect(point.devices > (points.empty() ? 0 : points.back().devices), "devices");
    in.expect(is_rate(point.seconds), "seconds");
    points.push_back(point);
  }
  ES_RETURN_IF_ERROR(in.finish());
  return points;
}

std::string encode_plans(const PlanListRecord& list) {
  RecordWriter out(kPlansVersion);
  out.text(list.inputs);
  out.u32(list.complete ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(list.plans.size()));
  for (const PlanRecord& plan : list.plans) {
    out.u32(static_cast<std::uint32_t>(plan.parts.size()));
    for (const PlanPart& part : plan.parts) {
      out.text(part.type.name);
      out.u32(part.devices);
      out.u32(part.ests);
    }
    out.f64(plan.waste);
    out.f64(plan.throughput_local_steps_per_s);
  }
  return out.take();
}

Result<PlanListRecord> decode_plans(std::string_view bytes, const std::string& what) {
  RecordReader in(bytes, kPlansVersion, what);
  PlanListRecord list;
  list.inputs = in.text();
  const std::uint32_t complete = in.u32();
  in.expect(complete <= 1, "complete");
  list.complete = complete == 1;
  // A plan has at least the number of its parts (4 bytes) and two numbers of 8 bytes.
  const std::uint32_t count = in.count(20);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) list.plans.push_back(read_plan(in));
  ES_RETURN_IF_ERROR(in.finish());
  return list;
}

Status PlanStore::save_plans(const std::string& model_key, std::uint32_t max_p,
                             const PlanListRecord& list) {
  WriteBatch batch;
  batch.put(plans_key(model_key, max_p), encode_plans(list));
  return store_.write(batch, Durability::kBuffered);
}

Result<std::optional<PlanListRecord>> PlanStore::load_plans(const std::string& model_key,
                                                            std::uint32_t max_p) const {
  const Result<std::optional<std::string>> bytes = store_.get(plans_key(model_key, max_p));
  if (!bytes) return bytes.error();
  if (!bytes->has_value()) return std::optional<PlanListRecord>();
  Result<PlanListRecord> list = decode_plans(**bytes, "plans of model \"" + model_key + '"');
  if (!list) return list.error();
  return std::optional<PlanListRecord>(std::move(*list));
}

Status PlanStore::save_capability(const std::string& model_key, std::uint32_t batch_size,
                                  const CapabilityRecord& record) {
  ES_CHECK(is_rate(record.local_steps_per_s) && record.local_steps_per_s > 0.0);
  WriteBatch batch;
  batch.put(capability_prefix(model_key, batch_size).text(record.type.name).key(),
            encode_capability(record));
  // Plans can be computed again, so they are only buffered. A measurement cannot be computed, so it
  // is synced.
  return store_.write(batch, Durability::kSynced);
}

Result<std::vector<CapabilityRecord>> PlanStore::load_capabilities(const std::string& model_key,
                                                                   std::uint32_t batch_size) const {
  const std::string begin = capability_prefix(model_key, batch_size).key();
  const auto decode = [&](std::string_view key, std::string_view value) {
    const std::string type(key.substr(begin.size(), key.size() - begin.size() - 1));
    return decode_capability(value, type, model_key);
  };
  return scan_records<CapabilityRecord>(store_, begin, prefix_end(begin), decode);
}

Status PlanStore::save_sync(const std::string& model_key, std::uint32_t batch_size,
                            const std::vector<SyncRecord>& points) {
  RecordWriter out(kRecordVersion);
  out.u32(static_cast<std::uint32_t>(points.size()));
  std::uint32_t before = 0;
  for (const SyncRecord& point : points) {
    ES_CHECK(point.devices > before && is_rate(point.seconds));
    before = point.devices;
    out.u32(point.devices);
    out.f64(point.seconds);
  }
  WriteBatch batch;
  batch.put(sync_key(model_key, batch_size), out.take());
  return store_.write(batch, Durability::kSynced);
}

Result<std::vector<SyncRecord>> PlanStore::load_sync(const std::string& model_key,
                                                     std::uint32_t batch_size) const {
  const auto bytes = store_.get(sync_key(model_key, batch_size));
  if (!bytes) return bytes.error();
  if (!bytes->has_value()) return std::vector<SyncRecord>();
  return decode_sync(**bytes, "communication of model \"" + model_key + '"');
}

}  // namespace es::store
