#include "actors/esctl/commands/sim_parts.h"

#include <utility>

#include "actors/base/program/finite.h"
#include "actors/esctl/client/options.h"

namespace es::actors::esctl {
namespace {

const CLI::Range kMishapSeconds{1.0, 1e7};
// If the mean time is less than 36 s, no job could make progress between two events.
const CLI::Validator kMeanHours{[](const std::string& text) {
                                  double hours = -1;
                                  CLI::detail::lexical_cast(text, hours);
                                  if (hours == 0 || (hours >= 0.01 && hours <= 1e9))
                                    return std::string();
                                  return text + ": allowed is 0 for never, or 0.01 to 1e9 hours";
                                },
                                "HOURS"};

// Adds an option for a finite number.
template <class Number>
CLI::Option* add_number(CLI::App& command, const char* name, Number& value, CLI::Validator range,
                        const char* help) {
  return command.add_option(name, value, help)->check(std::move(range))->check(finite_number());
}

const CLI::Range kSeconds{0.0, 1e6};

// The options for faults and what they cost.
void add_mishap_options(CLI::App& command, SimOptions& options) {
  simulator::WorldOptions& world = options.world;
  const auto add = [&](const char* name, double& value, CLI::Validator range, const char* help) {
    add_number(command, name, value, std::move(range), help)->capture_default_str();
  };
  command
      .add_option("--seed", world.seed,
                  "Seed of failures, stragglers and estimates; other than 0 it also delays each "
                  "submission by up to a second")
      ->capture_default_str();
  add("--failures", world.failure_hours, kMeanHours,
      "Mean hours between two losses of one node; 0: no losses");
  command
      .add_option("--spot-nodes", world.spot_nodes,
                  "Only this many nodes of each type are lost, the last ones, and the head knows "
                  "that these are spot nodes; 0: all nodes may be lost")
      ->check(CLI::Range(0U, 1'000'000U))
      ->capture_default_str();
  add("--notice", world.notice_s, CLI::Range(0.0, 1e7),
      "Seconds between the announcement of a loss (esctl drain --in) and the loss; 0: none");
  add("--repair-time", world.repair_s, kMishapSeconds, "Seconds until a lost node is back");
  command
      .add_option("--node-devices", world.devices_per_node,
                  "Devices of a node; they have one type and are lost together")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  command
      .add_option("--rack-nodes", world.nodes_per_rack,
                  "Nodes of a rack; the devices of a job are then chosen in few racks and on few "
                  "nodes. 0: there are no racks")
      ->check(CLI::Range(0U, 1'000'000U))
      ->capture_default_str();
  command
      .add_option("--island", world.island_devices,
                  "Devices of a node that are linked with each other; a job gets such devices "
                  "together. 0: all of the node")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
  command.add_flag("--hide-places", world.hides_places,
                   "Nodes do not say in which rack they are, nor which devices are linked");
  add("--node-sync-cost", world.node_sync_s, kSeconds,
      "Seconds by which each node of a job but one makes a global step longer");
  add("--rack-sync-cost", world.rack_sync_s, kSeconds,
      "Seconds by which each rack of a job but one makes a global step longer");
  add("--checkpoint-every", options.checkpoint_s, CLI::Range(0.0, 1e9),
      "Seconds of training between two checkpoints of a job, to which it goes back when all its "
      "workers are lost at once; 0: checkpoints of suspensions only");
  add("--stragglers", world.straggler_hours, kMeanHours,
      "Mean hours between two slow periods of one device; 0: no slow periods");
  add("--straggler-time", world.straggler_s, kMishapSeconds, "Seconds of a slow period");
  add("--straggler-factor", world.straggler_factor, CLI::Range(1.0, 1000.0),
      "Factor by which a step takes longer on a slow device");
  add("--sync-cost", world.sync_s, kSeconds,
      "Seconds by which each device but one makes a global step longer; jobs learn this from their "
      "steps");
}

// The options for what policies are told.
void add_knowledge_options(CLI::App& command, SimOptions& options) {
  add_number(command, "--estimate-error", options.knowledge.estimate_error, CLI::Range(0.0, 3.0),
             "Policies are told lengths and speeds times e^x, where x is normal with this "
             "standard deviation; 0: the truth")
      ->capture_default_str();
  command.add_flag("--unknown-lengths", options.knowledge.unknown_lengths,
                   "Jobs stop early, at 0.2 to 1 of the length that policies are told");
  add_number(command, "--lying-users", options.knowledge.lying_users, CLI::Range(0.0, 1.0),
             "Part of the jobs of which policies are told a tenth of the length")
      ->capture_default_str();
  command.add_flag("--learn-speeds", options.world.learns_speeds,
                   "Speeds are known only after a job of the model has run on the type");
}

}  // namespace

void add_sim_options(CLI::App& command, SimOptions& options) {
  command
      .add_option("--trace", options.trace,
                  "Jobs: a CSV file, which may be gzipped (docs/reference/data-formats.md "
                  "describes the formats)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--workload", options.workload,
                  "The workload, if the trace contains several (default: the first)")
      ->type_name("NAME");
  command
      .add_option("--cluster", options.cluster,
                  "Devices of the cluster, e.g. v100=32,p100=16,t4=16")
      ->required()
      ->type_name("TYPE=COUNT,...");
  command
      .add_option("--steptimes", options.step_times,
                  "Seconds of a local step by model and device type")
      ->type_name("FILE");
  command
      .add_option(
          "--claims", options.claims,
          "Serving load: a CSV file with time_s,type,count,name; count 0 ends a claim. With "
          "until_s,queue a line is a reservation for a queue")
      ->type_name("FILE");
  command.add_option("--quota", options.quotas, "Devices that a tenant owns; may be repeated")
      ->type_name("TENANT=TYPE:COUNT[+...]");
  command
      .add_option("--queues", options.queues,
                  "Queues with guarantees, limits and weights: a TOML file, as for easyscaled")
      ->type_name("FILE");
  command
      .add_option("--price", options.prices,
                  "What a device of a type costs in an hour, in any unit; may be repeated")
      ->type_name("TYPE=NUMBER");
  command
      .add_option("--spot-price", options.spot_prices,
                  "The same on spot nodes (default: --price of the type)")
      ->type_name("TYPE=NUMBER");
  add_number(command, "--share-half-life", options.half_life_hours, CLI::Range(0.0, 1e5),
             "Order queues by what they have used over their weights, with this half-life in "
             "hours; 0: divide what no guarantee needs by the weights at every moment")
      ->capture_default_str();
  add_number(command, "--start-cost", options.world.start_s, kSeconds,
             "Seconds of a job's first start")
      ->capture_default_str();
  add_number(command, "--rescale-cost", options.world.rescale_s, kSeconds,
             "Seconds of each later change of devices")
      ->capture_default_str();
  add_number(command, "--scale-cost", options.scale_s, kSeconds,
             "Seconds of a change that leaves the job a device or moves it (default: the "
             "--rescale-cost)");
  add_number(command, "--suspend-cost", options.world.suspend_s, kSeconds,
             "Seconds of a suspension and the restart after it together (default: the "
             "--rescale-cost)");
  add_number(command, "--round", options.round_s, kSeconds,
             "Smallest number of seconds between two decisions; 0: a decision at every event")
      ->capture_default_str();
  add_number(command, "--fairness", options.fairness, CLI::Range(0.0, 1.0),
             "Knob of elastic-srtf, from 0 (fast) to 1 (fair); compare accepts several "
             "values, and the policy runs with each")
      ->delimiter(',')
      ->type_name("F")
      ->capture_default_str();
  add_mishap_options(command, options);
  add_knowledge_options(command, options);
  command.add_flag("--homogeneous", options.homogeneous,
                   "Policy easyscale: one device type for each job");
  command
      .add_option("--out", options.out,
                  "Write tables (CSV), charts (SVG) and a page with them (index.html) to this "
                  "directory")
      ->type_name("DIR");
  add_json_option(command, options.json);
}

}  // namespace es::actors::esctl
