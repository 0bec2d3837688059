#include "actors/sim/report/job_allocations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "actors/sim/report/texts.h"
#include "proto/base/number_text.h"

namespace es::actors::simulator {
namespace {

// In the unit of the chart, about a pixel.
constexpr double kChartWidth = 960, kPlotLeft = 110, kPlotTop = 64, kPlotBottom = 40;
constexpr double kPlotWide = kChartWidth - kPlotLeft - 20;
constexpr double kThin = 0.5;  // spans that are narrower are not drawn on their own
// Rows are high enough for the names of the jobs, unless there are too many.
constexpr std::size_t kNamedRowsMax = 60;
constexpr double kNamedRow = 14, kRow = 5;

const char* colour_of(SpanState state) {
  switch (state) {
    case SpanState::kWaits:
      return "#f0b7bd";
    case SpanState::kStarts:
      return "#edae49";
    case SpanState::kRuns:
      return "#1b6ca8";
    case SpanState::kPauses:
      return "#6a4c93";
  }
  return "#000000";
}

std::string devices_text(const JobSpan& span, const std::vector<DeviceType>& types) {
  DeviceSet held;
  for (std::size_t t = 0; t < types.size(); ++t)
    if (span.held[t] > 0) held.add(types[t], span.held[t]);
  return held.empty() ? "" : held.text();
}

// The jobs of the chart, by submission.
std::vector<std::size_t> drawn_jobs(const SimulationResult& result) {
  std::vector<std::size_t> jobs(result.jobs.size());
  std::iota(jobs.begin(), jobs.end(), std::size_t{0});
  if (jobs.size() <= kChartJobsMax) return jobs;
  std::ranges::stable_sort(jobs, std::greater<>(),
                           [&](std::size_t job) { return result.jobs[job].waiting_s; });
  jobs.resize(kChartJobsMax);
  std::ranges::sort(jobs);
  return jobs;
}

class JobChart {
 public:
  JobChart(const Workload& workload, const SimulationResult& result)
      : workload_(workload), result_(result), jobs_(drawn_jobs(result)) {
    for (const std::size_t job : jobs_) spans_[job];
    for (const JobSpan& span : result.spans)
      if (const auto at = spans_.find(span.job); at != spans_.end()) {
        at->second.push_back(&span);
        begin_s_ = std::min(begin_s_, span.from_s);
        end_s_ = std::max(end_s_, span.until_s);
      }
    begin_s_ = std::floor(std::min(begin_s_, end_s_));
    row_ = jobs_.size() <= kNamedRowsMax ? kNamedRow : kRow;
  }

