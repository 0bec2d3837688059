#include "actors/esctl/client/tracking_options.h"

namespace es::actors::esctl {

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
