#include "actors/sim/report/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "actors/sim/report/texts.h"

namespace es::actors::simulator {
namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 80, kRight = 180, kTop = 40, kBottom = 60;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kPointsMax = 1500;  // points of a line; more cannot be distinguished
constexpr std::array kColours = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93",
                                 "#00798c", "#8d6a9f", "#3d3d3d", "#b5651d"};

struct Range {
  double low = 0, high = 1;
};

// Converts a value to a share of the axis.
struct Scale {
  Range range;
  bool log = false;
  double operator()(double value) const {
    if (!log) return (value - range.low) / (range.high - range.low);
    const double least = std::log(range.low);
    return (std::log(std::max(value, range.low)) - least) / (std::log(range.high) - least);
  }
  double at(double share) const {
    if (!log) return range.low + share * (range.high - range.low);
    return range.low * std::pow(range.high / range.low, share);
  }
};

Scale x_scale(const std::vector<Series>& series, bool log) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) {
      if (!log || x > 0) low = std::min(low, x);
      high = std::max(high, x);
    }
  if (!std::isfinite(low)) low = log ? 1 : 0;
  return {{low, std::max(high, low + (log ? low : 1))}, log};
}

Scale y_scale(const std::vector<Series>& series) {
  double high = 0;
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) high = std::max(high, y);
  return {{0, high > 0 ? 1.05 * high : 1}, false};
}

void draw_axes(std::ostream& out, const Axes& axes, const Scale& x, const Scale& y) {
  constexpr int kTicks = 5;
  out << "<rect width='100%' height='100%' fill='white'/>\n<text x='" << kLeft
      << "' y='24' font-size='16'>" << escaped(axes.title) << "</text>\n";
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double px = kLeft + share * kPlotWidth, py = kTop + (1 - share) * kPlotHeight;
    out << "<line x1='" << kLeft << "' x2='" << kLeft + kPlotWidth << "' y1='" << py << "' y2='"
        << py << "' stroke='#ddd'/>\n<text x='" << kLeft - 8 << "' y='" << py + 4
        << "' text-anchor='end'>" << decimal(y.at(share)) << "</text>\n<text x='" << px << "' y='"
        << kTop + kPlotHeight + 20 << "' text-anchor='middle'>" << decimal(x.at(share))
        << "</text>\n";
  }
  out << "<text x='" << kLeft + kPlotWidth / 2 << "' y='" << kHeight - 14
      << "' text-anchor='middle'>" << escaped(axes.x) << "</text>\n<text x='18' y='"
      << kTop + kPlotHeight / 2 << "' text-anchor='middle' transform='rotate(-90 18 "
      << kTop + kPlotHeight / 2 << ")'>" << escaped(axes.y) << "</text>\n";
}

void draw_line(std::ostream& out, const Series& series, const Scale& x, const Scale& y,
               const char* colour) {
  out << "<path fill='none' stroke-width='1.5' stroke='" << colour << "' d='";
  // Points are left out at equal distances, so a long series does not make a file of many
  // megabytes.
  const std::size_t stride = series.points.size() / kPointsMax + 1;
  bool first = true;
  for (std::size_t i = 0; i < series.points.size(); i += stride) {
    const double px = kLeft + x(series.points[i].first) * kPlotWidth;
    const double py = kTop + (1 - y(series.points[i].second)) * kPlotHeight;
    if (first) {
      out << 'M' << decimal(px) << ' ' << decimal(py);
    } else {
      // Counts of devices change in steps, so the line goes first to the right and then up or down.
      out << 'H' << decimal(px) << 'V' << decimal(py);
    }
    first = false;
  }
  out << "'/>\n";
}

// An axis from the least to the greatest value, with a margin.
Scale scale_around(const std::vector<Trial>& trials, double Trial::*value) {
  constexpr double kMargin = 0.08;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Trial& trial : trials) {
    low = std::min(low, trial.*value);
    high = std::max(high, trial.*value);
  }
  const double margin = std::max(kMargin * (high - low), 1e-3 * high);
  return {{low - margin, high + margin}, false};
}

