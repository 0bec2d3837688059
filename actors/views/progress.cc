#include "actors/views/progress.h"

#include <algorithm>
#include <utility>

#include "actors/views/render_text.h"

namespace es::actors {
namespace {

constexpr std::uint64_t kPlainLines = 20;
constexpr int kBarColumnsMax = 30;
constexpr int kBarColumnsMin = 8;
constexpr int kFrame = 3;  // brackets and a space

std::uint64_t twentieth(std::uint64_t done, std::uint64_t total) {
  return total == 0 ? 0 : done * kPlainLines / total;
}

std::string bar(std::uint64_t done, std::uint64_t total, int columns) {
  const double part = total == 0 ? 0.0 : double(done) / double(total);
  const int filled = static_cast<int>(std::clamp(part, 0.0, 1.0) * columns);
  return "[" + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(columns - filled), '.') + "] ";
}

// The text behind a bar, cut to `columns`.
std::string bar_line(std::uint64_t done, std::uint64_t total, const std::string& text,
                     int columns) {
  const int room = columns - static_cast<int>(text.size()) - kFrame;
  const std::string line =
      room < kBarColumnsMin ? text : bar(done, total, std::min(room, kBarColumnsMax)) + text;
  return line.substr(0, static_cast<std::size_t>(columns));
}

// Rewrites the line of the terminal.
void rewrite(Console& console, const std::string& line) {
  write_control(console.err, "\r");
  console.err << line << std::flush;
  // The rest of a longer old line is erased afterwards. A line that is erased first would flicker.
  write_control(console.err, "\x1b[K");
}

// One column stays free, because a full line makes some terminals scroll.
int usable(int columns) {
  return std::max(columns - 1, 1);
}

std::string megabytes_text(std::uint64_t done, std::uint64_t total) {
  const std::string all = total == 0 ? "" : " of " + fixed(double(total) / 1e6, 1);
  return fixed(double(done) / 1e6, 1) + all + " MB";
}

std::uint64_t evaluated_version(const JobView& job) {
  return job.evaluations.empty() ? 0 : job.evaluations.back().version;
}

// What a text shows beside step, loss, rate and state.
struct Shown {
  bool time_left = true, metric = true, devices = true;
};

std::string progress_text(const JobView& job, const Shown& shown) {
  std::string text = "step " + std::to_string(job.step) + "/" + std::to_string(job.last_step) +
                     "  loss " + fixed(job.loss_last, 4);
  if (job.samples_per_second_now > 0)
    text += "  " + rate_text(job.samples_per_second_now) + " samples/s";
  if (const std::string left = time_left_text(job); shown.time_left && left != "-")
    text += "  " + left + " left";
  if (const std::string metric = headline(job); shown.metric && metric != "-")
    text += "  " + metric;
  if (shown.devices && !job.placement.empty()) text += "  " + job.placement;
  if (job.stages.size() > 1) text += "  stage " + std::to_string(job.stages.size());
  return text + "  " + job.state;
}

}  // namespace

std::string progress_text(const JobView& job) {
  return progress_text(job, Shown{});
}

std::string progress_bar(const JobView& job, int columns) {
  constexpr Shown kAll, kNoMetric{.metric = false}, kNoDevices{.metric = false, .devices = false},
      kLeast{.time_left = false, .metric = false};
  for (const Shown& shown : {kAll, kNoMetric, kNoDevices})
    if (const std::string text = progress_text(job, shown);
        static_cast<int>(text.size()) + kFrame + kBarColumnsMin <= columns)
      return bar_line(job.step, job.last_step, text, columns);
  // The time left says more than a bar.
  const std::string text = progress_text(job, kNoDevices);
  if (static_cast<int>(text.size()) <= columns) return text;
  return bar_line(job.step, job.last_step, progress_text(job, kLeast), columns);
}

bool PlainProgress::worth_a_line(const JobView& job) {
  const bool worth =
      !shown_ || shown_->state != job.state || shown_->placement != job.placement ||
      evaluated_version(*shown_) != evaluated_version(job) ||
      twentieth(shown_->step, shown_->last_step) != twentieth(job.step, job.last_step);
  if (worth) shown_ = job;
  return worth;
}

Progress::~Progress() {
  if (line_open_) console_.err << std::endl;
}

void Progress::show(const JobView& job) {
  if (quiet_) return;
  if (const int columns = console_.err_columns(); columns > 0) {
    rewrite(console_, progress_bar(job, usable(columns)));
    line_open_ = true;
  } else if (plain_.worth_a_line(job)) {
    console_.err << progress_text(job) << std::endl;
  }
}

void ByteProgress::show(std::uint64_t done, std::uint64_t total) {
  if (quiet_) return;
  const std::string text = megabytes_text(done, total);
  if (const int columns = console_.err_columns(); columns > 0) {
    rewrite(console_, bar_line(done, total, text, usable(columns)));
    line_open_ = true;
  } else if (twentieth(done, total) != shown_) {
    shown_ = twentieth(done, total);
    console_.err << text << std::endl;
  }
}

std::function<bool(std::uint64_t, std::uint64_t)> ByteProgress::of_texts(Console& console,
                                                                         bool quiet) {
  auto progress = std::make_shared<ByteProgress>(console, quiet);
  return [progress, begun = false](std::uint64_t done, std::uint64_t total) mutable {
    if (!std::exchange(begun, true)) progress->say("encoding the texts of the job");
    progress->show(done, total);
    return true;
  };
}

void ByteProgress::say(const std::string& text) {
  if (!quiet_) console_.err << text << std::endl;
}

void ByteProgress::end() {
  if (line_open_) console_.err << std::endl;
  line_open_ = false;
}

}  // namespace es::actors
