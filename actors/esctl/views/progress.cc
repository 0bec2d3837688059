#include "actors/esctl/views/progress.h"

#include <algorithm>

#include "actors/esctl/views/render_text.h"
#include "actors/program/program.h"

namespace es::actors::esctl {
namespace {

constexpr std::uint64_t kPlainLines = 20;
constexpr int kBarColumnsMax = 30;
constexpr int kBarColumnsMin = 8;

std::uint64_t twentieth(const JobView& job) {
  return job.last_step == 0 ? 0 : job.step * kPlainLines / job.last_step;
}

std::string bar(const JobView& job, int columns) {
  const double part = job.last_step == 0 ? 0.0 : double(job.step) / double(job.last_step);
  const int filled = static_cast<int>(std::clamp(part, 0.0, 1.0) * columns);
  return "[" + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(columns - filled), '.') + "] ";
}

// The console escapes control characters in texts. These two sequences come from this file and
// are written unescaped.
void control(std::ostream& err, std::string_view sequence) {
  auto* const buffer = dynamic_cast<OutputBuffer*>(err.rdbuf());
  if (buffer == nullptr) {
    err << sequence << std::flush;
  } else if (err.good()) {
    try {
      buffer->write_raw(sequence);
    } catch (const OutputFailed&) {
      err.setstate(std::ios::badbit);
    }
  }
}

}  // namespace

std::string progress_text(const JobView& job) {
  std::string text = "step " + std::to_string(job.step) + "/" + std::to_string(job.last_step) +
                     "  loss " + fixed(job.loss_last, 4);
  if (job.samples_per_second_now > 0)
    text += "  " + rate_text(job.samples_per_second_now) + " samples/s";
  if (!job.placement.empty()) text += "  " + job.placement;
  if (job.stages.size() > 1) text += "  stage " + std::to_string(job.stages.size());
  return text + "  " + job.state;
}

std::string progress_bar(const JobView& job, int columns) {
  constexpr int kFrame = 3;  // brackets and a space
  const std::string text = progress_text(job);
  const int room = columns - static_cast<int>(text.size()) - kFrame;
  const std::string line =
      room < kBarColumnsMin ? text : bar(job, std::min(room, kBarColumnsMax)) + text;
  return line.substr(0, static_cast<std::size_t>(columns));
}

bool PlainProgress::worth_a_line(const JobView& job) {
  const bool worth = !shown_ || shown_->state != job.state || shown_->placement != job.placement ||
                     twentieth(*shown_) != twentieth(job);
  if (worth) shown_ = job;
  return worth;
}

Progress::~Progress() {
  if (line_open_) console_.err << std::endl;
}

void Progress::show(const JobView& job) {
  if (quiet_) return;
  if (const int columns = console_.err_columns(); columns > 0) {
    // One column stays free, because a full line makes some terminals scroll.
    control(console_.err, "\r");
    console_.err << progress_bar(job, std::max(columns - 1, 1)) << std::flush;
    control(console_.err, "\x1b[K");
    line_open_ = true;
  } else if (plain_.worth_a_line(job)) {
    console_.err << progress_text(job) << std::endl;
  }
}

}  // namespace es::actors::esctl
