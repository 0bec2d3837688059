#include "scheduler/policy/rivals/gavel_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "scheduler/policy/common/linear_program.h"

namespace es::scheduler {
namespace {

// Weight of the mean beside the smallest value: too small to lower the smallest one.
constexpr double kMeanWeight = 1e-4;
// Larger programs are divided into parts with a proportional part of the devices (POP: Narayanan et
// al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP", SOSP '21).
constexpr std::size_t kPartClasses = 200, kPartJobs = 200;
constexpr int kHalvings = 14;
constexpr double kRhoLeast = 0.01, kRhoMost = 1e4;

using Term = LinearProgram::Term;

// Jobs with equal terms. They get equal shares.
struct GavelClass {
  std::vector<double> worths;  // by type: the term of the objective if it runs there all the time
  Counts gangs;
  std::vector<std::size_t> jobs;
};

// max sum of worth * X / jobs, the smallest one first.
std::vector<double> solve_classes(std::span<const GavelClass> classes,
                                  std::span<const double> devices) {
  const std::size_t types = devices.size();
  std::size_t jobs = 0;
  double most = std::numeric_limits<double>::max();  // that the smallest one can be
  for (const GavelClass& c : classes) {
    jobs += c.jobs.size();
    most = std::min(most, *std::max_element(c.worths.begin(), c.worths.end()));
  }
  LinearProgram program;
  const std::size_t smallest = program.add_column(1, most);
  std::vector<std::vector<Term>> used(types);
  std::vector<std::size_t> columns;
  for (const GavelClass& c : classes) {
    const auto count = static_cast<double>(c.jobs.size());
    std::vector<Term> worth{{smallest, 1}}, time;
    for (std::size_t t = 0; t < types; ++t) {
      if (c.worths[t] <= 0) continue;
      const std::size_t column =
          program.add_column(kMeanWeight * c.worths[t] / static_cast<double>(jobs), count);
      columns.push_back(column);
      worth.push_back({column, -c.worths[t] / count});
      time.push_back({column, 1});
      used[t].push_back({column, static_cast<double>(c.gangs[t])});
    }
    program.add_row(0, worth);
    program.add_row(count, time);
  }
  for (std::size_t t = 0; t < types; ++t) program.add_row(devices[t], used[t]);
  const std::vector<double> solution = program.solve();
  std::vector<double> x(classes.size() * types, 0);
  std::size_t next = 0;
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (std::size_t t = 0; t < types; ++t)
      if (classes[c].worths[t] > 0)
        x[c * types + t] = solution[columns[next++]] / static_cast<double>(classes[c].jobs.size());
  return x;
}

std::vector<GavelClass> classes_of(std::span<const GavelJob> jobs, const Counts& devices) {
  std::map<std::pair<std::vector<double>, Counts>, std::size_t> known;
  std::vector<GavelClass> classes;
  for (std::size_t m = 0; m < jobs.size(); ++m) {
    const GavelJob& job = jobs[m];
    double devices_used = 0, equal = 0;
    std::size_t usable = 0;
    for (std::size_t t = 0; t < devices.size(); ++t) {
      if (job.speeds[t] <= 0) continue;
      ++usable;
      devices_used += devices[t];
      equal += devices[t] * job.speeds[t];
    }
    if (usable == 0 || devices_used <= 0) continue;
    std::vector<double> worths(devices.size(), 0);
    for (std::size_t t = 0; t < devices.size(); ++t)
      if (job.speeds[t] > 0)
        // With one type the quotient is 1; rounding would make equal jobs unequal.
        worths[t] = job.gangs[t] * (usable == 1 ? 1 : job.speeds[t] * devices_used / equal);
    const auto [at, is_new] = known.try_emplace({worths, job.gangs}, classes.size());
    if (is_new) classes.push_back({std::move(worths), job.gangs, {}});
    classes[at->second].jobs.push_back(m);
  }
  return classes;
}

// One call of finish_time_shares().
class FinishTimes {
 public:
  FinishTimes(std::span<const GavelJob> jobs, const std::vector<double>& devices)
      : jobs_(jobs), devices_(devices), types_(devices.size()) {
    for (const GavelJob& job : jobs) {
      best_.push_back(0);
      for (std::size_t t = 0; t < types_; ++t) best_.back() = std::max(best_.back(), job.speeds[t]);
      one_type_ = one_type_ && std::count_if(job.speeds.begin(), job.speeds.end(),
                                             [](double s) { return s > 0; }) <= 1;
    }
  }

  TimeShares run() const {
    TimeShares best(jobs_.size() * types_, 0);
    double low = std::log(kRhoLeast), high = std::log(kRhoMost);
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      if (auto x = shares_for(std::exp(middle))) {
        best = *std::move(x);
        high = middle;
      } else {
        low = middle;
      }
    }
    return best;
  }

