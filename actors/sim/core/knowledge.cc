#include "actors/sim/core/knowledge.h"

#include <algorithm>
#include <string_view>

namespace es::actors::simulator {
namespace {

constexpr double kStopEarliest = 0.2;
constexpr double kLie = 0.1;
constexpr double kOverrun = 0.1;

// What is drawn for a job. C_i of type T is drawn with kSpeed and the name of T.
enum class Draw : std::uint64_t { kLength = 1, kSpeed, kStop, kLie };

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Numbers for one draw of one job.
class Numbers {
 public:
  Numbers(std::uint64_t seed, std::uint64_t job, Draw draw, std::string_view name = {})
      : state_(mix(mix(mix(seed) ^ job) ^ static_cast<std::uint64_t>(draw))) {
    for (const char c : name) state_ = mix(state_ ^ static_cast<unsigned char>(c));
  }
  double unit() {
    state_ = mix(state_);
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  // The sum of twelve numbers in [0, 1) minus 6: almost a normal distribution, by exact operations.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += unit();
    return sum;
  }

 private:
  std::uint64_t state_;
};

// e^x for moderate x by multiplications alone: the last bits of a library's exp() differ.
double exponential(double x) {
  constexpr int kSquarings = 8;
  const double part = x / (1 << kSquarings);
  double power = 1 + part * (1 + part / 2 * (1 + part / 3 * (1 + part / 4 * (1 + part / 5))));
  for (int i = 0; i < kSquarings; ++i) power *= power;
  return power;
}

// The supposed length divided by the true one.
double length_factor(std::uint64_t number, const Knowledge& k) {
  double factor = 1;
  if (k.estimate_error > 0)
    factor = exponential(k.estimate_error * Numbers(k.seed, number, Draw::kLength).normal());
  if (k.unknown_lengths) {
    const double unit = Numbers(k.seed, number, Draw::kStop).unit();
    factor /= kStopEarliest + (1 - kStopEarliest) * unit;
  }
  if (k.lying_users > 0 && Numbers(k.seed, number, Draw::kLie).unit() < k.lying_users)
    factor *= kLie;
  return factor;
}

}  // namespace

scheduler::JobView known_part(const scheduler::JobView& job, const Knowledge& knowledge) {
  scheduler::JobView known = job;
  if (known.id.empty()) return known;
  scheduler::Work& work = known.work;
  if (work.total_steps < scheduler::kUnknownLength) {
    const double done = work.total_steps - work.remaining_steps;
    const double supposed = work.total_steps * length_factor(job.number, knowledge);
    work.remaining_steps = std::max(supposed - done, kOverrun * done);
    work.total_steps = done + work.remaining_steps;
  }
  if (knowledge.estimate_error > 0)
    for (auto& [type, steps_per_s] : known.capabilities)
      steps_per_s *=
          exponential(knowledge.estimate_error *
                      Numbers(knowledge.seed, job.number, Draw::kSpeed, type.name).normal());
  return known;
}

scheduler::Decisions KnowledgePolicy::decide(const scheduler::ClusterView& view) {
  // The policy may look only at the jobs that changed, and so does the copy.
  const bool all = !view.changed || known_.jobs.size() > view.jobs.size();
  known_.free = view.free;
  known_.returning = view.returning;
  known_.total = view.total;
  known_.now = view.now;
  known_.job_seconds = view.job_seconds;
  known_.queues = view.queues;
  known_.changed = view.changed;
  known_.jobs.resize(view.jobs.size());
  if (all) {
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot)
      known_.jobs[slot] = known_part(view.jobs[slot], knowledge_);
  } else {
    for (const std::size_t slot : *view.changed)
      known_.jobs[slot] = known_part(view.jobs[slot], knowledge_);
  }
  return policy_->decide(known_);
}

}  // namespace es::actors::simulator
