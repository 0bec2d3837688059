#include "actors/base/log/line.h"
#include "actors/esctl/client/live_client.h"
#include "actors/esctl/client/live_screen.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/top_view.h"

namespace es::actors::esctl {
namespace {

struct TopOptions {
  HeadOptions head;
  JobId job;
  double interval_s = 1;
  bool once = false;
};

// What is shown, from one request to the next.
struct TopSource {
  TopFacts facts{};
  std::optional<JobView> job{};

  Status ask(Client& client, const JobId& wanted) {
    if (!wanted.empty()) {
      auto details = describe_job(client, wanted);
      if (!details) return details.error();
      job = std::move(details->job);
      facts.warning.clear();
      return {};
    }
    auto jobs = list_jobs(client, kRecent);
    if (!jobs) return jobs.error();
    auto nodes = list_nodes(client);
    if (!nodes) return nodes.error();
    facts.jobs = std::move(jobs->jobs);
    facts.nodes = std::move(nodes->nodes);
    facts.warning = std::move(jobs->warning);
    return {};
  }

  // After an error the last answer stays, with the error as a warning.
  Status refresh(LiveClient& client, const TopOptions& options) {
    facts.head = options.head.endpoint;
    facts.time = log::time_text(std::chrono::system_clock::now());
    const Status asked = client.with([&](Client& c) { return ask(c, options.job); });
    if (!asked.ok()) facts.warning = asked.error().message;
    return asked;
  }

  Screen screen(ScreenSize size) const {
    return job ? job_screen(*job, facts, size) : cluster_screen(facts, size);
  }
};

Result<int> print_once(const TopOptions& options, Console& console) {
  constexpr ScreenSize kAll{.rows = 1 << 20, .columns = 1 << 20};
  LiveClient client(options.head, {});
  TopSource source;
  ES_RETURN_IF_ERROR(source.refresh(client, options));
  print(source.screen(kAll), console);
  return 0;
}

Result<int> top(const TopOptions& options, Console& console) {
  if (options.once || !has_screen(console)) return print_once(options, console);
  // The screen comes before the client, which has threads (StopSignals). An error of the first
  // request ends the command, since the user may have to correct it.
  LiveScreen screen(console);
  LiveClient client(options.head, screen.interrupt());
  TopSource source;
  ES_RETURN_IF_ERROR(source.refresh(client, options));
  bool is_first = true;
  return screen.run(
      [&](ScreenSize size) {
        if (!std::exchange(is_first, false)) (void)source.refresh(client, options);
        return source.screen(size);
      },
      std::chrono::milliseconds(static_cast<std::int64_t>(options.interval_s * 1000)));
}

}  // namespace

void add_top_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "Watch the cluster, or one job, on the terminal");
  command->add_option("job", options->job, "Show this job only")->type_name("JOB");
  command->add_option("--interval", options->interval_s, "Seconds between two refreshes")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("S")
      ->capture_default_str();
  command->add_flag("--once", options->once, "Print it once, as without a terminal");
  add_head_options(*command, options->head);
  command->footer(
      "q ends it. The head may be restarted meanwhile. For programs: esctl ps --json, esctl nodes "
      "--json.\n"
      "Examples:\n"
      "  esctl top\n"
      "  esctl top resnet18-1 --interval 0.5");
  command->callback([options, &shell] {
    shell.exit_code = finish(top(*options, shell.console), false, shell.console);
  });
}

}  // namespace es::actors::esctl
