#include "actors/views/sim_view.h"

#include <algorithm>

#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using simulator::Report;

std::string html(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

struct Column {
  const char* name;
  std::string (*value)(const Report&);
  // The best value of the column is the smallest one.
  double (*key)(const Report&) = nullptr;
};

const Column kColumns[] = {
    {"policy", [](const Report& r) { return html(r.policy); }},
    {"jobs", [](const Report& r) { return std::to_string(r.jobs); }},
    {"not ended", [](const Report& r) { return std::to_string(r.unfinished); }},
    {"mean JCT s", [](const Report& r) { return fixed(r.avg_jct_s, 1); },
     [](const Report& r) { return r.avg_jct_s; }},
    {"median s", [](const Report& r) { return fixed(r.p50_jct_s, 1); },
     [](const Report& r) { return r.p50_jct_s; }},
    {"p99 s", [](const Report& r) { return fixed(r.p99_jct_s, 1); },
     [](const Report& r) { return r.p99_jct_s; }},
    {"mean queue s", [](const Report& r) { return fixed(r.avg_queue_s, 1); },
     [](const Report& r) { return r.avg_queue_s; }},
    {"makespan s", [](const Report& r) { return fixed(r.makespan_s, 1); },
     [](const Report& r) { return r.makespan_s; }},
    {"held", [](const Report& r) { return fixed(r.devices_held_mean, 1); }},
    {"computing", [](const Report& r) { return fixed(r.devices_computing_mean, 1); }},
    {"rescales", [](const Report& r) { return std::to_string(r.rescales); }},
    {"mean rho", [](const Report& r) { return fixed(r.mean_rho, 2); },
     [](const Report& r) { return r.mean_rho; }},
    {"worst rho", [](const Report& r) { return fixed(r.worst_rho, 2); },
     [](const Report& r) { return r.worst_rho; }},
    {"unfair share", [](const Report& r) { return fixed(100 * r.unfair_share, 1) + " %"; },
     [](const Report& r) { return r.unfair_share; }},
    {"lost work s", [](const Report& r) { return fixed(r.lost_work_seconds, 1); }},
    {"decision ms", [](const Report& r) { return fixed(r.decision_ms_mean, 3); }},
    {"history", [](const Report& r) { return "<code>" + r.history_hash + "</code>"; }},
};

bool is_best(const Column& column, const std::vector<Report>& reports, const Report& report) {
  return column.key != nullptr && reports.size() > 1 &&
         std::all_of(reports.begin(), reports.end(),
                     [&](const Report& other) { return column.key(report) <= column.key(other); });
}

std::string figures(const std::vector<Report>& reports) {
  std::string text =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Policies\">\n<table>"
      "<thead><tr>";
  for (const Column& column : kColumns)
    text += "<th scope=\"col\">" + std::string(column.name) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const Report& report : reports) {
    text += "<tr>";
    for (const Column& column : kColumns) {
      const std::string value = column.value(report);
      text += "<td>" +
              (is_best(column, reports, report) ? "<strong>" + value + "</strong>" : value) +
              "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

// One table with the groups of all policies; empty if there are none.
std::string groups(const std::vector<Report>& reports) {
  if (std::ranges::all_of(reports, [](const Report& r) { return r.groups.empty(); })) return "";
  std::string text =
      "<h2>By queue, tenant, model and device type</h2>\n<div class=\"scroll\" tabindex=\"0\" "
      "role=\"region\" "
      "aria-label=\"Groups\">\n<table><thead><tr>";
  for (const char* column :
       {"policy", "by", "name", "jobs", "not ended", "mean queue s", "p95 queue s", "mean JCT s",
        "p95 JCT s", "device hours", "held", "most held"})
    text += "<th scope=\"col\">" + std::string(column) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (const Report& report : reports)
    for (const simulator::Group& group : report.groups) {
      text += "<tr>";
      for (const std::string& value :
           {html(report.policy), std::string(kind_name(group.kind)),
            html(group.name.empty() ? "-" : group.name), std::to_string(group.jobs),
            std::to_string(group.unfinished), fixed(group.avg_wait_s, 1),
            fixed(group.p95_wait_s, 1), fixed(group.avg_jct_s, 1), fixed(group.p95_jct_s, 1),
            fixed(group.device_hours, 1), fixed(group.devices_mean, 1),
            fixed(group.devices_most, 0)})
        text += "<td>" + value + "</td>";
      text += "</tr>\n";
    }
  return text + "</tbody></table></div>\n";
}

// Whether queues had their guarantees; empty if no queue has one.
std::string guarantees(const std::vector<Report>& reports) {
  std::string items;
  for (const Report& report : reports)
    for (const simulator::Guarantee& guarantee : report.guarantees)
      items += "<li>" + html(report.policy + ": " + guarantee_text(guarantee)) + ".</li>\n";
  return items.empty() ? "" : "<h2>Guarantees</h2>\n<ul>\n" + items + "</ul>\n";
}

std::string facts_of(const SimPage& page) {
  std::string text = "<ul class=\"cards\">\n";
  for (const auto& [name, value] : page.facts)
    text += "<li class=\"card\"><span class=\"name\">" + html(name) +
            "</span> <span class=\"value\">" + html(value) + "</span></li>\n";
  return text + "</ul>\n";
}

// The colours of a chart are made for a light ground.
std::string chart(const std::string& caption, const std::string& svg) {
  const std::size_t begin = std::min(svg.find("<svg"), svg.size());
  std::string drawn = svg.substr(begin);
  if (!drawn.empty()) drawn.insert(4, " role=\"img\" aria-label=\"" + html(caption) + "\"");
  return "<figure class=\"chart\">\n" + drawn + "<figcaption>" + html(caption) +
         "</figcaption></figure>\n";
}

}  // namespace

std::string sim_page(const SimPage& page) {
  std::string text =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>EasyScale simulation</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>\n" +
      std::string(page.style) +
      "figure.chart { background: #ffffff; border: 1px solid var(--line); border-radius: 6px; }\n"
      "figure.chart svg { border: none; background: none; }\n"
      "figure.chart svg text { fill: #1b1f24; }\n"
      "figure.chart figcaption { padding: 0.25rem 0.75rem; color: #59636e; }\n"
      "</style>\n</head>\n<body>\n<header><h1>EasyScale simulation</h1></header>\n"
      "<main>\n<h2>Simulated</h2>\n";
  text += facts_of(page) + "<h2>Policies</h2>\n" + figures(page.reports);
  text +=
      "<p class=\"note\">JCT: job completion time, from the submission to the last step. rho: that "
      "time divided by the one alone on an equal share of the cluster; below 1 the job gained by "
      "sharing. The smallest value of a column is bold.</p>\n";
  for (const std::string& note : page.notes) text += "<p>" + html(note) + "</p>\n";
  text += groups(page.reports) + guarantees(page.reports) + "<h2>Charts</h2>\n";
  for (const auto& [caption, svg] : page.charts) text += chart(caption, svg);
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace es::actors
