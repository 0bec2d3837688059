#include "actors/base/log/line.h"
#include "actors/esctl/client/live_client.h"
#include "actors/esctl/client/live_screen.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/job_selection.h"
#include "actors/views/render_json.h"
#include "actors/views/render_text.h"

namespace es::actors::esctl {
namespace {

struct PsOptions {
  HeadOptions head;
  JobSelection selection;
  bool wide = false, json = false, watch = false, all = false;
  std::chrono::milliseconds ended_within() const {
    return all ? std::chrono::milliseconds() : std::chrono::milliseconds(kRecent);
  }
};

std::string list_text(const JobListView& list, const PsOptions& options, std::size_t columns) {
  return jobs_text(selected(list.jobs, options.selection), options.wide, columns) +
         warning_text(list.warning);
}

// Shows the list until the user ends it.
Result<int> watch(const PsOptions& options, Console& console) {
  constexpr std::chrono::seconds kInterval{1};
  LiveScreen screen(console);
  LiveClient client(options.head, screen.interrupt());
  JobListView list;
  const auto refresh = [&] {
    return client.with([&](Client& c) -> Status {
      auto found = list_jobs(c, options.ended_within());
      if (!found) return found.error();
      list = *std::move(found);
      return {};
    });
  };
  // An error of the first request ends the command; a head that ends later may come back.
  Status asked = refresh();
  if (!asked.ok()) return asked.error();
  bool is_first = true;
  return screen.run(
      [&](ScreenSize size) {
        if (!std::exchange(is_first, false)) asked = refresh();
        Screen shown{{{log::time_text(std::chrono::system_clock::now()), Style::kDim}}};
        if (!asked.ok()) shown.push_back({{asked.error().message, Style::kBad}});
        const Screen lines =
            coloured(list_text(list, options, static_cast<std::size_t>(size.columns)));
        shown.insert(shown.end(), lines.begin(), lines.end());
        return shown;
      },
      kInterval);
}

Result<int> ps(const PsOptions& options, Console& console) {
  ES_RETURN_IF_ERROR(check(options.selection));
  if (options.watch && has_screen(console)) return watch(options, console);
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto list = list_jobs(**client, options.ended_within());
  if (!list) return list.error();
  if (options.json)
    console.out << jobs_json(selected(list->jobs, options.selection), list->warning) << "\n";
  else
    print(coloured(list_text(*list, options, out_columns(console))), console);
  return 0;
}

}  // namespace

void add_ps_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<PsOptions>();
  CLI::App* command =
      app.add_subcommand("ps",
                         "List the jobs that are not over, and those that ended in the last 24 "
                         "hours, in the order in which they were submitted");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->add_flag("-a,--all", options->all, "All jobs, also those that ended before");
  command
      ->add_option("--state", options->selection.states, "Only jobs in this state; may be repeated")
      ->type_name("STATE");
  command->add_option("--tenant", options->selection.tenant, "Only jobs of this tenant");
  command
      ->add_option("--newest,--limit", options->selection.newest,
                   "Only this number of the jobs that were submitted last; 0 for all")
      ->capture_default_str();
  command
      ->add_option("--sort", options->selection.sort,
                   "submitted, state, name, rate (samples per second) or progress")
      ->type_name("ORDER")
      ->capture_default_str();
  command->add_flag(
      "--wide", options->wide,
      "Show the level, the tenant, the time left, what the job has spent and its budget, too");
  command
      ->add_option_function<std::string>(
          "-o,--output", [options](const std::string&) { options->wide = true; },
          "wide: the same as --wide")
      ->check(CLI::IsMember({"wide"}))
      ->type_name("FORM");
  command
      ->add_flag("--watch", options->watch,
                 "On a terminal: show the list every second until q is pressed")
      ->excludes("--json");
  command->footer(
      "Examples:\n  esctl ps\n  esctl ps --all --state failed\n  esctl ps --state running --sort "
      "rate --wide");
  command->callback([options, &shell] {
    shell.exit_code = finish(ps(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