  std::string draw() {
    const double plot_high = row_ * static_cast<double>(jobs_.size());
    out_ << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << kChartWidth << ' '
         << kPlotTop + plot_high + kPlotBottom << "' font-family='sans-serif' font-size='12'>\n"
         << "<rect width='100%' height='100%' fill='white'/>\n<text x='" << kPlotLeft
         << "' y='24' font-size='16'>" << escaped(title()) << "</text>\n";
    draw_legend();
    draw_times(kPlotTop + plot_high);
    double y = kPlotTop;
    for (const std::size_t job : jobs_) {
      draw_row(workload_.jobs[job].id, spans_[job], y);
      y += row_;
    }
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  std::string title() const {
    const std::string all = std::to_string(result_.jobs.size());
    return "Jobs under " + result_.policy +
           (jobs_.size() == result_.jobs.size()
                ? ""
                : ": the " + std::to_string(jobs_.size()) + " of " + all + " that waited longest");
  }
  double x_of(double time_s) const {
    return kPlotLeft + kPlotWide * (time_s - begin_s_) / std::max(1.0, end_s_ - begin_s_);
  }

  void draw_legend() {
    double x = kPlotLeft;
    for (const SpanState state :
         {SpanState::kWaits, SpanState::kStarts, SpanState::kRuns, SpanState::kPauses}) {
      out_ << "<rect x='" << x << "' y='36' width='12' height='12' fill='" << colour_of(state)
           << "'/><text x='" << x + 18 << "' y='46'>" << state_name(state) << "</text>\n";
      x += 90;
    }
  }

  void draw_times(double bottom) {
    constexpr int kTicks = 6;
    for (int i = 0; i <= kTicks; ++i) {
      const double time_s = begin_s_ + (end_s_ - begin_s_) * i / kTicks;
      out_ << "<line x1='" << x_of(time_s) << "' x2='" << x_of(time_s) << "' y1='" << kPlotTop
           << "' y2='" << bottom << "' stroke='#ddd'/><text x='" << x_of(time_s) << "' y='"
           << bottom + 16 << "' text-anchor='middle'>" << decimal(time_s / 3600) << "</text>\n";
    }
    out_ << "<text x='" << kPlotLeft + kPlotWide / 2 << "' y='" << bottom + 32
         << "' text-anchor='middle'>time, h</text>\n";
  }

  void draw_row(const std::string& id, const std::vector<const JobSpan*>& spans, double y) {
    constexpr std::size_t kNameMax = 15;
    if (row_ == kNamedRow)
      out_ << "<text x='" << kPlotLeft - 6 << "' y='" << y + 11 << "' text-anchor='end'>"
           << escaped(id.size() > kNameMax ? id.substr(0, kNameMax - 1) + "…" : id) << "</text>\n";
    double drawn_to = 0;
    for (const JobSpan* span : spans) {
      const double right = x_of(span->until_s);
      const double left = std::max(drawn_to, x_of(span->from_s));
      if (right - left < kThin) continue;
      drawn_to = right;
      draw_bar(id, *span, left, right - left, y);
    }
    // A short life is a mark, for the longest of its spans.
    if (drawn_to > 0 || spans.empty()) return;
    const JobSpan& longest = **std::ranges::max_element(
        spans, {}, [](const JobSpan* span) { return span->until_s - span->from_s; });
    draw_bar(id, longest, x_of(longest.from_s), 2 * kThin, y);
  }

  void draw_bar(const std::string& id, const JobSpan& span, double x, double width, double y) {
    out_ << "<rect x='" << x << "' y='" << y << "' width='" << width << "' height='" << row_ - 1
         << "' fill='" << colour_of(span.state) << "'><title>" << text_of(id, span)
         << "</title></rect>\n";
  }

  std::string text_of(const std::string& id, const JobSpan& span) const {
    std::string text = id + " " + state_name(span.state);
    const std::string devices = devices_text(span, result_.types);
    if (!devices.empty()) text += " on " + devices;
    text += ", " + std::to_string(std::lround(span.from_s)) + " s to " +
            std::to_string(std::lround(span.until_s)) + " s";
    const std::string reasons = reasons_text(span, result_.wait_reasons);
    return escaped(reasons.empty() ? text : text + ", for " + reasons);
  }

  const Workload& workload_;
  const SimulationResult& result_;
  const std::vector<std::size_t> jobs_;
  std::map<std::size_t, std::vector<const JobSpan*>> spans_;  // by job
  double begin_s_ = std::numeric_limits<double>::infinity(), end_s_ = 0;
  double row_ = kRow;
  std::ostringstream out_;
};

}  // namespace

std::string reasons_text(const JobSpan& span, const std::vector<std::string>& reasons) {
  auto sorted = span.reasons;
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<std::size_t, double>::second);
  std::string text;
  for (const auto& [reason, seconds] : sorted)
    text += (text.empty() ? "" : "; ") + reasons[reason] + " (" + decimal(seconds) + " s)";
  return text;
}

std::string job_allocations_csv(const Workload& workload, const SimulationResult& result) {
  std::vector<const JobSpan*> spans;
  for (const JobSpan& span : result.spans) spans.push_back(&span);
  std::ranges::stable_sort(spans, {},
                           [](const JobSpan* span) { return std::pair(span->from_s, span->job); });
  std::ostringstream out;
  out << "time_s,seconds,job_id,state";
  for (const DeviceType& type : result.types) out << ',' << type.name;
  out << ",reason\n";
  for (const JobSpan* span : spans) {
    out << number_text(span->from_s) << ',' << number_text(span->until_s - span->from_s) << ','
        << csv_field(workload.jobs[span->job].id) << ',' << state_name(span->state);
    for (const std::uint32_t count : span->held) out << ',' << count;
    out << ',' << csv_field(reasons_text(*span, result.wait_reasons)) << '\n';
  }
  return out.str();
}

std::string job_chart(const Workload& workload, const SimulationResult& result) {
  return JobChart(workload, result).draw();
}

}  // namespace es::actors::simulator