void draw_legend(std::ostream& out, std::size_t index, const std::string& name,
                 const char* colour) {
  const double y = kTop + 18 * static_cast<double>(index + 1);
  out << "<rect x='" << kLeft + kPlotWidth + 14 << "' y='" << y - 9
      << "' width='12' height='12' fill='" << colour << "'/>\n<text x='" << kLeft + kPlotWidth + 32
      << "' y='" << y + 2 << "'>" << escaped(name) << "</text>\n";
}

void draw_trials(std::ostream& out, const std::vector<Trial>& trials, const Scale& x,
                 const Scale& y, const char* colour) {
  constexpr double kTextApart = 14;  // points that are nearer share a text
  struct Spot {
    double x, y;
    std::string text;
  };
  std::vector<Spot> spots;
  std::string path;
  for (const Trial& trial : trials) {
    const double px = kLeft + x(trial.avg_jct_s) * kPlotWidth;
    const double py = kTop + (1 - y(trial.worst_rho)) * kPlotHeight;
    path += (path.empty() ? "M" : "L") + decimal(px) + " " + decimal(py);
    out << "<circle r='4' cx='" << decimal(px) << "' cy='" << decimal(py) << "' fill='" << colour
        << "'/>\n";
    if (!spots.empty() && std::hypot(px - spots.back().x, py - spots.back().y) < kTextApart)
      spots.back().text += ", " + trial.knob;
    else
      spots.push_back({px, py, trial.knob});
  }
  for (const Spot& spot : spots)
    out << "<text dx='7' dy='-5' x='" << decimal(spot.x) << "' y='" << decimal(spot.y) << "'>"
        << escaped(spot.text) << "</text>\n";
  out << "<path fill='none' stroke='" << colour << "' d='" << path << "'/>\n";
}

void begin_chart(std::ostream& out, const Axes& axes, const Scale& x, const Scale& y) {
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << kWidth << ' ' << kHeight
      << "' font-family='sans-serif' font-size='12'>\n";
  draw_axes(out, axes, x, y);
}

double most_devices(const GroupSeries& group) {
  double most = 0;
  for (const GroupSeries::Point& point : group.points) most = std::max<double>(most, point.devices);
  return most;
}

// The sum of step functions.
Series sum_of_groups(const std::string& name, const std::vector<GroupSeries>& groups) {
  std::map<double, double> changes;
  for (const GroupSeries& group : groups) {
    double before = 0;
    for (const GroupSeries::Point& point : group.points)
      changes[point.time_s] += point.devices - std::exchange(before, point.devices);
  }
  Series series{name, {{0, 0}}};
  double devices = 0;
  for (const auto& [time_s, change] : changes)
    series.points.emplace_back(time_s / 3600, devices += change);
  return series;
}

std::string group_chart(std::vector<GroupSeries> groups, const std::string& policy) {
  // As many as there are colours.
  constexpr std::size_t kMost = kColours.size();
  std::ranges::stable_sort(groups, std::greater<>(), most_devices);
  const std::size_t named = groups.size() <= kMost ? groups.size() : kMost - 1;
  std::vector<Series> series;
  for (std::size_t i = 0; i < named; ++i)
    series.push_back(sum_of_groups(groups[i].name.empty() ? "-" : groups[i].name, {groups[i]}));
  if (named < groups.size())
    series.push_back(
        sum_of_groups(std::to_string(groups.size() - named) + " others",
                      {groups.begin() + static_cast<std::ptrdiff_t>(named), groups.end()}));
  return line_chart(
      {"Devices by " + std::string(kind_name(groups.front().kind)) + " under " + policy, "time, h",
       "devices", false},
      series);
}

Series over_time(const SimulationResult& result, const std::string& name,
                 const std::function<double(const Sample&)>& value) {
  Series series{name, {}};
  for (const Sample& sample : result.samples)
    series.points.emplace_back(sample.time_s / 3600, value(sample));
  return series;
}

}  // namespace

std::string line_chart(const Axes& axes, const std::vector<Series>& series) {
  const Scale x = x_scale(series, axes.log_x), y = y_scale(series);
  std::ostringstream out;
  begin_chart(out, axes, x, y);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    draw_line(out, series[i], x, y, colour);
    draw_legend(out, i, series[i].name, colour);
  }
  out << "</svg>\n";
  return out.str();
}

