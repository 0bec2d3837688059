#include "actors/sim/report/trials.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "actors/sim/report/charts.h"
#include "actors/sim/report/figures.h"
#include "actors/sim/report/texts.h"
#include "proto/base/number_text.h"

namespace es::actors::simulator {
namespace {

constexpr const char* kFigureColumns =
    "policy,jobs,unfinished,avg_jct_s,p99_jct_s,avg_queue_s,makespan_s,devices_held_mean,"
    "devices_computing_mean,worst_rho";

void write_figures(std::ostream& out, const Report& report) {
  out << csv_field(report.policy) << ',' << report.jobs << ',' << report.unfinished;
  for (const double figure :
       {report.avg_jct_s, report.p99_jct_s, report.avg_queue_s, report.makespan_s,
        report.devices_held_mean, report.devices_computing_mean, report.worst_rho})
    out << ',' << number_text(figure);
  out << '\n';
}

Statistics spread_of(const Repeats& repeats, double Report::*figure) {
  std::vector<double> values;
  for (const Report& report : repeats.reports) values.push_back(report.*figure);
  return statistics_of(values);
}

Statistics ratio_of(const Repeats& repeats, const Repeats& first) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < repeats.reports.size(); ++i) {
    const double base = first.reports[i].avg_jct_s;
    ratios.push_back(base > 0 ? repeats.reports[i].avg_jct_s / base : 1);
  }
  return statistics_of(ratios);
}

}  // namespace

Statistics statistics_of(const std::vector<double>& values) {
  Statistics result{.mean = mean_of(values),
                    .least = *std::ranges::min_element(values),
                    .most = *std::ranges::max_element(values)};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::vector<RepeatSummary> summaries_of(const std::vector<Repeats>& policies) {
  std::vector<RepeatSummary> summaries;
  for (const Repeats& repeats : policies) {
    RepeatSummary summary{.policy = repeats.policy,
                          .avg_jct_s = spread_of(repeats, &Report::avg_jct_s),
                          .p99_jct_s = spread_of(repeats, &Report::p99_jct_s),
                          .avg_queue_s = spread_of(repeats, &Report::avg_queue_s),
                          .makespan_s = spread_of(repeats, &Report::makespan_s),
                          .jct_ratio = ratio_of(repeats, policies.front())};
    for (const Report& report : repeats.reports) summary.unfinished += report.unfinished;
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::string repeats_csv(const std::vector<Repeats>& policies) {
  std::ostringstream out;
  out << "seed," << kFigureColumns << '\n';
  for (const Repeats& repeats : policies)
    for (std::size_t i = 0; i < repeats.reports.size(); ++i) {
      out << repeats.seeds[i] << ',';
      write_figures(out, repeats.reports[i]);
    }
  return out.str();
}

std::optional<std::size_t> enough_devices(const std::vector<Size>& sizes, std::size_t policy) {
  constexpr double kLonger = 1.05;
  const auto jct_s = [&](const Size& size) { return size.reports[policy].avg_jct_s; };
  if (sizes.back().reports[policy].unfinished > 0) return {};
  std::size_t enough = sizes.size() - 1;
  // A larger cluster that is slower again would show that the size was good by chance.
  while (enough > 0 && sizes[enough - 1].reports[policy].unfinished == 0 &&
         jct_s(sizes[enough - 1]) <= kLonger * jct_s(sizes.back()))
    --enough;
  return enough;
}

std::string sweep_csv(const std::vector<Size>& sizes) {
  std::ostringstream out;
  out << "scale,cluster,devices," << kFigureColumns << '\n';
  for (const Size& size : sizes)
    for (const Report& report : size.reports) {
      out << number_text(size.scale) << ',' << size.cluster.text() << ',' << size.cluster.total()
          << ',';
      write_figures(out, report);
    }
  return out.str();
}

std::vector<SweepChart> sweep_charts(const std::vector<Size>& sizes) {
  struct Chart {
    const char* file;
    const char* title;
    const char* unit;
    double (*value)(const Report&, const Size&);
  };
  constexpr Chart kCharts[] = {{"sweep-jct.svg", "Mean job completion time", "s",
                                [](const Report& r, const Size&) { return r.avg_jct_s; }},
                               {"sweep-queue.svg", "Mean time without any device", "s",
                                [](const Report& r, const Size&) { return r.avg_queue_s; }},
                               {"sweep-makespan.svg", "Makespan", "s",
                                [](const Report& r, const Size&) { return r.makespan_s; }},
                               {"sweep-use.svg", "Devices that compute, over the makespan", "%",
                                [](const Report& r, const Size& s) {
                                  return 100 * r.devices_computing_mean / s.cluster.total();
                                }}};
  std::vector<SweepChart> charts;
  for (const Chart& chart : kCharts) {
    std::vector<Series> lines;
    for (std::size_t p = 0; p < sizes.front().reports.size(); ++p) {
      Series line{sizes.front().reports[p].policy, {}};
      for (const Size& size : sizes)
        line.points.emplace_back(size.cluster.total(), chart.value(size.reports[p], size));
      lines.push_back(std::move(line));
    }
    const std::string y = std::string(chart.title) + ", " + chart.unit;
    charts.push_back(
        {chart.file, y, point_chart({chart.title, "devices", chart.unit, false}, lines)});
  }
  return charts;
}

}  // namespace es::actors::simulator
