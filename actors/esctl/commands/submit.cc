#include <chrono>
#include <random>
#include <thread>

#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/d2_cost.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

// The pause between two attempts to reach a head that was there before.
constexpr std::chrono::milliseconds kRetryInterval{200};

struct SubmitOptions {
  HeadOptions head;
  JobOptions job;
  bool follow = false;
  bool json = false;
};

Result<JobSpec> read_spec(const SubmitOptions& options, StartPoint& start, Console& console) {
  const Result<Endpoint> endpoint = parse_endpoint(options.head.endpoint);
  if (!endpoint) return endpoint.error();
  Result<StartPoint> opened =
      open_start_point(options.job.from, endpoint->kind == Endpoint::Kind::kTcp);
  if (!opened) return opened.error();
  start = *std::move(opened);
  return make_spec(options.job.file, options.job.changes, start,
                   ByteProgress::of_texts(console, options.json));
}

Result<int> follow_to_end(Client& client, const JobId& job, const SubmitOptions& options,
                          Console& console) {
  const Result<JobView> end = [&] {
    Progress progress(console, false);
    return follow_job(client, job, progress);
  }();
  if (!end) return end.error();
  return print_end(*end, options.json, console);
}

// Returns an id that is unique among all submissions.
std::string new_request_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += (i == 0 ? "" : "-") + std::to_string(random());
  return id;
}

struct Accepted {
  std::unique_ptr<Client> client;
  JobId job;
};

// If the head is restarted while it decides, the job may exist or not. The request is therefore
// repeated with the same id until the head answers.
Result<Accepted> submit_for_certain(const SubmitOptions& options, const JobSpec& spec,
                                    const StartPoint& start, Console& console) {
  const std::string id = new_request_id();
  const auto give_up = std::chrono::steady_clock::now() + kJobTimeout;
  for (bool sent = false;;) {
    auto client = connect(options.head);
    if (!client && !sent) return client.error();
    if (client) {
      const Result<JobId> job = submit_job(**client, spec, start, id);
      if (job) return Accepted{*std::move(client), *job};
      const bool in_time = std::chrono::steady_clock::now() < give_up;
      if (!(*client)->unanswered() || !in_time) return job.error();
      if (!sent) console.err << job.error().message << "; trying again" << std::endl;
      sent = true;
    } else if (std::chrono::steady_clock::now() >= give_up) {
      return client.error();
    } else {
      std::this_thread::sleep_for(kRetryInterval);
    }
  }
}

Result<int> submit(const SubmitOptions& options, Console& console) {
  StartPoint start;
  Result<JobSpec> spec = read_spec(options, start, console);
  if (!spec) return spec.error();
  ES_RETURN_IF_ERROR(resolve_auto_level(*spec, start, console));
  const auto accepted = submit_for_certain(options, *spec, start, console);
  if (!accepted) return accepted.error();
  const JobId& job = accepted->job;
  if (options.follow) {
    console.err << "job " << job << std::endl;
    return follow_to_end(*accepted->client, job, options, console);
  }
  console.out << (options.json ? fields_json({{"job", job}}) : job) << std::endl;
  if (options.json) return 0;
  // The head has decided whether the state is divided.
  const auto details = describe_job(*accepted->client, job);
  const auto resolved = details ? parse_job(details->spec_toml, job) : details.error();
  if (resolved) console.err << "The job " << survived_losses(*resolved) << "." << std::endl;
  return 0;
}

}  // namespace

void add_submit_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command =
      app.add_subcommand("submit", "Submit a job to a running head and print its id");
  add_job_options(*command, options->job);
  command->add_flag(
      "--follow", options->follow,
      "Show progress until the job ends; the job continues if this command is stopped");
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
