#include "store/recovery/recover.h"

#include <algorithm>

#include "proto/base/kill_point.h"
#include "store/directory_sync.h"
#include "store/journal/job_journal.h"
#include "store/kv/keys.h"
#include "store/kv/record_codec.h"
#include "store/kv/rocksdb_directory.h"
#include "store/kv/rocksdb_key_value_store.h"
#include "store/kv/rocksdb_salvage.h"
#include "store/recovery/records.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

using Pairs = std::map<std::string, std::string>;

// Numbers that a lost record may have used are skipped. All are 64 bits wide, so the gaps can be
// far larger than the number of jobs, processes and placements that can have been lost.
constexpr std::uint64_t kSequenceGap = 1000;
constexpr std::uint64_t kIncarnationGap = std::uint64_t{1} << 32;
constexpr std::uint64_t kGenerationGap = 1'000'000;

std::string plural(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

bool is_whole(const fs::path& directory) {
  const auto store = open_state_directory(directory);
  // RocksDB verifies the blocks; the records are also decoded field by field, because a block with
  // a valid checksum may contain a record that this program cannot read.
  return store && check_records(**store).ok();
}

void drop_wrong_records(Pairs& pairs, std::vector<std::string>& dropped) {
  std::erase_if(pairs, [&](const auto& pair) {
    const Status checked = check_record(pair.first, pair.second);
    if (!checked.ok()) dropped.push_back(name_of_key(pair.first) + ": " + checked.error().message);
    return !checked.ok();
  });
}

std::map<std::string, JobRecord> jobs_of(const Pairs& pairs) {
  std::map<std::string, JobRecord> jobs;
  for (const auto& [key, value] : pairs) {
    const auto parsed = parse_key(key);
    if (!parsed || parsed->table != "job") continue;
    // drop_wrong_records() has removed the records that cannot be decoded.
    if (auto record = decode_job_record(value, parsed->texts.front()))
      jobs.emplace(parsed->texts.front(), *std::move(record));
  }
  return jobs;
}

bool belongs_to_a_job(const std::string& table) {
  return table == "ledger" || table == "evaluation" || table == "final_state" || table == "end";
}

// Drops ledger lines and history of jobs whose record is lost.
void drop_orphans(Pairs& pairs, const std::map<std::string, JobRecord>& jobs,
                  std::vector<std::string>& dropped) {
  std::map<std::string, std::size_t> orphans;
  std::erase_if(pairs, [&](const auto& pair) {
    const auto parsed = parse_key(pair.first);
    if (!belongs_to_a_job(parsed->table) || jobs.contains(parsed->texts.front())) return false;
    ++orphans[parsed->texts.front()];
    return true;
  });
  for (const auto& [job, count] : orphans)
    dropped.push_back("job \"" + job + "\": its record is lost, and so " + plural(count, "line") +
                      " of its ledger and history");
}

// The keys of a table that belong to a job, ascending by version.
std::vector<std::string> keys_of(const Pairs& pairs, const char* table, const std::string& job) {
  const std::string begin = KeyBuilder(table).text(job).key();
  std::vector<std::string> keys;
  for (auto at = pairs.lower_bound(begin); at != pairs.end() && at->first.starts_with(begin); ++at)
    keys.push_back(at->first);
  return keys;
}

struct Ledger {
  std::uint64_t whole_through = 0;  // last line with no missing line before it; 0 for none
  std::string gap;                  // the missing lines; empty if none is missing in between
  std::vector<std::string> behind;  // keys of the lines after the gap
};

// Finds the first gap of a ledger. The ledger of a job that started from a checkpoint may begin at
// any version.
Ledger look_at_ledger(const Pairs& pairs, const std::string& job, const JobRecord& record) {
  Ledger ledger;
  // Only the first line may follow a gap, and only for a job from a checkpoint. Every later line
  // must continue the one before it.
  bool begins_anywhere = !record.start_checkpoint.empty();
  for (const std::string& key : keys_of(pairs, "ledger", job)) {
    const std::uint64_t version = *parse_key(key)->number;
    if (ledger.gap.empty() && version != ledger.whole_through + 1 && !begins_anywhere)
      ledger.gap = "versions " + std::to_string(ledger.whole_through + 1) + " to " +
                   std::to_string(version - 1);
    begins_anywhere = false;
    if (ledger.gap.empty())
      ledger.whole_through = version;
    else
      ledger.behind.push_back(key);
  }
  return ledger;
}

// Takes a job back to the end of the gapless part of its ledger. The job trains the later steps
// again, with the same bits. Its workers may hold later versions, so they are forgotten, and the
// generation skips ahead, so that their messages are stale.
void rewind(Pairs& pairs, const std::string& job, JobRecord record, const Ledger& ledger,
            std::vector<std::string>& dropped) {
  for (const std::string& key : ledger.behind) pairs.erase(key);
  for (const std::string& key : keys_of(pairs, "evaluation", job))
    if (*parse_key(key)->number > ledger.whole_through) pairs.erase(key);
  std::erase_if(record.checkpoints, [&](const CheckpointRef& ref) {
    const bool is_behind = ref.version > ledger.whole_through;
    if (is_behind) {
      // The files are kept, because a user may need them, but the job must not continue from a
      // version that its ledger does not prove.
      record.set_aside.push_back(ref.path);
      dropped.push_back("job \"" + job + "\": checkpoint " + ref.path + " of version " +
                        std::to_string(ref.version) +
                        ", to which its ledger does not lead; it stays on the disk");
    }
    return is_behind;
  });
  record.known.clear();
  record.generation.value += kGenerationGap;
  // The jobs were decoded into a map of their own, so writing to `pairs` does not disturb the loop
  // over them.
  pairs[KeyBuilder("job").text(job).key()] = encode_job_record(record);
}

void mend_job(Pairs& pairs, const std::string& job, const JobRecord& record,
              std::vector<std::string>& dropped) {
  const Ledger ledger = look_at_ledger(pairs, job, record);
  const std::string lost = "ledger of job \"" + job + "\": " + ledger.gap + " are lost";
  // A job that is over trains no step again, so the lines behind the gap stay.
  if (is_over(record.state)) {
    if (!ledger.gap.empty()) dropped.push_back(lost + "; the job is over");
    return;
  }
  if (!ledger.gap.empty())
    dropped.push_back(lost + ", and with them " + plural(ledger.behind.size(), "line") +
                      " after them; the job trains these steps again");
  // Nothing is lost, so this is the newest record of the job. After any loss, also in another
  // table, an older record can be in its place, so the job is taken back in any case.
  if (dropped.empty()) return;
  rewind(pairs, job, record, ledger, dropped);
}

std::uint64_t counter_in(const Pairs& pairs, const char* name) {
  const auto at = pairs.find(KeyBuilder("counter").text(name).key());
  if (at == pairs.end()) return 0;
  const auto number = decode_counter(at->second, name);
  return number ? *number : 0;
}

void set_counter(Pairs& pairs, const char* name, std::uint64_t number) {
  pairs[KeyBuilder("counter").text(name).key()] = encode_counter(number);
}

void raise_counters(Pairs& pairs, const std::map<std::string, JobRecord>& jobs) {
  std::uint64_t sequence = counter_in(pairs, "sequence");
  std::uint64_t incarnation = counter_in(pairs, "incarnation");
  for (const auto& [job, record] : jobs) {
    // The counters themselves may be lost. The records that are left give a lower bound, and the
    // gap covers those that are lost.
    sequence = std::max(sequence, record.sequence);
    for (const KnownWorker& worker : record.known)
      incarnation = std::max(incarnation, worker.incarnation.value);
  }
  set_counter(pairs, "sequence", sequence + kSequenceGap);
  set_counter(pairs, "incarnation", incarnation + kIncarnationGap);
}

Status write_new(const fs::path& directory, const Pairs& pairs) {
  std::error_code code;
  // A recovery that was interrupted while it wrote may have left a part of it.
  fs::remove_all(directory, code);
  const auto store = open_state_directory(directory);
  if (!store) return store.error();
  WriteBatch batch;
  for (const auto& [key, value] : pairs) batch.put(key, value);
  ES_RETURN_IF_ERROR((*store)->write(batch, Durability::kSynced));
  // The new directory is read back before the original is moved.
  return check_records(**store);
}

fs::path beside(const fs::path& directory, const std::string& suffix) {
  fs::path path = directory;
  path += suffix;
  return path;
}

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

fs::path free_name(const fs::path& directory) {
  for (int n = 1;; ++n)
    if (fs::path path = beside(directory, ".damaged-" + std::to_string(n)); !is_there(path))
      return path;
}

// The new name is on disk when the call returns, so a power cut cannot leave a later name without
// an earlier one.
Status move(const fs::path& from, const fs::path& to) {
  kill_point("recover.move");
  std::error_code code;
  fs::rename(from, to, code);
  if (code)
    return failure(from.string() + " cannot be moved to " + to.string() + ": " + code.message());
  return sync_entries(parent_directory(to));
}

// Gives the damaged directory its last name, which is returned.
Result<fs::path> keep_original(const fs::path& directory) {
  const fs::path kept = free_name(directory);
  ES_RETURN_IF_ERROR(move(original_during_recovery(directory), kept));
  return kept;
}

// Puts `fresh` in the place of the damaged directory, and returns where that is kept.
Result<fs::path> replace(const fs::path& directory, const fs::path& fresh) {
  ES_RETURN_IF_ERROR(sync_entries(parent_directory(fresh)));
  // No rename can exchange two directories on every file system. After the first move there is no
  // state directory, and the name of the original shows why.
  ES_RETURN_IF_ERROR(move(directory, original_during_recovery(directory)));
  ES_RETURN_IF_ERROR(move(fresh, directory));
  return keep_original(directory);
}

// Continues after the end of a process during replace(). Returns where the damaged directory is
// kept if the new one is in its place already, and otherwise an empty path.
Result<fs::path> settle_interrupted(const fs::path& directory) {
  const fs::path original = original_during_recovery(directory);
  if (!is_there(original)) return fs::path();
  if (is_there(directory)) return keep_original(directory);
  // Back to the beginning, because only a whole recovery can name what it drops.
  ES_RETURN_IF_ERROR(move(original, directory));
  return fs::path();
}

// Another schema version is not damage; a program of that version can read the directory.
Status check_schema(const Pairs& pairs, const fs::path& directory) {
  const auto schema = pairs.find(KeyBuilder("meta").text("schema").key());
  if (schema != pairs.end() && schema->second != kSchemaVersion)
    return failure("state directory " + directory.string() + ": schema version = \"" +
                   schema->second + "\": allowed is " + kSchemaVersion);
  const bool ours = std::any_of(pairs.begin(), pairs.end(),
                                [](const auto& pair) { return parse_key(pair.first).has_value(); });
  // Only if no key has the form of this program. Single foreign or damaged keys are dropped and
  // named later.
  if (!ours && !pairs.empty())
    return failure("state directory " + directory.string() +
                   " is a database of some other program");
  return {};
}

}  // namespace

