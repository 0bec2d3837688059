#include <algorithm>
#include <sstream>
#include <thread>

#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/log_filter.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

// Between two questions for new lines of a worker, of which the first one brought none.
constexpr std::chrono::milliseconds kPoll{500};

struct LogsOptions {
  HeadOptions head;
  JobId job;
  Incarnation worker;  // 0: the log of the job
  std::string node;
  std::string since, text, level = "info";
  bool follow = false;
  bool json = false;
};

Result<LogFilter> filter_of(const LogsOptions& options) {
  LogFilter filter{.text = options.text};
  const auto level = log::parse_level(options.level);
  if (!level)
    return usage_error("--level " + options.level + ": allowed are debug, info, warning, error");
  filter.level_min = *level;
  if (options.since.empty()) return filter;
  const auto since = parse_since(options.since, std::chrono::system_clock::now());
  if (!since) return since.error();
  filter.since = *since;
  return filter;
}

void print(const std::string& line, const LogFilter& filter, const LogsOptions& options,
           Console& console) {
  if (shows(filter, log::parse_job_line(line)))
    console.out << (options.json ? log_line_json(line) : line) << std::endl;
}

// The job names the node of a worker that it has now.
Result<std::string> node_of_worker(const LogsOptions& options, Client& client) {
  if (!options.node.empty()) return options.node;
  const auto details = describe_job(client, options.job);
  if (!details) return details.error();
  const auto& workers = details->job.workers;
  const auto at = std::ranges::find(workers, options.worker.value, &WorkerView::incarnation);
  if (at != workers.end()) return at->node;
  return usage_error("--worker " + std::to_string(options.worker.value) +
                     ": the job has no such worker now; esctl describe shows its workers, and "
                     "--node names the node of one that has ended");
}

Status worker_logs(const LogsOptions& options, const LogFilter& filter, Client& client,
                   Console& console) {
  const auto node = node_of_worker(options, client);
  if (!node) return node.error();
  for (std::uint64_t begin = 0;;) {
    const auto part = read_worker_log(client, options.job, options.worker, *node, begin);
    if (!part) return part.error();
    std::istringstream lines(part->text);
    for (std::string line; std::getline(lines, line);) print(line, filter, options, console);
    if (!options.follow || part->complete) return {};
    if (part->end == begin) std::this_thread::sleep_for(kPoll);
    begin = part->end;
  }
}

Status logs(const LogsOptions& options, Console& console) {
  const auto filter = filter_of(options);
  if (!filter) return filter.error();
  const auto client = connect(options.head);
  if (!client) return client.error();
  if (options.worker.value != 0) return worker_logs(options, *filter, **client, console);
  const FollowOptions what{.log_from_start = true, .until_now = !options.follow};
  return (*client)->follow(options.job, what, [&](const JobEventView& event) {
    if (const auto* line = std::get_if<LogLine>(&event))
      print(line->text, *filter, options, console);
  });
}

void add_filter_options(CLI::App& command, LogsOptions& options) {
  command
      .add_option("--since", options.since,
                  "Only lines from then on: a duration such as 10m, or a time in UTC")
      ->type_name("DURATION|TIME");
  command.add_option("--grep", options.text, "Only lines whose message contains this text")
      ->type_name("TEXT");
  command.add_option("--level", options.level, "Only lines of this level or a higher one")
      ->type_name("LEVEL")
      ->capture_default_str();
}

}  // namespace

void add_logs_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* command = app.add_subcommand("logs", "Print the log of a job or of one of its workers");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command->add_flag("-f,--follow", options->follow,
                    "Print new lines until the job, or the worker, ends");
  auto* worker = command
                     ->add_option("--worker", options->worker.value,
                                  "The newest 256 KiB of the log of the worker with this number")
                     ->check(CLI::PositiveNumber)
                     ->type_name("N");
  command->add_option("--node", options->node, "The node of the worker, if it has ended")
      ->needs(worker)
      ->type_name("NODE");
  add_filter_options(*command, *options);
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "A line has the time in UTC, the level and the message. With --json, one object a line.\n"
      "Examples:\n"
      "  esctl logs -f resnet18-1\n"
      "  esctl logs resnet18-1 --since 10m --level warning\n"
      "  esctl logs resnet18-1 --worker 17 --follow\n"
      "  esctl logs resnet18-1 --since 2026-11-22T17:30 --grep checkpoint --json");
  command->callback([options, &shell] {
    shell.exit_code = finish(logs(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
