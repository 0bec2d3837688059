#include "actors/views/profile_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using tracing::DeviceTime;
using tracing::OperatorTime;
using tracing::Profile;
using Json = nlohmann::ordered_json;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-";
}

double gflops(const OperatorTime& op) {
  return op.seconds > 0 ? op.flops / op.seconds * 1e-9 : 0;
}

// What a device does between two operators: it merges gradients of ESTs and checks results.
double between(const DeviceTime& time) {
  return std::max(0.0, time.slice_seconds - time.operator_seconds);
}

double rest_of_steps(const DeviceTime& time) {
  return std::max(0.0, time.step_seconds - time.slice_seconds - time.batch_wait_seconds -
                           time.reduce_seconds - time.update_seconds);
}

std::string mebibytes(double bytes) {
  return fixed(bytes / (1 << 20), 2);
}

std::string use_text(const DeviceTime& time, std::size_t columns) {
  std::vector<std::vector<std::string>> rows{{"TIME OF THE DEVICE", "MS PER STEP", "SHARE"}};
  const auto steps = static_cast<double>(time.steps);
  const auto row = [&](const char* what, double seconds) {
    rows.push_back({what, fixed(steps > 0 ? seconds * 1e3 / steps : 0, 3),
                    percent(seconds, time.step_seconds)});
  };
  row("local steps", time.slice_seconds);
  row("wait for mini-batches", time.batch_wait_seconds);
  row("sums over workers", time.reduce_seconds);
  row("update", time.update_seconds);
  row("wait for other workers, and the rest", rest_of_steps(time));
  row("whole steps", time.step_seconds);
  return table(rows, columns);
}

std::vector<std::string> operator_row(const OperatorTime& op, const DeviceTime& time) {
  const auto steps = static_cast<double>(std::max<std::uint64_t>(time.slices, 1));
  const bool product = op.flops > 0;
  return {op.name,
          fixed(op.seconds * 1e3 / steps, 3),
          percent(op.seconds, time.slice_seconds),
          fixed(static_cast<double>(op.calls) / steps, 0),
          fixed(op.seconds * 1e6 / static_cast<double>(std::max<std::uint64_t>(op.calls, 1)), 1),
          product ? fixed(gflops(op), 1) : "-",
          product && time.peak_gflops > 0 ? percent(gflops(op), time.peak_gflops) : "-",
          op.seconds > 0 ? fixed(op.bytes / op.seconds * 1e-9, 1) : "-"};
}

// `most` is no value for a list of kinds, which has all of them and the time between operators.
std::string operators_text(const char* title, const std::vector<OperatorTime>& list,
                           std::optional<std::size_t> most, const DeviceTime& time,
                           std::size_t columns) {
  std::vector<std::vector<std::string>> rows{
      {title, "MS PER LOCAL STEP", "SHARE", "CALLS", "US PER CALL", "GFLOP/S", "OF PEAK", "GB/S"}};
  for (const OperatorTime& op : list)
    if (most.value_or(0) == 0 || rows.size() <= *most) rows.push_back(operator_row(op, time));
  if (!most) {
    const auto slices = static_cast<double>(std::max<std::uint64_t>(time.slices, 1));
    rows.push_back({"between operators", fixed(between(time) * 1e3 / slices, 3),
                    percent(between(time), time.slice_seconds), "-", "-", "-", "-", "-"});
  }
  std::string text = table(rows, columns);
  const std::size_t shown = rows.size() - 1;
  if (most && shown < list.size())
    text += "Not shown: " + counted(list.size() - shown, "operator") + "; --top 0 shows all.\n";
  return text;
}

std::string device_text(const DeviceTime& time, std::size_t top, std::size_t columns) {
  std::string text = time.device_type + ": " + counted(time.devices, "device") + ", " +
                     counted(time.slices, "local step");
  if (time.peak_gflops > 0) text += ", fp32 peak " + fixed(time.peak_gflops, 1) + " GFLOP/s";
  text += "\n\n" + use_text(time, columns);
  if (time.kinds.empty())
    text += "\nThe trace has no operators of this device type.\n";
  else
    text += "\n" + operators_text("KIND", time.kinds, std::nullopt, time, columns) + "\n" +
            operators_text("OPERATOR", time.operators, top, time, columns);
  if (time.dropped > 0)
    text += "The last " + counted(time.dropped, "span") +
            " are missing, because the memory of the trace was full; use fewer steps.\n";
  return text;
}

std::string memory_text(const Profile& profile, std::size_t columns) {
  std::vector<std::vector<std::string>> rows{{"MEMORY", "LIFETIME", "MIB"}};
  for (const tracing::ProcessMemory& process : profile.memory) {
    double sum = 0;
    rows.push_back(
        {"worker " + std::to_string(process.worker.value) + " on " + process.device.text(), "",
         ""});
    for (const tracing::TracedMemory& part : process.parts) {
      rows.push_back({"  " + part.name, part.lifetime, mebibytes(double(part.bytes))});
      sum += double(part.bytes);
    }
    rows.push_back({"  together", "", mebibytes(sum)});
  }
  return rows.size() > 1 ? "\n" + table(rows, columns) : "";
}