void make_consistent(Pairs& pairs, std::vector<std::string>& dropped) {
  drop_wrong_records(pairs, dropped);
  const auto jobs = jobs_of(pairs);
  drop_orphans(pairs, jobs, dropped);
  for (const auto& [job, record] : jobs) mend_job(pairs, job, record, dropped);
  // After the loop, because it adds to the losses. Without a loss the numbers continue without a
  // gap.
  if (!dropped.empty()) raise_counters(pairs, jobs);
}

Result<Recovery> recover_state_directory(const fs::path& directory) {
  auto interrupted = settle_interrupted(directory);
  if (!interrupted) return interrupted.error();
  std::error_code code;
  if (!fs::is_directory(directory, code))
    return not_found("state directory " + directory.string() + ": there is no such directory");
  Recovery recovery{*std::move(interrupted), {}, {}};
  // A directory that another process has open is not whole here either. The next test finds that
  // out.
  if (is_whole(directory)) return recovery;
  if (const auto locked = open_state_directory(directory);
      // A directory that a running head has open is not damaged but in use. It would change while
      // it is copied.
      !locked && locked.error().kind == ErrorKind::kRefused)
    return locked.error();
  auto salvage = salvage_database(directory, beside(directory, ".copy"), starts_after, name_of_key);
  if (!salvage) return salvage.error();
  ES_RETURN_IF_ERROR(check_schema(salvage->pairs, directory));
  recovery.dropped = std::move(salvage->losses);
  make_consistent(salvage->pairs, recovery.dropped);
  // open_state_directory() writes the schema into the new directory. It is not counted as a kept
  // record.
  salvage->pairs.erase(KeyBuilder("meta").text("schema").key());
  for (const auto& [key, value] : salvage->pairs) ++recovery.kept[parse_key(key)->table];
  const fs::path fresh = beside(directory, ".recovered");
  ES_RETURN_IF_ERROR(write_new(fresh, salvage->pairs));
  // The damaged directory is moved only after the new one is complete and on disk.
  auto original = replace(directory, fresh);
  if (!original) return original.error();
  recovery.original = *std::move(original);
  return recovery;
}

}  // namespace es::store
