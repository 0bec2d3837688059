#include "store/journal/job_journal.h"

#include <algorithm>
#include <array>
#include <functional>

#include "proto/base/check.h"
#include "store/kv/keys.h"
#include "store/kv/record_fields.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

constexpr std::uint8_t kCounterVersion = 1;
constexpr std::uint8_t kTagVersion = 1;
constexpr const char* kJobTable = "job";

std::string record_key(const JobId& id) {
  return KeyBuilder(kJobTable).text(id).key();
}

std::string counter_key(const char* counter) {
  return KeyBuilder("counter").text(counter).key();
}

// The states by their number in a record, so their order must never change. A job that was about to
// run, or changed its placement, is a running one for the next head.
constexpr std::array kStoredStates = {JobState::kQueued,  JobState::kStarting,  JobState::kFinished,
                                      JobState::kFailed,  JobState::kCancelled, JobState::kPaused,
                                      JobState::kTimedOut};

std::uint8_t stored_state(JobState state) {
  if (state == JobState::kRunning || state == JobState::kRescaling) state = JobState::kStarting;
  // The list contains every state but these two, so one is always found.
  const auto* at = std::ranges::find(kStoredStates, state);
  return static_cast<std::uint8_t>(at - kStoredStates.begin());
}

std::optional<JobState> state_of(std::uint8_t number) {
  return number < kStoredStates.size() ? std::optional(kStoredStates[number]) : std::nullopt;
}

// A device type has a name, so the empty text stands for no type.
std::string stored_type(const std::optional<DeviceType>& type) {
  return type ? type->name : "";
}

std::optional<std::optional<DeviceType>> type_of(const std::string& name) {
  return name.empty() ? std::optional<DeviceType>() : DeviceType{name};
}

template <class List, class Projection = std::identity>
bool ascends(const List& list, Projection projection = {}) {
  return std::ranges::adjacent_find(list, std::ranges::greater_equal{}, projection) == list.end();
}

}  // namespace

template <>
struct RecordFields<DeviceType> {
  template <class Type, class Visit>
  static void visit_fields(Type& type, Visit& visit) {
    visit(type.name);
    visit.expect(!type.name.empty());
  }
};

template <>
struct RecordFields<DeviceCount> {
  template <class Item, class Visit>
  static void visit_fields(Item& item, Visit& visit) {
    visit(item.type);
    visit(item.count);
    visit.expect(item.count > 0);
  }
};

template <>
struct RecordFields<DeviceSet> {
  template <class Devices, class Visit>
  static void visit_fields(Devices& devices, Visit& visit) {
    visit(devices.counts);
    // Other code searches and compares sets on this assumption.
    visit.expect(ascends(devices.counts, &DeviceCount::type));
  }
};

template <>
struct RecordFields<KnownWorker> {
  template <class Worker, class Visit>
  static void visit_fields(Worker& worker, Visit& visit) {
    visit(worker.incarnation.value);
    // Incarnations are counted from 1.
    visit.expect(worker.incarnation.value != 0);
    visit(worker.device.node);
    visit(worker.device.type.name);
    visit(worker.device.index);
    visit(worker.address);
    visit(worker.host_id);
  }
};

template <>
struct RecordFields<CheckpointRef> {
  template <class Ref, class Visit>
  static void visit_fields(Ref& ref, Visit& visit) {
    visit(ref.path);
    visit(ref.version);
    visit(ref.periodic);
    visit(ref.nodes);
    visit(ref.digests.params);
    visit(ref.digests.state);
  }
};

template <>
struct RecordFields<Refusal> {
  template <class AnyRefusal, class Visit>
  static void visit_fields(AnyRefusal& refusal, Visit& visit) {
    visit(refusal.held);
    visit(refusal.types);
    visit.expect(ascends(refusal.types));
    // Speeds are stored bit by bit, so that a comparison with one after a restart has the same
    // result as before it.
    visit(refusal.capabilities);
    for (const auto& [type, steps_per_second] : refusal.capabilities)
      visit.expect(steps_per_second > 0);
    visit.expect(!refusal.held.empty() && !refusal.types.empty());
  }
};

// The id is the key of the record and is not repeated in it.
template <>
struct RecordFields<JobRecord> {
  static constexpr std::uint8_t kOldestVersion = 6;
  template <class Record, class Visit>
  static void visit_fields(Record& record, Visit& visit) {
    visit("spec_toml", record.spec_toml);
    visit("start_checkpoint", record.start_checkpoint);
    visit.coded("state", record.state, stored_state, state_of);
    visit("generation", record.generation.value);
    visit("known", record.known);
    visit("pinned", record.pinned);
    visit.coded("bound_type", record.bound_type, stored_type, type_of);
    visit("checkpoints", record.checkpoints);
    visit("spoiled", record.spoiled);
    visit("set_aside", record.set_aside);
    visit("refusals", record.refusals);
    visit("rewinding", record.rewinding);
    visit("sequence", record.sequence);
    visit("submitted_unix_ms", record.submitted_unix_ms);
    visit("error", record.error);
    visit("request_id", record.request_id);
    visit.added();
    visit("held_ms", record.held_ms);
    visit.added();
    visit("spent", record.spent);
    visit.expect(record.spent >= 0);
    visit("budget", record.budget);
    visit.expect(record.budget >= 0);
    visit("over_budget", record.over_budget);
    visit.added();
    visit("counted_unix_ms", record.counted_unix_ms);
    visit("price_per_hour", record.price_per_hour);
    visit.expect(record.price_per_hour >= 0);
    visit.added();
    visit("submitter", record.submitter);
    visit.added();
    visit("best", record.best);
  }
};