Json operators_json(const std::vector<OperatorTime>& list, const DeviceTime& time) {
  Json operators = Json::array();
  for (const OperatorTime& op : list)
    operators.push_back(
        {{"name", op.name},
         {"pass", op.backward ? "backward" : "forward"},
         {"calls", op.calls},
         {"seconds", op.seconds},
         {"share", share(op.seconds, time.slice_seconds)},
         {"mean_seconds", share(op.seconds, double(op.calls))},
         {"flops", op.flops},
         {"of_peak",
          op.flops > 0 && time.peak_gflops > 0 ? Json(gflops(op) / time.peak_gflops) : Json()},
         {"bytes", op.bytes}});
  return operators;
}

std::string xml(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string profile_text(const Profile& profile, std::size_t top, std::size_t columns) {
  std::string text = "Steps " + std::to_string(profile.first) + " to " +
                     std::to_string(profile.end == 0 ? 0 : profile.end - 1) + " of " + profile.job +
                     (profile.note.empty() ? "" : " (" + profile.note + ")") + "\n";
  for (const DeviceTime& time : profile.devices) text += "\n" + device_text(time, top, columns);
  text += memory_text(profile, columns);
  for (const std::string& line : profile.missing) text += "Missing: " + line + "\n";
  return text;
}

std::string profile_json(const Profile& profile) {
  Json json{
      {"job", profile.job},         {"first_step", profile.first},
      {"end_step", profile.end},    {"note", profile.note.empty() ? Json() : Json(profile.note)},
      {"missing", profile.missing}, {"devices", Json::array()},
      {"memory", Json::array()}};
  for (const DeviceTime& time : profile.devices)
    json["devices"].push_back(
        {{"device_type", time.device_type},
         {"devices", time.devices},
         {"steps", time.steps},
         {"local_steps", time.slices},
         {"peak_gflops", time.peak_gflops > 0 ? Json(time.peak_gflops) : Json()},
         {"dropped_spans", time.dropped},
         {"seconds",
          {{"steps", time.step_seconds},
           {"local_steps", time.slice_seconds},
           {"batch_waits", time.batch_wait_seconds},
           {"sums", time.reduce_seconds},
           {"updates", time.update_seconds},
           {"operators", time.operator_seconds},
           {"between_operators", between(time)},
           {"rest", rest_of_steps(time)}}},
         {"kinds", operators_json(time.kinds, time)},
         {"operators", operators_json(time.operators, time)}});
  for (const tracing::ProcessMemory& process : profile.memory) {
    Json parts = Json::array();
    for (const tracing::TracedMemory& part : process.parts)
      parts.push_back({{"name", part.name}, {"lifetime", part.lifetime}, {"bytes", part.bytes}});
    json["memory"].push_back({{"worker", process.worker.value},
                              {"device", process.device.text()},
                              {"parts", std::move(parts)}});
  }
  return json_text(json);
}

std::string profile_svg(const Profile& profile) {
  constexpr int kWidth = 900, kLeft = 280, kRow = 22, kBar = 440;
  std::string body;
  int y = 30;
  const auto text = [&](int x, const std::string& what, const char* style) {
    body += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" " + style + ">" +
            xml(what) + "</text>\n";
  };
  for (const DeviceTime& time : profile.devices) {
    text(10, time.device_type + ": time of local steps by kind of operator",
         "font-weight=\"bold\"");
    y += kRow;
    std::vector<OperatorTime> bars = time.kinds;
    bars.push_back({.name = "between operators", .seconds = between(time)});
    double longest = 0;
    for (const OperatorTime& op : bars) longest = std::max(longest, op.seconds);
    for (const OperatorTime& op : bars) {
      const int width = static_cast<int>(share(op.seconds, longest) * kBar + 0.5);
      text(kLeft - 8, op.name, "text-anchor=\"end\"");
      body += "<rect x=\"" + std::to_string(kLeft) + "\" y=\"" + std::to_string(y - 13) +
              "\" width=\"" + std::to_string(width) + "\" height=\"16\" fill=\"" +
              (op.backward ? "#c2631a" : "#2f6db3") + "\"/>\n";
      text(kLeft + width + 6, percent(op.seconds, time.slice_seconds), "");
      y += kRow;
    }
    y += kRow;
  }
  text(10, "blue: forward, orange: backward", "");
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(kWidth) +
         "\" height=\"" + std::to_string(y + 20) +
         "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n" +
         body + "</svg>\n";
}

}  // namespace es::actors