 private:
  // The throughput with which the job keeps this rho.
  double need(std::size_t m, double rho) const {
    const GavelJob& job = jobs_[m];
    const double left_s = rho * job.isolated_s - job.age_s;
    if (left_s <= 0) return best_[m];
    return std::min(best_[m], job.remaining_steps / left_s);
  }

  std::optional<TimeShares> shares_for(double rho) const {
    return one_type_ ? one_type_shares(rho) : program_shares(rho);
  }

  // Without a choice of types the shares follow from rho.
  std::optional<TimeShares> one_type_shares(double rho) const {
    TimeShares x(jobs_.size() * types_, 0);
    std::vector<double> used(types_, 0);
    for (std::size_t m = 0; m < jobs_.size(); ++m)
      for (std::size_t t = 0; t < types_; ++t) {
        if (jobs_[m].speeds[t] <= 0) continue;
        x[m * types_ + t] = need(m, rho) / jobs_[m].speeds[t];
        used[t] += x[m * types_ + t] * jobs_[m].gangs[t];
      }
    for (std::size_t t = 0; t < types_; ++t)
      if (used[t] > devices_[t]) return std::nullopt;
    return x;
  }

  // maximise z, where every job has at least z times the speed that it needs.
  std::optional<TimeShares> program_shares(double rho) const {
    LinearProgram program;
    const std::size_t z = program.add_column(1, 1);
    std::vector<std::vector<Term>> used(types_);
    std::vector<std::size_t> columns(jobs_.size() * types_, z);  // z: the job cannot run there
    for (std::size_t m = 0; m < jobs_.size(); ++m) {
      if (best_[m] <= 0) continue;
      // In parts of the best speed, so that all factors have the same order of magnitude.
      std::vector<Term> speed{{z, need(m, rho) / best_[m]}}, time;
      for (std::size_t t = 0; t < types_; ++t) {
        if (jobs_[m].speeds[t] <= 0) continue;
        const std::size_t column = program.add_column(0, 1);
        columns[m * types_ + t] = column;
        speed.push_back({column, -jobs_[m].speeds[t] / best_[m]});
        time.push_back({column, 1});
        used[t].push_back({column, static_cast<double>(jobs_[m].gangs[t])});
      }
      program.add_row(0, speed);
      program.add_row(1, time);
    }
    for (std::size_t t = 0; t < types_; ++t) program.add_row(devices_[t], used[t]);
    const std::vector<double> solution = program.solve();
    constexpr double kRounding = 1e-7;
    if (solution[z] < 1 - kRounding) return std::nullopt;
    TimeShares x(columns.size(), 0);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (columns[i] != z) x[i] = solution[columns[i]];
    return x;
  }

  const std::span<const GavelJob> jobs_;
  const std::vector<double>& devices_;
  const std::size_t types_;
  std::vector<double> best_;  // speed of each job on its best type
  bool one_type_ = true;
};

}  // namespace

TimeShares least_attained_shares(std::span<const GavelJob> jobs, const Counts& devices) {
  TimeShares x(jobs.size() * devices.size(), 0);
  const std::vector<GavelClass> classes = classes_of(jobs, devices);
  std::size_t counted = 0;
  for (const GavelClass& c : classes) counted += c.jobs.size();
  for (std::size_t first = 0; first < classes.size(); first += kPartClasses) {
    const std::size_t last = std::min(classes.size(), first + kPartClasses);
    const std::span part(classes.data() + first, last - first);
    std::size_t of_part = 0;
    for (const GavelClass& c : part) of_part += c.jobs.size();
    std::vector<double> capacity;
    for (const std::uint32_t n : devices)
      capacity.push_back(n * static_cast<double>(of_part) / static_cast<double>(counted));
    const std::vector<double> shares = solve_classes(part, capacity);
    for (std::size_t c = 0; c < part.size(); ++c)
      for (const std::size_t m : part[c].jobs)
        for (std::size_t t = 0; t < devices.size(); ++t)
          x[m * devices.size() + t] = shares[c * devices.size() + t];
  }
  return x;
}

TimeShares finish_time_shares(std::span<const GavelJob> jobs, const Counts& devices) {
  const std::size_t types = devices.size(), parts = (jobs.size() + kPartJobs - 1) / kPartJobs;
  TimeShares x(jobs.size() * types, 0);
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<GavelJob> members;
    for (std::size_t m = part; m < jobs.size(); m += parts) members.push_back(jobs[m]);
    std::vector<double> capacity;
    for (const std::uint32_t n : devices)
      capacity.push_back(n * static_cast<double>(members.size()) /
                         static_cast<double>(jobs.size()));
    const TimeShares shares = FinishTimes(members, capacity).run();
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t t = 0; t < types; ++t)
        x[(part + i * parts) * types + t] = shares[i * types + t];
  }
  return x;
}

}  // namespace es::scheduler
