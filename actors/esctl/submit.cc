#include "actors/esctl/commands.h"
#include "actors/esctl/d2_cost.h"
#include "actors/esctl/options.h"
#include "actors/esctl/render_json.h"
#include "actors/esctl/requests.h"
#include "actors/gateway/endpoint.h"

namespace es::actors::esctl {
namespace {

struct Options {
  HeadOptions head;
  JobOptions job;
  bool follow = false;
  bool json = false;
};

Result<JobSpec> read_spec(const Options& options, StartPoint& start) {
  const Result<Endpoint> endpoint = parse_endpoint(options.head.endpoint);
  if (!endpoint) return endpoint.error();
  Result<StartPoint> opened =
      open_start_point(options.job.from, endpoint->kind == Endpoint::Kind::kTcp);
  if (!opened) return opened.error();
  start = *std::move(opened);
  return make_spec(options.job.file, options.job.changes, start);
}

Result<int> follow_to_end(Client& client, const JobId& job, const Options& options,
                          Console& console) {
  const Result<JobView> end = [&] {
    Progress progress(console, false);
    return follow_job(client, job, progress);
  }();
  if (!end) return end.error();
  return print_end(*end, options.json, console);
}

Result<int> submit(const Options& options, Console& console) {
  StartPoint start;
  Result<JobSpec> spec = read_spec(options, start);
  if (!spec) return spec.error();
  ES_RETURN_IF_ERROR(resolve_auto_level(*spec, console));
  const auto client = connect(options.head);
  if (!client) return client.error();
  const Result<JobId> job = submit_job(**client, *spec, start);
  if (!job) return job.error();
  if (options.follow) {
    console.err << "job " << *job << std::endl;
    return follow_to_end(**client, *job, options, console);
  }
  console.out << (options.json ? fields_json({{"job", *job}}) : *job) << "\n";
  return 0;
}

}  // namespace

void add_submit_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("submit", "Give a job to a running head and print its id");
  add_job_options(*command, options->job);
  command->add_flag("--follow", options->follow,
                    "Show progress until the job ends; it goes on when this is stopped");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "Example:\n  esctl submit configs/jobs/small_cnn.toml\n"
      "  esctl submit configs/jobs/small_cnn.toml --from checkpoints/step20 --follow");
  command->callback([options, &shell] {
    shell.exit_code = finish(submit(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
