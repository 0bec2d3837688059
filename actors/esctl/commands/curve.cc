// `esctl curve`: the losses and evaluations of a job as a table, a chart, or files for TensorBoard.
#include <cmath>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/ledger_source.h"
#include "actors/esctl/client/live_tracking.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/esctl/commands/trace_file.h"
#include "actors/service/answers/job_answers.h"
#include "actors/sim/report/charts.h"
#include "actors/views/trackers/job_curves.h"

namespace es::actors::esctl {
namespace {

struct CurveOptions {
  HeadOptions head;
  std::string job;
  std::size_t points = 1000;
  std::string csv, svg;
  TrackingOptions tracking;
  bool follow = false;
  bool json = false;
};

// What a job has reached, step by step.
struct JobCurve {
  store::LedgerFile ledger;
  std::vector<EvaluationView> evaluations;  // none for a ledger file
};

Result<JobCurve> read_curve(const CurveOptions& options) {
  auto ledger = open_ledger(options.job, options.head);
  if (!ledger) return ledger.error();
  JobCurve curve{*std::move(ledger), {}};
  if (is_ledger_file(options.job)) return curve;
  auto client = connect(options.head);
  if (!client) return client.error();
  auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  curve.evaluations = std::move(details->job.evaluations);
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

// A ledger file has no evaluations, and its job may train on elsewhere, so nothing is ended.
Status track_ledger_file(const CurveOptions& options, const store::LedgerFile& ledger) {
  auto tracking = JobTracking::begin(options.tracking, {ledger.job, 0, {}});
  if (!tracking) return tracking.error();
  return tracking->add(ledger.lines, {});
}

Status track_job(const CurveOptions& options, Console& console) {
  auto client = connect(options.head);
  if (!client) return client.error();
  auto reader = connect(options.head);
  if (!reader) return reader.error();
  auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  LiveTracking tracking(options.tracking, *std::move(reader), console);
  if (!options.follow || is_over(details->job.state)) return tracking.finish(details->job);
  Progress progress(console, true);
  const auto end =
      follow_job(**client, options.job, progress, [&](const JobView& view) { tracking.see(view); });
  return end ? tracking.finish(*end) : end.error();
}

Status write_curve(const CurveOptions& options, const JobCurve& whole, Console& console) {
  if (!options.csv.empty())
    ES_RETURN_IF_ERROR(write_text_file(options.csv, csv_of(whole, options.points)));
  if (!options.svg.empty())
    ES_RETURN_IF_ERROR(write_text_file(options.svg, svg_of(whole, options.points)));
  if (options.json)
    console.out << http::curve_json(points_of(whole, options.points));
  else if (options.csv.empty() && options.svg.empty() && !options.tracking.any())
    console.out << csv_of(whole, options.points);
  return {};
}

Status curve(const CurveOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(check_tracking(options.tracking));
  const bool from_file = is_ledger_file(options.job);
  if (options.follow && (from_file || !options.tracking.any()))
    return usage_error("--follow: allowed is a job of a head with --tensorboard or --mlflow");
  if (options.tracking.any() && !from_file)
    ES_RETURN_IF_ERROR(track_job(options, console));  // before the table, which then has its end
  const auto whole = read_curve(options);
  if (!whole) return whole.error();
  if (options.tracking.any() && from_file)
    ES_RETURN_IF_ERROR(track_ledger_file(options, whole->ledger));
  return write_curve(options, *whole, console);
}

}  // namespace

void add_curve_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<CurveOptions>();
  CLI::App* command = app.add_subcommand(
      "curve",
      "Show the loss of a job by step: as a table (CSV) or a chart, in TensorBoard or in MLflow");
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
  add_tracking_options(*command, options->tracking);
  command->add_flag("--follow", options->follow,
                    "Keep the event file or the MLflow run up to date until the job is over");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Example:\n  esctl curve resnet18-3 --svg loss.svg\n"
      "  esctl curve resnet18-3 --tensorboard runs && tensorboard --logdir runs\n"
      "  esctl curve resnet18-3 --follow --mlflow http://127.0.0.1:5000");
  command->callback([options, &shell] {
    shell.exit_code = finish(curve(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