std::pair<std::uint32_t, std::uint32_t> job_record_versions() {
  return record_versions<JobRecord>();
}

std::string encode_job_record(const JobRecord& record) {
  return encode_record(record);
}

Result<JobRecord> decode_job_record(std::string_view bytes, const JobId& id) {
  JobRecord record;
  record.id = id;
  return decode_record(bytes, "record of job \"" + id + '"', std::move(record));
}

std::string encode_counter(std::uint64_t number) {
  RecordWriter out(kCounterVersion);
  out.u64(number);
  return out.take();
}

Result<std::uint64_t> decode_counter(std::string_view bytes, std::string_view counter) {
  RecordReader in(bytes, kCounterVersion, "counter \"" + std::string(counter) + '"');
  const std::uint64_t number = in.u64();
  ES_RETURN_IF_ERROR(in.finish());
  return number;
}

Result<std::string> decode_tag(std::string_view bytes) {
  RecordReader in(bytes, kTagVersion, "tag of the jobs");
  std::string tag = in.text();
  ES_RETURN_IF_ERROR(in.finish());
  return tag;
}

Status JobJournal::save(const JobRecord& record) {
  ES_CHECK(!record.id.empty());
  WriteBatch batch;
  batch.put(record_key(record.id), encode_job_record(record));
  return store_.write(batch, Durability::kSynced);
}

Result<std::optional<JobRecord>> JobJournal::load(const JobId& id) const {
  const Result<std::optional<std::string>> bytes = store_.get(record_key(id));
  if (!bytes) return bytes.error();
  if (!bytes->has_value()) return std::optional<JobRecord>();
  Result<JobRecord> record = decode_job_record(**bytes, id);
  if (!record) return record.error();
  return std::optional<JobRecord>(std::move(*record));
}

Result<std::vector<JobRecord>> JobJournal::load_all() const {
  const std::string begin = KeyBuilder(kJobTable).key();
  const auto decode = [&](std::string_view key, std::string_view value) {
    // The id is the rest of the key without the zero byte at its end.
    return decode_job_record(value, JobId(key.substr(begin.size(), key.size() - begin.size() - 1)));
  };
  Result<std::vector<JobRecord>> records =
      scan_records<JobRecord>(store_, begin, prefix_end(begin), decode);
  // Keys are ordered by name. Policies need the order of submission.
  if (records.ok()) std::ranges::sort(*records, {}, &JobRecord::sequence);
  return records;
}

void JobJournal::add_removal(const JobId& id, WriteBatch& batch) {
  batch.erase(record_key(id));
}

Result<Incarnation> JobJournal::last_incarnation() const {
  const Result<std::uint64_t> number = last_number("incarnation");
  if (!number) return number.error();
  return Incarnation{*number};
}

Status JobJournal::keep_incarnation(Incarnation last) {
  return keep_number("incarnation", last.value);
}

Result<std::string> JobJournal::keep_tag(const std::string& fresh) {
  ES_CHECK(!fresh.empty());
  const std::string key = KeyBuilder("tag").text("jobs").key();
  const Result<std::optional<std::string>> bytes = store_.get(key);
  if (!bytes) return bytes.error();
  // The first tag stays for ever, because the ids of existing jobs end with it.
  if (bytes->has_value()) return decode_tag(**bytes);
  RecordWriter out(kTagVersion);
  out.text(fresh);
  WriteBatch batch;
  batch.put(key, out.take());
  ES_RETURN_IF_ERROR(store_.write(batch, Durability::kSynced));
  return fresh;
}

Result<std::uint64_t> JobJournal::next_sequence() {
  const Result<std::uint64_t> last = last_number("sequence");
  if (!last) return last.error();
  // Durable before the number is returned. After a crash in between the number is skipped, but
  // never given out twice.
  ES_RETURN_IF_ERROR(keep_number("sequence", *last + 1));
  return *last + 1;
}

Result<std::uint64_t> JobJournal::last_number(const char* counter) const {
  const Result<std::optional<std::string>> bytes = store_.get(counter_key(counter));
  if (!bytes) return bytes.error();
  // A new state directory. If a damaged one has lost a counter, recovery writes it anew.
  if (!bytes->has_value()) return std::uint64_t{0};
  return decode_counter(**bytes, counter);
}

Status JobJournal::keep_number(const char* counter, std::uint64_t number) {
  WriteBatch batch;
  // Synced below: a number that a power cut takes back would be given to two jobs or two processes.
  batch.put(counter_key(counter), encode_counter(number));
  return store_.write(batch, Durability::kSynced);
}

}  // namespace es::store
