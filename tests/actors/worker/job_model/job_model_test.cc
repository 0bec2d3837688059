#include "actors/worker/job_model/job_model.h"

#include <doctest/doctest.h>

#include "store/model_file/model_digest.h"
#include "store/model_file/model_file.h"
#include "tests/store/model_file/small_model.h"
#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

using es::test::small_model;

// A job that trains the small model.
struct SmallJob {
  es::test::TempDirectory directory;
  JobSpec spec;

  explicit SmallJob(const ModelProgram& program = small_model()) {
    spec.model.file = (directory / "net.esmodel").string();
    REQUIRE(store::write_model_file(store::posix_file_system(), spec.model.file, program).ok());
  }
};

bool has_accuracy(void (*change)(ModelProgram&)) {
  ModelProgram program = small_model();
  change(program);
  return captured_inputs(program).predicts_label;
}

}  // namespace

TEST_SUITE("actors/worker/job_model") {
  TEST_CASE("a model file gives a graph, its digest and the shapes of its samples") {
    const SmallJob job;
    const auto model = JobModel::open(job.spec.model);
    REQUIRE(model.ok());
    CHECK(model->file_digest() == store::model_digest(small_model()).hex());
    const auto graph = model->graph(job.spec, {});
    REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
    CHECK(graph->batch == job.spec.batch_size);
    CHECK(graph->table.parameter_count() == 51);
    REQUIRE(graph->table.aliases().size() == 1);
    CHECK(graph->table.aliases()[0].name == "head.weight");
    CHECK(graph->table.buffers().size() == 1);
    const store::CapturedInputs inputs = captured_inputs(small_model());
    CHECK(inputs.layout() == graph->layout);
    CHECK(inputs.inputs[0].shape == std::vector<std::int64_t>{1, 4, 4});
    CHECK(inputs.inputs[1].shape.empty());
  }

  TEST_CASE("a built-in model needs no file") {
    const auto model = JobModel::open(ModelSpec());
    REQUIRE(model.ok());
    CHECK(model->program() == nullptr);
    CHECK(model->file_digest().empty());
    const auto data = model->data_facts(JobSpec());
    REQUIRE(data.ok());
    CHECK(model->graph(JobSpec(), data->layout).ok());
  }

  TEST_CASE("a job without weights needs the initial values of all parameters in its model file") {
    const auto error_with = [](const ModelProgram& program, const std::string& weights) {
      const SmallJob job(program);
      ModelSpec spec = job.spec.model;
      spec.weights = weights;
      const auto model = JobModel::open(spec);
      REQUIRE(model.ok());
      const Status status = model->check_initial_values(spec);
      return status.ok() ? "" : status.error().message;
    };
    ModelProgram program = small_model();
    CHECK(error_with(program, "w.safetensors").empty());
    program.parameters[0].init = ModelInit{.bound = 0.5F};
    const std::string error = error_with(program, "");
    CHECK(error.starts_with("job: model.weights = \"\": allowed is the safetensors file"));
    CHECK(error.ends_with("gives no initial value of \"fc.bias\""));
    program.parameters[1].init = ModelInit{.constant = 1.0F};
    CHECK(error_with(program, "").empty());
    program = test::with_state(program);
    CHECK(error_with(program, "w.safetensors").empty());
    const std::string state_error = error_with(program, "");
    CHECK(state_error.starts_with("job: model.weights = \"\": allowed is the safetensors file"));
    CHECK(state_error.ends_with(", such as \"steps\""));
    const auto built_in = JobModel::open(ModelSpec());
    CHECK(built_in->check_initial_values(ModelSpec()).ok());
  }

  TEST_CASE("a file with another model than the job's is refused") {
    SmallJob job;
    job.spec.model.file_digest = std::string(32, 'a');
    const auto model = JobModel::open(job.spec.model);
    REQUIRE_FALSE(model.ok());
    CHECK(model.error().kind == ErrorKind::kUsage);
    CHECK(model.error().message == job.spec.model.file +
                                       ": digest = " + store::model_digest(small_model()).hex() +
                                       ": allowed is " + job.spec.model.file_digest +
                                       ", which it had when the job was admitted");
  }

  TEST_CASE("an error of the check names the file") {
    ModelProgram program = small_model();
    program.nodes[1].inputs[0] = 99;
    const SmallJob job(program);
    const auto model = JobModel::open(job.spec.model);
    REQUIRE_FALSE(model.ok());
    CHECK(model.error().message.starts_with(job.spec.model.file + ": nodes[1].inputs[0] = 99: "));
  }

  TEST_CASE("the accuracy is counted if the first output has a place for every label") {
    CHECK(has_accuracy([](ModelProgram&) {}));
    CHECK_FALSE(has_accuracy([](ModelProgram& m) { m.outputs.clear(); }));
    CHECK_FALSE(has_accuracy([](ModelProgram& m) { m.outputs[0].value = 8; }));
    CHECK_FALSE(has_accuracy([](ModelProgram& m) { m.inputs[1].high = 3; }));
    // Such a label is ignored, and whether there is one depends on the data.
    CHECK(has_accuracy([](ModelProgram& m) { m.inputs[1].low = -100; }));
    CHECK_FALSE(has_accuracy([](ModelProgram& m) { m.inputs[1].name = "target"; }));
    CHECK_FALSE(has_accuracy([](ModelProgram& m) { m.nodes[3].kind = "nll"; }));
  }
}

}  // namespace es::actors
