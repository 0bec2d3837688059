#include "actors/esctl/client/options.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/render_json.h"

namespace es::actors::esctl {
namespace {

constexpr const char* kAuto = "auto";

struct ScaleOptions {
  HeadOptions head;
  JobId job;
  std::string devices;
  bool json = false;
};

// Returns the devices in canonical text, as the head expects them; empty for `auto`.
Result<std::string> demand_text(const std::string& devices) {
  if (devices == kAuto) return std::string();
  const Result<DeviceSet> set = parse_device_set(devices);
  if (!set) return set.error();
  return set->text();
}

// Describes what happens to the job after the head has accepted the request. Empty `devices` mean
// auto.
std::string scale_text(const JobView& job, const std::string& devices) {
  const std::string name = "job " + job.id;
  const bool runs = !job.placement.empty();
  if (job.state == "paused")
    return name + " is paused; once it is resumed, " +
           (devices.empty() ? "the scheduler chooses its devices" : "it continues on " + devices);
  if (devices.empty())
    return "the scheduler chooses the devices of " + name + " from now on" +
           (runs ? "; it stays on " + job.placement +
                       " until it is given others, and changes then at a step boundary"
                 : "");
  if (!runs) return name + " starts on " + devices;
  if (job.placement == devices) return name + " stays on " + devices;
  return name + " changes from " + job.placement + " to " + devices +
         " at the first step boundary at which their workers are ready";
}

Status scale(const ScaleOptions& options, Console& console) {
  const Result<std::string> demand = demand_text(options.devices);
  if (!demand) return demand.error();
  const auto client = connect(options.head);
  if (!client) return client.error();
  const auto done = (*client)->ask<wire::Done, wire::ScaleJob>(
      options.job, [&](wire::ScaleJob::Builder b) { b.setDevices(*demand); });
  if (!done) return done.error();
  if (options.json) {
    const std::string devices = demand->empty() ? kAuto : *demand;
    console.out << fields_json({{"job", options.job}, {"devices", devices}}) << "\n";
    return {};
  }
  const auto details = describe_job(**client, options.job);
  if (!details) return details.error();
  console.out << scale_text(details->job, *demand) << "\n";
  return {};
}

}  // namespace

void add_scale_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand(
      "scale", "Move a running job to exactly these devices; its bits do not change");
  command->add_option("job", options->job, "Job id")->required()->type_name("JOB");
  command
      ->add_option("devices", options->devices,
                   "TYPE:COUNT[+TYPE:COUNT...], or auto, with which the scheduler decides again")
      ->required()
      ->type_name("DEVICES");
  add_head_options(*command, options->head);
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl scale resnet18-1 cpu-avx2:2\n  esctl scale resnet18-1 auto");
  command->callback([options, &shell] {
    shell.exit_code = finish(scale(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
