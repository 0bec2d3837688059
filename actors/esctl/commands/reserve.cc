// esctl reserve: devices for a time, for a queue or for a load outside of EasyScale.
#include <chrono>

#include "actors/base/log/line.h"
#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/moment.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

using Moment = std::chrono::system_clock::time_point;

struct ReserveOptions {
  HeadOptions head;
  std::string name, type, queue, tenant, from, until, duration;
  std::uint32_t count = 0;
  bool json = false;
};

struct ReservedTime {
  Moment from, until;
};

Result<Moment> read_moment(const std::string& option, const std::string& text, Moment now) {
  if (const auto time = parse_moment(text, now)) return *time;
  return usage_error(option + " " + text +
                     ": allowed are a duration from now such as 90s, 10m, 2h or 3d, and a time in "
                     "UTC such as 2026-11-22T17:31:02Z");
}

Result<ReservedTime> span_of(const ReserveOptions& options, Moment now) {
  ReservedTime span{now, now};
  if (!options.from.empty()) {
    const auto from = read_moment("--from", options.from, now);
    if (!from) return from.error();
    span.from = *from;
  }
  // The duration counts from the begin, and --until from now.
  const bool has_duration = !options.duration.empty();
  const auto until = has_duration ? read_moment("--for", options.duration, span.from)
                                  : read_moment("--until", options.until, now);
  if (!until) return until.error();
  if (has_duration && !parse_duration(options.duration))
    return usage_error("--for " + options.duration + ": allowed is a duration such as 90s or 2h");
  span.until = *until;
  if (span.until <= span.from)
    return usage_error((has_duration ? "--for " + options.duration : "--until " + options.until) +
                       ": the reservation would end before it begins");
  return span;
}

std::uint64_t milliseconds_of(Moment time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count());
}

Status reserve(const ReserveOptions& options, Console& console) {
  const auto span = span_of(options, std::chrono::system_clock::now());
  if (!span) return span.error();
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done =
      (*client)->ask<wire::Done, wire::ReserveDevices>({}, [&](wire::ReserveDevices::Builder b) {
        b.setName(options.name);
        b.setDeviceType(options.type);
        b.setCount(options.count);
        // Without --from the head takes its own clock.
        if (!options.from.empty()) b.setFromUnixMs(milliseconds_of(span->from));
        b.setUntilUnixMs(milliseconds_of(span->until));
        b.setQueue(options.queue);
        b.setTenant(options.tenant);
      });
  if (!done) return done.error();
  const std::uint64_t count = options.count;
  if (options.json) {
    console.out << fields_json({{"reservation", options.name},
                                {"type", options.type},
                                {"count", count},
                                {"from", log::time_text(span->from)},
                                {"until", log::time_text(span->until)}})
                << "\n";
    return {};
  }
  const bool for_jobs = !options.queue.empty() || !options.tenant.empty();
  console.out << "reservation " << options.name << ": " << count << " of " << options.type
              << " from " << (options.from.empty() ? "now" : log::time_text(span->from))
              << " until " << log::time_text(span->until)
              << (for_jobs ? "; others may use them while no job of the queue wants them\n"
                           : "; then training jobs leave (esctl claims)\n");
  return {};
}

}  // namespace

void add_reserve_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ReserveOptions>();
  CLI::App* command = app.add_subcommand(
      "reserve",
      "Reserve devices for a time, for a queue, a tenant or a load outside of EasyScale");
  command->add_option("--type", options->type, "Device type")->required()->type_name("TYPE");
  command->add_option("--count", options->count, "Number of devices")->required()->type_name("N");
  command->add_option("--name", options->name, "Name of the reservation, also for esctl release")
      ->required()
      ->type_name("NAME");
  command
      ->add_option(
          "--from", options->from,
          "When it begins: a duration from now such as 2h, or a time in UTC (default: now)")
      ->type_name("TIME");
  auto* until = command->add_option("--until", options->until,
                                    "When it ends: a duration from now, or a time in UTC");
  auto* duration = command->add_option("--for", options->duration, "How long it lasts, e.g. 8h");
  until->type_name("TIME");
  duration->type_name("DURATION")->excludes(until);
  auto* queue = command->add_option("--queue", options->queue,
                                    "Queue that is guaranteed the devices in this time");
  auto* tenant = command->add_option("--tenant", options->tenant,
                                     "Tenant: the queue of its jobs that name none");
  queue->type_name("QUEUE");
  tenant->type_name("TENANT")->excludes(queue);
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer(
      "With --queue or --tenant the queue is guaranteed the devices in addition; other jobs may\n"
      "use them until one of the queue wants them. Without both the devices are kept for a load\n"
      "outside of EasyScale, as by esctl claim. A reservation survives a restart of the head, and\n"
      "ends by itself; esctl claims lists it, and esctl release ends it earlier. One of more\n"
      "devices than the cluster has beside other claims and guarantees is refused.\n"
      "Examples:\n"
      "  esctl reserve --type v100 --count 8 --name night --from 2026-11-26T20:00 --for 10h \\\n"
      "      --queue vision\n"
      "  esctl reserve --type v100 --count 2 --name demo --until 90m --tenant web");
  command->callback([options, &shell] {
    const bool ends = !options->until.empty() || !options->duration.empty();
    const Status status = ends ? reserve(*options, shell.console)
                               : Status(usage_error("esctl reserve: give --for or --until"));
    shell.exit_code = finish(status, options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
