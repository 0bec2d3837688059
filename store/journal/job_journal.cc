#include "store/journal/job_journal.h"

#include <algorithm>
#include <array>
#include <functional>

#include "proto/base/check.h"
#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/scan_records.h"

namespace es::store {
namespace {

// Another number for every change of encode_job_record(), because a record has no names of fields:
// a reader with another order would take one field for another.
constexpr std::uint8_t kJobRecordVersion = 9;  // version of a job record
// The three versions before are read too: they are the same without the last fields.
constexpr std::uint8_t kJobRecordWithoutDate = 8;
constexpr std::uint8_t kJobRecordWithoutCost = 7;
constexpr std::uint8_t kJobRecordWithoutHeldTime = 6;
constexpr std::uint8_t kCounterVersion = 1;
constexpr std::uint8_t kTagVersion = 1;
constexpr const char* kJobTable = "job";

std::string record_key(const JobId& id) {
  return KeyBuilder(kJobTable).text(id).key();
}

std::string counter_key(const char* counter) {
  return KeyBuilder("counter").text(counter).key();
}

void write_devices(RecordWriter& out, const DeviceSet& devices) {
  out.u32(static_cast<std::uint32_t>(devices.counts.size()));
  for (const DeviceCount& item : devices.counts) {
    out.text(item.type.name);
    out.u32(item.count);
  }
}

DeviceSet read_devices(RecordReader& in, const char* field) {
  DeviceSet devices;
  // An item has at least 9 bytes: the length of a name (4), a name that is not empty (1), and the
  // count (4).
  const std::uint32_t count = in.count(9);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    DeviceCount item;
    item.type.name = in.text();
    item.count = in.u32();
    // A DeviceSet has each type once and in ascending order. Other code searches and compares sets
    // on this assumption, so bytes that break it are refused here.
    const bool ascending = devices.empty() || devices.counts.back().type < item.type;
    in.expect(ascending && !item.type.name.empty() && item.count > 0, field);
    devices.counts.push_back(std::move(item));
  }
  return devices;
}

void write_known(RecordWriter& out, const std::vector<KnownWorker>& known) {
  out.u32(static_cast<std::uint32_t>(known.size()));
  for (const KnownWorker& worker : known) {
    out.u64(worker.incarnation.value);
    out.text(worker.device.node);
    out.text(worker.device.type.name);
    out.u32(worker.device.index);
    out.text(worker.address);
    out.text(worker.host_id);
  }
}

std::vector<KnownWorker> read_known(RecordReader& in) {
  std::vector<KnownWorker> known;
  const std::uint32_t count = in.count(sizeof(std::uint64_t));
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    KnownWorker worker;
    worker.incarnation.value = in.u64();
    worker.device.node = in.text();
    worker.device.type.name = in.text();
    worker.device.index = in.u32();
    worker.address = in.text();
    worker.host_id = in.text();
    // Incarnations are counted from 1.
    in.expect(worker.incarnation.value != 0, "known");
    known.push_back(std::move(worker));
  }
  return known;
}

bool read_presence(RecordReader& in, const char* field) {
  const std::uint8_t present = in.u8();
  in.expect(present <= 1, field);
  return present == 1;
}

void write_texts(RecordWriter& out, const std::vector<std::string>& texts) {
  out.u32(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) out.text(text);
}

std::vector<std::string> read_texts(RecordReader& in) {
  std::vector<std::string> texts;
  const std::uint32_t count = in.count(sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) texts.push_back(in.text());
  return texts;
}

void write_checkpoints(RecordWriter& out, const std::vector<CheckpointRef>& checkpoints) {
  out.u32(static_cast<std::uint32_t>(checkpoints.size()));
  for (const CheckpointRef& ref : checkpoints) {
    out.text(ref.path);
    out.u64(ref.version);
    out.u8(ref.periodic ? 1 : 0);
    write_texts(out, {ref.nodes.begin(), ref.nodes.end()});
    out.digest(ref.digests.params);
    out.digest(ref.digests.state);
  }
}

std::vector<CheckpointRef> read_checkpoints(RecordReader& in) {
  std::vector<CheckpointRef> checkpoints;
  const std::uint32_t count = in.count(sizeof(std::uint64_t));
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    CheckpointRef ref;
    ref.path = in.text();
    ref.version = in.u64();
    ref.periodic = read_presence(in, "checkpoints");
    const std::vector<std::string> nodes = read_texts(in);
    // The writer writes a set, so its names ascend strictly.
    in.expect(std::ranges::adjacent_find(nodes, std::greater_equal{}) == nodes.end(),
              "checkpoints");
    ref.nodes.insert(nodes.begin(), nodes.end());
    ref.digests.params = in.digest();
    ref.digests.state = in.digest();
    checkpoints.push_back(std::move(ref));
  }
  return checkpoints;
}

void write_refusals(RecordWriter& out, const std::vector<Refusal>& refusals) {
  out.u32(static_cast<std::uint32_t>(refusals.size()));
  for (const Refusal& refusal : refusals) {
    write_devices(out, refusal.held);
    out.u32(static_cast<std::uint32_t>(refusal.types.size()));
    for (const DeviceType& type : refusal.types) out.text(type.name);
    out.u32(static_cast<std::uint32_t>(refusal.capabilities.size()));
    // The bits are stored, so that a comparison with a speed after a restart has the same result as
    // before it.
    for (const auto& [type, steps_per_second] : refusal.capabilities) {
      out.text(type.name);
      out.f64(steps_per_second);
    }
  }
}

