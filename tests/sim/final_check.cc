#include "tests/sim/final_check.h"

#include <bit>

#include "tests/sim/sim_jobs.h"

namespace es::test {

using namespace actors;

namespace {

// Much more than a job of these sizes needs after its last fault, with all time limits.
constexpr Instant kSettlingTime = std::chrono::minutes(15);
// Of 200 ms each.
constexpr int kRoundsToResume = 25;

std::map<JobId, JobRecord> records(SimWorld& world) {
  std::map<JobId, JobRecord> found;
  const auto on_disk = world.disk().load_all();
  for (const JobRecord& record : on_disk.value()) found[record.id] = record;
  return found;
}

bool all_over(SimWorld& world, const std::map<JobId, JobSpec>& jobs) {
  if (!world.cluster().running.empty()) return false;
  const auto on_disk = records(world);
  for (const auto& [job, spec] : jobs)
    if (!on_disk.contains(job) || !is_over(on_disk.at(job).state)) return false;
  return true;
}

std::string check_ledger(SimWorld& world, const JobId& job, const JobSpec& spec) {
  HeadStore disk = world.disk();
  const std::vector<store::LedgerLine> lines = disk.ledger().read(job, 1, spec.steps + 1).value();
  if (lines.size() != spec.steps)
    return job + ": " + std::to_string(lines.size()) + " ledger lines of " +
           std::to_string(spec.steps);
  for (const store::LedgerLine& line : lines) {
    const protocol::LedgerLine expected = reference_line(toy_job(spec), line.version);
    store::LedgerLine same{line.version, {}, expected.params};
    for (const std::uint32_t bits : expected.loss_bits)
      same.losses.push_back(std::bit_cast<float>(bits));
    if (!store::same_bits(line, same))
      return job + ": version " + std::to_string(line.version) + " differs from the reference";
  }
  return "";
}

// Each epoch uses each sample once, in the order of the permutation: by step, rank and position. At
// its end an epoch drops the samples that do not fill a global batch.
std::string check_samples(SimWorld& world, const JobId& job, const JobSpec& spec) {
  const store::EpochSampler sampler = sampler_of(spec);
  const auto& used = world.cluster().samples_used.at(job);
  std::map<std::uint64_t, std::vector<std::uint64_t>> epochs;
  for (Version version = 1; version <= spec.steps; ++version) {
    std::vector<std::uint64_t>& epoch = epochs[sampler.cursor(version - 1).epoch];
    const auto& samples = used.at(version);
    epoch.insert(epoch.end(), samples.begin(), samples.end());
  }
  for (const auto& [number, samples] : epochs) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (samples[i] != sampler.permuted(number, i))
        return job + ": epoch " + std::to_string(number) + " differs at sample " +
               std::to_string(i);
    const bool ended = number < sampler.cursor(spec.steps).epoch;
    const std::set<std::uint64_t> distinct(samples.begin(), samples.end());
    const std::uint64_t dropped = spec.data.samples % (spec.max_p * spec.batch_size);
    if (distinct.size() != samples.size() ||
        (ended && samples.size() != spec.data.samples - dropped))
      return job + ": epoch " + std::to_string(number) + " is not the data set";
  }
  return "";
}

// A head that was started after the end does not know the job any more.
std::string check_state(SimWorld& world, const JobId& job, const JobSpec& spec) {
  const auto view = world.client().describe(job);
  if (!view || view->state_digest.empty()) return "";
  const auto expected = digests_of(reference_version(toy_job(spec), spec.steps));
  return view->state_digest == expected.state.hex() ? "" : job + ": the final state differs";
}

std::string last_words(SimWorld& world, const JobId& job) {
  const auto view = world.client().describe(job);
  const std::vector<std::string> lines = world.client().log(job);
  std::string text = view && !view->waiting_for.empty() ? " waits for " + view->waiting_for : "";
  for (std::size_t i = lines.size() > 8 ? lines.size() - 8 : 0; i < lines.size(); ++i)
    text += "\n    " + lines[i];
  return text.empty() ? "" : "; the end of its log:" + text;
}

// Jobs that anything has paused. A job whose saved states are all gone waits for a command of its
// user. The command comes in histories that have destroyed disks, and only there.
void resume_paused(SimWorld& world, const std::map<JobId, JobSpec>& jobs,
                   const std::map<std::string, int>& remarks) {
  const bool destroyed = remarks.contains("destroyed disk");
  for (const auto& [job, record] : records(world)) {
    if (is_over(record.state) || !jobs.contains(job)) continue;
    if (record.state == JobState::kPaused) world.client().post_resume(job);
    if (destroyed) world.client().post_resume(job, true);
  }
}

bool may_give_up(const std::string& error) {
  return error.find("without one step of progress") != std::string::npos ||
         error.find("no worker process has become ready") != std::string::npos ||
         error.find("the devices that the job needs are not available") != std::string::npos;
}

// The disk failed at the time when the last checkpoint of the job's own series was written.
bool result_not_kept(const std::string& error) {
  return error.find("steps are done, but their result is not kept") != std::string::npos;
}

}  // namespace

std::string final_check(SimWorld& world, const std::map<JobId, JobSpec>& jobs,
                        std::map<std::string, int>& remarks) {
  const Instant end = world.now() + kSettlingTime;
  for (int round = 0; !all_over(world, jobs) && world.now() < end; ++round) {
    world.run_for(std::chrono::milliseconds(200));
    if (round % kRoundsToResume == 0) resume_paused(world, jobs, remarks);
  }
  world.run_for(std::chrono::seconds(1));  // The client finds a head that was just started.
  if (!world.cluster().violations.empty()) return world.cluster().violations.front();
  for (const auto& [job, record] : records(world)) {
    const JobSpec& spec = jobs.at(job);
    const std::string state = state_name(record.state);
    if (record.state == JobState::kFailed && may_give_up(record.error)) {
      ++remarks["gave up"];
      continue;
    }
    const bool not_kept = record.state == JobState::kFailed && result_not_kept(record.error);
    if (not_kept) ++remarks["result not kept"];
    if (record.state != JobState::kFinished && !not_kept)
      return job + (is_over(record.state) ? " is " : " hangs: it is ") + state + ": " +
             record.error + last_words(world, job);
    if (const std::string wrong = check_ledger(world, job, spec); !wrong.empty()) return wrong;
    if (const std::string wrong = check_samples(world, job, spec); !wrong.empty()) return wrong;
    if (const std::string wrong = check_state(world, job, spec); !wrong.empty()) return wrong;
  }
  if (!world.cluster().running.empty()) return "a process was left behind";
  for (const auto& [device, job] : world.client().owners())
    if (!job.empty()) return device + " is still held by " + job;
  return "";
}

}  // namespace es::test
