#include "actors/views/explain.h"

#include <chrono>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"

namespace es::actors::esctl {
namespace {

struct ExplainOptions {
  HeadOptions head;
  JobId job;
  bool json = false;
};

Result<ClusterFacts> collect(Client& client, const JobId& job) {
  const auto details = describe_job(client, job);
  if (!details) return details.error();
  ClusterFacts facts{.job = details->job};
  auto spec = parse_job(details->spec_toml, "the job");
  if (!spec) return spec.error();
  facts.spec = *std::move(spec);
  auto jobs = list_jobs(client);
  if (!jobs) return jobs.error();
  facts.jobs = std::move(jobs->jobs);
  auto cluster = list_nodes(client);
  if (!cluster) return cluster.error();
  facts.nodes = std::move(cluster->nodes);
  facts.claims = std::move(cluster->claims);
  facts.queues = std::move(cluster->queues);
  // A job that is over has no plans, and the rest can be said without them.
  if (auto plans = list_plans(client, job)) facts.plans = *std::move(plans);
  facts.now_unix_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  return facts;
}

Status explain_job(const ExplainOptions& options, Console& console) {
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto facts = collect(**client, options.job);
  if (!facts) return facts.error();
  const Explanation explanation = explain(*facts);
  console.out << (options.json ? explanation_json(facts->job, explanation) + "\n"
                               : explanation_text(explanation));
  return {};
}

}  // namespace

void add_explain_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Say why a job waits, or is not faster");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl explain resnet18-1");
  command->callback([options, &shell] {
    shell.exit_code = finish(explain_job(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
