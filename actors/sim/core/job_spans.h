#pragma once
// JobSpans keeps what each job holds and does over time, and why it waits. Pure bookkeeping. Times
// never decrease; spans without a length are not kept.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace es::actors::simulator {

enum class SpanState : std::uint8_t {
  kWaits,   // it holds no device
  kStarts,  // it holds devices and has not made a step yet
  kRuns,    // it makes steps
  kPauses,  // it holds devices and stands still for a change of them
};
const char* state_name(SpanState state);

// The time between two changes of a job.
struct JobSpan {
  std::size_t job = 0;
  SpanState state = SpanState::kWaits;
  double from_s = 0, until_s = 0;
  std::vector<std::uint32_t> held;  // by type
  // While it waits: index of the reason in JobSpans::reasons(), and seconds; each reason once, in
  // the order in which they began.
  std::vector<std::pair<std::size_t, double>> reasons;
};

class JobSpans {
 public:
  explicit JobSpans(std::size_t jobs) : open_(jobs) {}

  // From now on the job is in this state with these devices.
  void enter(std::size_t job, SpanState state, const std::vector<std::uint32_t>& held,
             double now_s);
  // The job has ended.
  void leave(std::size_t job, double now_s);
  // The simulation ends, also for jobs that have not ended.
  void finish(double now_s);
  // From now on these jobs wait for these reasons although devices are free. All others wait
  // because too few are free.
  void explain(const std::map<std::size_t, std::string>& reasons, double now_s);

  // In the order in which they ended.
  const std::vector<JobSpan>& spans() const { return spans_; }
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  static constexpr std::size_t kTooFew = 0;
  struct Open {
    bool is_open = false;
    JobSpan span;
    std::size_t reason = kTooFew;
    double reason_since_s = 0;
  };
  void close(std::size_t job, double now_s);
  void set_reason(std::size_t job, std::size_t reason, double now_s);
  static void charge(Open& open, double now_s);
  std::size_t index_of(const std::string& reason);

  std::vector<Open> open_;  // by job
  std::vector<JobSpan> spans_;
  std::vector<std::string> reasons_{"devices: fewer are free than it needs"};
  std::map<std::string, std::size_t> index_of_reason_;
  std::map<std::size_t, std::string> explained_;  // jobs with another reason than kTooFew
};

}  // namespace es::actors::simulator
