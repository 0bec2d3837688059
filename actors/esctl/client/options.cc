#include "actors/esctl/client/options.h"

#include "actors/base/program/default_paths.h"

namespace es::actors::esctl {

void add_head_options(CLI::App& command, HeadOptions& options) {
  options.endpoint = default_head_endpoint();
  command
      .add_option("--head", options.endpoint,
                  "Endpoint of the head, ipc:///PATH or tcp://HOST:PORT")
      ->envname("ES_HEAD")
      ->type_name("ENDPOINT")
      ->capture_default_str();
  command.add_option("--keys", options.keys, "Directory of CURVE keys; required for tcp")
      ->envname("ES_KEYS")
      ->type_name("DIR");
  command.add_flag("--insecure-loopback", options.insecure_loopback,
                   "Allow tcp without keys on the loopback address");
}

Result<std::unique_ptr<Client>> connect(const HeadOptions& options, Interrupt interrupt) {
  HeadAddress address{.endpoint = options.endpoint,
                      .keys = std::nullopt,
                      .insecure_loopback = options.insecure_loopback};
  if (!options.keys.empty()) {
    Result<ClusterKeys> keys = read_cluster_keys(options.keys);
    if (!keys) return keys.error();
    address.keys = *std::move(keys);
  }
  return Client::connect(std::move(address), std::move(interrupt));
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON");
}

void add_job_options(CLI::App& command, JobOptions& options) {
  command.add_option("job", options.file, "Job specification, see configs/jobs/")
      ->required()
      ->type_name("JOB.toml");
  command.add_option("--from", options.from, "Start from this checkpoint")->type_name("DIR");
  command.add_option("--steps", options.changes.steps, "Global steps of the job")->type_name("N");
  command
      .add_option(
          "--level", options.changes.level,
          "Same bits on: D0 = the same devices, D1 = any number of one type, D2 = any mix of "
          "types; auto = D2 where it costs little")
      ->type_name("D0|D1|D2|auto");
  command
      .add_option("--stages", options.changes.stages,
                  "Placements in order, e.g. cpu-avx512:4@20,cpu-scalar:1+cpu-avx2:1@20 = 20 steps "
                  "on four devices, then 20 steps on one device of each of two types")
      ->type_name("STAGES");
}

void add_tracking_options(CLI::App& command, TrackingOptions& options) {
  command
      .add_option("--tensorboard", options.tensorboard,
                  "Write all losses and evaluations into an event file in DIR/JOB")
      ->type_name("DIR");
  command
      .add_option("--mlflow", options.mlflow,
                  "Write all losses and evaluations, and the fields of the job file, into a run of "
                  "this MLflow server")
      ->type_name("URL");
  command.add_option("--experiment", options.experiment, "The experiment of the run in MLflow")
      ->envname("MLFLOW_EXPERIMENT_NAME")
      ->capture_default_str();
}

}  // namespace es::actors::esctl
