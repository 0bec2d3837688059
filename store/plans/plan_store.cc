#include "store/plans/plan_store.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

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

// Communication is a list without a structure of its own.
struct SyncList {
  std::vector<SyncRecord> points;
};

}  // namespace

template <>
struct RecordFields<PlanPart> {
  template <class Part, class Visit>
  static void visit_fields(Part& part, Visit& visit) {
    visit(part.type.name);
    visit(part.devices);
    visit(part.ests);
    visit.expect(!part.type.name.empty() && part.devices > 0 && part.ests > 0);
  }
};

template <>
struct RecordFields<PlanRecord> {
  template <class Plan, class Visit>
  static void visit_fields(Plan& plan, Visit& visit) {
    visit(plan.parts);
    visit(plan.waste);
    visit(plan.throughput_local_steps_per_s);
    visit.expect(is_rate(plan.waste) && is_rate(plan.throughput_local_steps_per_s));
  }
};

template <>
struct RecordFields<PlanListRecord> {
  static constexpr std::uint8_t kOldestVersion = 2;
  template <class List, class Visit>
  static void visit_fields(List& list, Visit& visit) {
    visit("inputs", list.inputs);
    visit.coded(
        "complete", list.complete, [](bool complete) { return std::uint32_t{complete}; },
        [](std::uint32_t number) {
          return number <= 1 ? std::optional(number == 1) : std::nullopt;
        });
    visit("plans", list.plans);
  }
};

// The type is in the key.
template <>
struct RecordFields<CapabilityRecord> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class Record, class Visit>
  static void visit_fields(Record& record, Visit& visit) {
    visit("local_steps_per_s", record.local_steps_per_s);
    // The scheduler divides by it, so 0, NaN and infinity are refused.
    visit.expect(is_rate(record.local_steps_per_s) && record.local_steps_per_s > 0.0);
    visit("measurements", record.measurements);
  }
};

template <>
struct RecordFields<SyncRecord> {
  template <class Point, class Visit>
  static void visit_fields(Point& point, Visit& visit) {
    visit(point.devices);
    visit(point.seconds);
    visit.expect(point.devices > 0 && is_rate(point.seconds));
  }
};

template <>
struct RecordFields<SyncList> {
  static constexpr std::uint8_t kOldestVersion = 1;
  template <class List, class Visit>
  static void visit_fields(List& list, Visit& visit) {
    visit("points", list.points);
    visit.expect(std::ranges::adjacent_find(list.points, std::ranges::greater_equal{},
                                            &SyncRecord::devices) == list.points.end());
  }
};

Result<CapabilityRecord> decode_capability(std::string_view bytes, const std::string& type,
                                           const std::string& model_key) {
  CapabilityRecord record;
  record.type.name = type;
  return decode_record(bytes, "capability of " + type + " for model \"" + model_key + '"',
                       std::move(record));
}

Result<std::vector<SyncRecord>> decode_sync(std::string_view bytes, const std::string& what) {
  Result<SyncList> list = decode_record<SyncList>(bytes, what);
  if (!list) return list.error();
  return std::move(list->points);
}

std::string encode_plans(const PlanListRecord& list) {
  return encode_record(list);
}

Result<PlanListRecord> decode_plans(std::string_view bytes, const std::string& what) {
  return decode_record<PlanListRecord>(bytes, what);
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
            encode_record(record));
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
  std::uint32_t before = 0;
  for (const SyncRecord& point : points) {
    ES_CHECK(point.devices > before && is_rate(point.seconds));
    before = point.devices;
  }
  WriteBatch batch;
  batch.put(sync_key(model_key, batch_size), encode_record(SyncList{points}));
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