std::string point_chart(const Axes& axes, const std::vector<Series>& series) {
  const Scale x = x_scale(series, axes.log_x), y = y_scale(series);
  std::ostringstream out;
  begin_chart(out, axes, x, y);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const auto& [at, value] : series[i].points) {
      const std::string px = decimal(kLeft + x(at) * kPlotWidth);
      const std::string py = decimal(kTop + (1 - y(value)) * kPlotHeight);
      path += (path.empty() ? "M" : "L") + px + " " + py;
      out << "<circle r='4' cx='" << px << "' cy='" << py << "' fill='" << colour << "'/>\n";
    }
    out << "<path fill='none' stroke='" << colour << "' d='" << path << "'/>\n";
    draw_legend(out, i, series[i].name, colour);
  }
  out << "</svg>\n";
  return out.str();
}

std::string fairness_chart(const std::vector<Trial>& trials) {
  std::vector<std::vector<Trial>> by_policy;
  for (const Trial& trial : trials) {
    const auto same = std::find_if(by_policy.begin(), by_policy.end(), [&](const auto& group) {
      return group.front().policy == trial.policy;
    });
    if (same != by_policy.end())
      same->push_back(trial);
    else
      by_policy.push_back({trial});
  }
  const Scale x = scale_around(trials, &Trial::avg_jct_s);
  const Scale y = scale_around(trials, &Trial::worst_rho);
  std::ostringstream out;
  begin_chart(out, {"Speed against fairness", "mean job completion time, s", "worst rho"}, x, y);
  for (std::size_t i = 0; i < by_policy.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    draw_trials(out, by_policy[i], x, y, colour);
    draw_legend(out, i, by_policy[i].front().policy, colour);
  }
  out << "</svg>\n";
  return out.str();
}

std::string jct_chart(const std::vector<const SimulationResult*>& results) {
  std::vector<Series> series;
  for (const SimulationResult* result : results) {
    std::vector<double> jct;
    for (const JobResult& job : result->jobs)
      if (job.completed()) jct.push_back(job.end_s - job.submit_s);
    std::sort(jct.begin(), jct.end());
    Series line{result->policy, {}};
    for (std::size_t i = 0; i < jct.size(); ++i)
      line.points.emplace_back(
          jct[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(result->jobs.size()));
    series.push_back(std::move(line));
  }
  return line_chart({"Jobs done within a time", "job completion time, s", "jobs, %", true}, series);
}

std::string allocation_chart(const SimulationResult& result) {
  std::vector<Series> series;
  for (std::size_t t = 0; t < result.types.size(); ++t)
    series.push_back(over_time(result, result.types[t].name + " held",
                               [t](const Sample& s) { return s.held[t]; }));
  series.push_back(over_time(result, "all computing", [](const Sample& s) {
    double sum = 0;
    for (const std::uint32_t count : s.computing) sum += count;
    return sum;
  }));
  return line_chart({"Devices under " + result.policy, "time, h", "devices", false}, series);
}

std::vector<std::pair<std::string, std::string>> group_charts(
    const std::vector<GroupSeries>& groups, const std::string& policy) {
  std::map<GroupKind, std::vector<GroupSeries>> by_kind;
  for (const GroupSeries& group : groups) by_kind[group.kind].push_back(group);
  std::vector<std::pair<std::string, std::string>> charts;
  for (auto& [kind, of_kind] : by_kind)
    if (of_kind.size() > 1)
      charts.emplace_back(kind_name(kind), group_chart(std::move(of_kind), policy));
  return charts;
}

std::string queue_chart(const std::vector<const SimulationResult*>& results) {
  std::vector<Series> series;
  for (const SimulationResult* result : results)
    series.push_back(over_time(*result, result->policy,
                               [](const Sample& s) { return static_cast<double>(s.waiting); }));
  return line_chart({"Jobs without any device", "time, h", "jobs", false}, series);
}

}  // namespace es::actors::simulator