Refusal read_refusal(RecordReader& in) {
  Refusal refusal;
  refusal.held = read_devices(in, "refusals");
  const std::uint32_t types = in.count(sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < types && in.ok(); ++i) {
    DeviceType type{in.text()};
    const bool ascending = refusal.types.empty() || refusal.types.back() < type;
    in.expect(ascending && !type.name.empty(), "refusals");
    refusal.types.push_back(std::move(type));
  }
  const std::uint32_t speeds = in.count(sizeof(double));
  for (std::uint32_t i = 0; i < speeds && in.ok(); ++i) {
    DeviceType type{in.text()};
    const double steps_per_second = in.f64();
    auto& known = refusal.capabilities;
    const bool ascending = known.empty() || known.rbegin()->first < type;
    in.expect(ascending && !type.name.empty() && steps_per_second > 0, "refusals");
    known.emplace(std::move(type), steps_per_second);
  }
  in.expect(!refusal.held.empty() && !refusal.types.empty(), "refusals");
  return refusal;
}

std::vector<Refusal> read_refusals(RecordReader& in) {
  std::vector<Refusal> refusals;
  // A refusal has at least the lengths of its three lists.
  const std::uint32_t count = in.count(3 * sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) refusals.push_back(read_refusal(in));
  return refusals;
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

JobState read_state(RecordReader& in) {
  const std::uint8_t number = in.u8();
  const bool known = number < kStoredStates.size();
  in.expect(known, "state");
  // The returned state is not used, because the reader now has an error.
  return known ? kStoredStates[number] : JobState::kFailed;
}

// The version of these bytes if it can be read, otherwise the one that is expected.
std::uint8_t record_version(std::string_view bytes) {
  for (const std::uint8_t version :
       {kJobRecordWithoutHeldTime, kJobRecordWithoutCost, kJobRecordWithoutDate})
    if (bytes.starts_with(static_cast<char>(version))) return version;
  return kJobRecordVersion;
}

}  // namespace

std::pair<std::uint32_t, std::uint32_t> job_record_versions() {
  return {kJobRecordWithoutHeldTime, kJobRecordVersion};
}

std::string encode_job_record(const JobRecord& record) {
  // The id is the key of the record and is not repeated in it.
  RecordWriter out(kJobRecordVersion);
  out.text(record.spec_toml);
  out.text(record.start_checkpoint);
  out.u8(stored_state(record.state));
  out.u64(record.generation.value);
  write_known(out, record.known);
  out.u8(record.pinned ? 1 : 0);
  if (record.pinned) write_devices(out, *record.pinned);
  // A device type has a name, so the empty text stands for no type.
  out.text(record.bound_type ? record.bound_type->name : "");
  write_checkpoints(out, record.checkpoints);
  write_checkpoints(out, record.spoiled);
  write_texts(out, record.set_aside);
  write_refusals(out, record.refusals);
  out.u8(record.rewinding ? 1 : 0);
  if (record.rewinding) out.u64(*record.rewinding);
  out.u64(record.sequence);
  out.u64(record.submitted_unix_ms);
  out.text(record.error);
  out.text(record.request_id);
  out.u64(record.held_ms);
  out.f64(record.spent);
  out.f64(record.budget);
  out.u8(record.over_budget ? 1 : 0);
  out.u64(record.counted_unix_ms);
  out.f64(record.price_per_hour);
  return out.take();
}

Result<JobRecord> decode_job_record(std::string_view bytes, const JobId& id) {
  const std::uint8_t version = record_version(bytes);
  RecordReader in(bytes, version, "record of job \"" + id + '"');
  JobRecord record;
  record.id = id;
  record.spec_toml = in.text();
  record.start_checkpoint = in.text();
  record.state = read_state(in);
  record.generation.value = in.u64();
  record.known = read_known(in);
  if (read_presence(in, "pinned")) record.pinned = read_devices(in, "pinned");
  if (const std::string type = in.text(); !type.empty()) record.bound_type = DeviceType{type};
  record.checkpoints = read_checkpoints(in);
  record.spoiled = read_checkpoints(in);
  record.set_aside = read_texts(in);
  record.refusals = read_refusals(in);
  if (read_presence(in, "rewinding")) record.rewinding = in.u64();
  record.sequence = in.u64();
  record.submitted_unix_ms = in.u64();
  record.error = in.text();
  record.request_id = in.text();
  if (version > kJobRecordWithoutHeldTime) record.held_ms = in.u64();
  if (version > kJobRecordWithoutCost) {
    record.spent = in.f64();
    record.budget = in.f64();
    record.over_budget = read_presence(in, "over_budget");
    in.expect(record.spent >= 0 && record.budget >= 0, "spent");
  }
  if (version > kJobRecordWithoutDate) {
    record.counted_unix_ms = in.u64();
    record.price_per_hour = in.f64();
    in.expect(record.price_per_hour >= 0, "price_per_hour");
  }
  ES_RETURN_IF_ERROR(in.finish());
  return record;
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
