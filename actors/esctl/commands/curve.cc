// `esctl curve`: the losses and evaluations of a job as a table, a chart, or files for TensorBoard.
#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/views/json_text.h"
#include "actors/http/answers/job_answers.h"
#include "actors/simulator/report/charts.h"
#include "store/checkpoint/file_system.h"
#include "store/checkpoint/new_file.h"
#include "store/tensorboard/event_file.h"

namespace es::actors::esctl {
namespace {

struct CurveOptions {
  HeadOptions head;
  std::string job;
  std::size_t points = 1000;
  std::string csv, svg, tensorboard;
  bool json = false;
};

// What a job has reached, step by step.
struct JobCurve {
  store::LedgerFile ledger;
  std::vector<EvaluationView> evaluations;  // none for a ledger file
  double submitted_unix_s = 0;              // 0 for a ledger file
};

double mean_loss(const store::LedgerLine& line) {
  return std::accumulate(line.losses.begin(), line.losses.end(), 0.0) / double(line.losses.size());
}

Result<JobCurve> read_curve(const CurveOptions& options) {
  auto ledger = open_ledger(options.job, options.head);
  if (!ledger) return ledger.error();
  JobCurve curve{*std::move(ledger), {}, 0};
  std::error_code ignored;
  if (std::filesystem::exists(options.job, ignored)) return curve;
  auto client = connect(options.head);
  if (!client) return client.error();
  auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  curve.evaluations = std::move(details->job.evaluations);
  curve.submitted_unix_s = static_cast<double>(details->job.submitted_unix_ms) / 1e3;
  return curve;
}

http::Curve points_of(const JobCurve& curve, std::size_t most) {
  http::Curve points(most);
  for (const store::LedgerLine& line : curve.ledger.lines)
    if (!line.losses.empty()) points.add(line.version, mean_loss(line));
  return points;
}

// Nine digits are enough for every fp32 number; an empty field is a number that is not finite.
std::string field(double value) {
  if (!std::isfinite(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string csv_of(const JobCurve& curve, std::size_t most) {
  std::string text = "step,loss_mean,loss_least,loss_largest\n";
  for (const http::CurvePoint& p : points_of(curve, most).points())
    text += std::to_string(p.version) + "," + field(p.mean) + "," + field(p.least) + "," +
            field(p.largest) + "\n";
  return text;
}

std::string svg_of(const JobCurve& curve, std::size_t most) {
  simulator::Series mean{"mean over the ESTs", {}}, evaluated{"evaluation", {}};
  for (const http::CurvePoint& p : points_of(curve, most).points())
    if (std::isfinite(p.mean)) mean.points.emplace_back(double(p.version), p.mean);
  for (const EvaluationView& e : curve.evaluations)
    for (const MetricView& m : e.metrics)
      if (m.name == "loss" && std::isfinite(m.value))
        evaluated.points.emplace_back(double(e.version), m.value);
  std::vector<simulator::Series> series{std::move(mean)};
  if (!evaluated.points.empty()) series.push_back(std::move(evaluated));
  return simulator::line_chart({"Loss of " + curve.ledger.job, "step", "loss"}, series);
}

std::string events_of(const JobCurve& curve) {
  std::vector<store::Scalar> scalars;
  for (const store::LedgerLine& line : curve.ledger.lines)
    if (!line.losses.empty())
      scalars.push_back({"train/loss", line.version, static_cast<float>(mean_loss(line))});
  for (const EvaluationView& e : curve.evaluations)
    for (const MetricView& m : e.metrics)
      scalars.push_back({"eval/" + m.name, e.version, static_cast<float>(m.value)});
  return store::encode_event_file(curve.submitted_unix_s, scalars);
}

Status write_file(const std::filesystem::path& path, const std::string& text) {
  store::FileSystem& files = store::posix_file_system();
  return store::write_new_file(files, path, [&](store::WritableFile& file) {
    return file.append(std::as_bytes(std::span(text)));
  });
}

// TensorBoard shows each directory as a run. The name of the file has the form that it looks for.
Status write_events(const JobCurve& curve, const std::filesystem::path& directory) {
  const std::filesystem::path run = directory / curve.ledger.job;
  ES_RETURN_IF_ERROR(store::make_directories(store::posix_file_system(), run));
  const auto versions = curve.ledger.lines.empty() ? 0 : curve.ledger.lines.back().version;
  const auto seconds = static_cast<std::uint64_t>(curve.submitted_unix_s);
  return write_file(
      run / ("events.out.tfevents." + std::to_string(seconds) + "." + std::to_string(versions)),
      events_of(curve));
}

Status curve(const CurveOptions& options, Console& console) {
  const auto whole = read_curve(options);
  if (!whole) return whole.error();
  if (!options.csv.empty())
    ES_RETURN_IF_ERROR(write_file(options.csv, csv_of(*whole, options.points)));
  if (!options.svg.empty())
    ES_RETURN_IF_ERROR(write_file(options.svg, svg_of(*whole, options.points)));
  if (!options.tensorboard.empty()) ES_RETURN_IF_ERROR(write_events(*whole, options.tensorboard));
  if (options.json)
    console.out << http::curve_json(points_of(*whole, options.points));
  else if (options.csv.empty() && options.svg.empty() && options.tensorboard.empty())
    console.out << csv_of(*whole, options.points);
  return {};
}

}  // namespace

void add_curve_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<CurveOptions>();
  CLI::App* command = app.add_subcommand(
      "curve", "Show the loss of a job by step: as a table (CSV), a chart, or for TensorBoard");
  command->add_option("job", options->job, "Id of a running or ended job, or a ledger file")
      ->required()
      ->type_name("JOB|FILE");
  command
      ->add_option("--points", options->points,
                   "Largest number of points of a table or a chart; neighbouring steps are joined")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
  command->add_option("--csv", options->csv, "Write the table into this new file")
      ->type_name("FILE");
  command->add_option("--svg", options->svg, "Write a chart into this new file")->type_name("FILE");
  command
      ->add_option("--tensorboard", options->tensorboard,
                   "Write all losses and evaluations into an event file in DIR/JOB")
      ->type_name("DIR");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Example:\n  esctl curve resnet18-3 --svg loss.svg\n"
      "  esctl curve resnet18-3 --tensorboard runs && tensorboard --logdir runs");
  command->callback([options, &shell] {
    shell.exit_code = finish(curve(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
