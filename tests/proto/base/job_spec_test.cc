#include "proto/base/job_spec.h"
#include "proto/base/job_fields.h"

#include <doctest/doctest.h>

#include <functional>

using namespace es;

namespace {

JobSpec good() {
  JobSpec spec;
  spec.steps = 10;
  return spec;
}

}  // namespace

TEST_SUITE("proto/base/job_spec") {
  TEST_CASE("the defaults with a number of steps are a valid job") {
    CHECK(validate(good(), "job.toml").ok());
  }

  TEST_CASE("each rule names the file, the field, the value and what is allowed") {
    struct Case {
      const char* field;
      std::function<void(JobSpec&)> spoil;
    };
    const Case cases[] = {
        {"name", [](JobSpec& s) { s.name = "../x"; }},
        {"max_p", [](JobSpec& s) { s.max_p = 0; }},
        {"batch_size", [](JobSpec& s) { s.batch_size = 0; }},
        {"steps", [](JobSpec& s) { s.steps = 0; }},
        {"epochs", [](JobSpec& s) { s.epochs = 2; }},
        {"epochs",
         [](JobSpec& s) {
           s.steps = 0;
           s.epochs = 2;
           s.stages = parse_stages("cpu-avx2:1@10").value();
         }},
        {"model.name", [](JobSpec& s) { s.model.name = "resnet19"; }},
        {"model.classes", [](JobSpec& s) { s.model.classes = 1; }},
        {"model.size", [](JobSpec& s) { s.model.size = "huge"; }},
        {"model.width",
         [](JobSpec& s) {
           s.model.name = "vgg19";
           s.model.width = 8;
         }},
        {"model.dropout", [](JobSpec& s) { s.model.dropout = 1.0; }},
        {"model.file", [](JobSpec& s) { s.model.file_digest = std::string(32, 'a'); }},
        {"model.file_digest",
         [](JobSpec& s) { s.model.file = "net", s.model.file_digest = "new"; }},
        {"data.kind", [](JobSpec& s) { s.data.kind = "arrays", s.data.path = "data"; }},
        {"data.vocabulary_file",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "squad", .path = "data"};
         }},
        {"data.flip",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "ratings", .path = "data", .flip = true};
         }},
        {"data.negatives",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "ratings", .path = "data", .negatives = 1000000};
         }},
        {"data.flip",
         [](JobSpec& s) {
           s.model.file = "net", s.model.weights = "w";
           s.data = {.kind = "arrays", .path = "data", .flip = true};
         }},
        {"model.dropout", [](JobSpec& s) { s.model.dropout = -0.5; }},
        {"model.dropout", [](JobSpec& s) { s.model.dropout = 0.0 / 0.0; }},
        {"auto_cost", [](JobSpec& s) { s.auto_cost = -0.1; }},
        {"tf32", [](JobSpec& s) { s.tf32 = true, s.level = DeterminismLevel::kD2; }},
        {"tf32", [](JobSpec& s) { s.tf32 = true, s.level = DeterminismLevel::kAuto; }},
        {"data.kind", [](JobSpec& s) { s.data.kind = "csv"; }},
        {"data.kind", [](JobSpec& s) { s.model.name = "neumf", s.data.kind = "idx"; }},
        {"data.kind", [](JobSpec& s) { s.model.name = "bert", s.data.kind = "voc"; }},
        {"data.kind", [](JobSpec& s) { s.model.name = "yolov3", s.data.kind = "image_folder"; }},
        {"data.kind", [](JobSpec& s) { s.data.kind = "squad"; }},
        {"data.path", [](JobSpec& s) { s.model.name = "neumf", s.data.kind = "ratings"; }},
        {"data.vocabulary_file",
         [](JobSpec& s) {
           s.model.name = "electra";
           s.data.kind = "squad";
           s.data.path = "squad";
         }},
        {"data.flip", [](JobSpec& s) { s.model.name = "bert", s.data.flip = true; }},
        {"data.crop_padding", [](JobSpec& s) { s.model.name = "neumf", s.data.crop_padding = 1; }},
        {"data.random_resized_crop", [](JobSpec& s) { s.data.random_resized_crop = true; }},
        {"data.kind", [](JobSpec& s) { s.data = {.kind = "tokens", .path = "data"}; }},
        {"data.length",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "tokens", .path = "data", .length = (1 << 20) + 1};
         }},
        {"data.token_type",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "tokens", .path = "data", .token_type = "u2"};
         }},
        {"data.flip",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "tokens", .path = "data", .flip = true};
         }},
        {"data.python",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "python", .path = "data"};
         }},
        {"data.timeout_s",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "python", .path = "data", .python = "/python3", .timeout_s = 0};
         }},
        {"data.samples",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "python", .path = "data", .samples = 0, .python = "/python3"};
         }},
        {"data.path_digest",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "python", .path = "data", .path_digest = "1f", .python = "/python3"};
         }},
        {"data.path_digest",
         [](JobSpec& s) {
           s.data.path_digest = Digest{1, 2}.hex();
         }},
        {"metrics", [](JobSpec& s) { s.metrics = {"f1"}; }},
        {"metrics", [](JobSpec& s) { s.model.file = "net", s.metrics = {"precision"}; }},
        {"metrics", [](JobSpec& s) { s.model.file = "net", s.metrics = {"top1001"}; }},
        {"metrics",
         [](JobSpec& s) {
           s.model.file = "net", s.metrics = {"f1", "auc", "f1"};
         }},
        {"data.document_end", [](JobSpec& s) { s.data.document_end = 3; }},
        {"data.document_end",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "tokens", .path = "data", .document_end = -2};
         }},
        {"data.tokenizer",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {.kind = "texts", .path = "data"};
         }},
        {"data.tokenizer", [](JobSpec& s) { s.data.tokenizer = "tokenizer.json"; }},
        {"data.eval_share",
         [](JobSpec& s) {
           s.model.file = "net";
           s.data = {
               .kind = "texts", .path = "data", .tokenizer = "tokenizer.json", .eval_share = 1.0};
         }},
        {"data.length", [](JobSpec& s) { s.model.name = "gpt2"; }},
        {"data.length", [](JobSpec& s) { s.model.name = "llama", s.data.length = (1 << 20) + 1; }},
        {"data.shifted",
         [](JobSpec& s) { s.model.name = "gpt2", s.data.length = 8, s.data.shifted = false; }},
        {"data.vocabulary",
         [](JobSpec& s) { s.model.name = "gpt2", s.data.length = 8, s.data.vocabulary = 15; }},
        {"data.kind",
         [](JobSpec& s) { s.model.name = "gpt2", s.data.length = 8, s.data.kind = "squad"; }},
        {"data.flip",
         [](JobSpec& s) { s.model.name = "gpt2", s.data.length = 8, s.data.flip = true; }},
        {"data.normalise", [](JobSpec& s) { s.data.normalise = "none"; }},
        {"data.tokens", [](JobSpec& s) { s.model.name = "bert", s.data.tokens = 513; }},
        {"data.negatives", [](JobSpec& s) { s.model.name = "neumf", s.data.negatives = 0; }},
        {"data.boxes", [](JobSpec& s) { s.model.name = "yolov3", s.data.boxes = 0; }},
        {"data.path", [](JobSpec& s) { s.data.kind = "idx"; }},
        {"data.samples", [](JobSpec& s) { s.data.samples = 0; }},
        {"optimizer.learning_rate", [](JobSpec& s) { s.optimizer.learning_rate = -1; }},
        {"optimizer.momentum", [](JobSpec& s) { s.optimizer.momentum = 0.0 / 0.0; }},
        {"schedule.kind", [](JobSpec& s) { s.schedule.kind = "exponential"; }},
        {"schedule.warmup_steps",
         [](JobSpec& s) {
           s.schedule.kind = "linear";
           s.schedule.warmup_steps = s.steps;
         }},
        {"schedule.points", [](JobSpec& s) { s.schedule.kind = "points"; }},
        {"schedule.points",
         [](JobSpec& s) { s.schedule = {.kind = "points", .points = {{1, 1}}}; }},
        {"schedule.points",
         [](JobSpec& s) { s.schedule = {.kind = "points", .points = {{0, 1}, {2, 1}, {2, 0}}}; }},
        {"schedule.points",
         [](JobSpec& s) { s.schedule = {.kind = "points", .points = {{0, 0.0 / 0.0}}}; }},
        {"schedule.points",
         [](JobSpec& s) {
           s.schedule.kind = "points";
           for (std::uint64_t i = 0; i < 10'000; ++i) s.schedule.points.push_back({i, 0.123456789});
         }},
        {"schedule.momentum_points", [](JobSpec& s) { s.schedule.momentum_points = {{0, 1}}; }},
        {"schedule.momentum_points",
         [](JobSpec& s) { s.schedule.momentum_points = {{0, 0.5}}, s.optimizer.momentum = 0; }},
        {"schedule.step_size", [](JobSpec& s) { s.schedule.kind = "step"; }},
        {"optimizer.kind", [](JobSpec& s) { s.optimizer.kind = "lamb"; }},
        {"optimizer.nesterov",
         [](JobSpec& s) { s.optimizer.nesterov = true, s.optimizer.momentum = 0.0; }},
        {"optimizer.nesterov",
         [](JobSpec& s) { s.optimizer.nesterov = true, s.optimizer.kind = "adam"; }},
        {"optimizer.beta1", [](JobSpec& s) { s.optimizer.beta1 = 1.0; }},
        {"optimizer.beta2", [](JobSpec& s) { s.optimizer.beta2 = -0.1; }},
        {"optimizer.epsilon", [](JobSpec& s) { s.optimizer.epsilon = 0.0; }},
        {"optimizer.clip_norm", [](JobSpec& s) { s.optimizer.clip_norm = -1.0; }},
        {"optimizer.clip_groups",
         [](JobSpec& s) { s.optimizer.clip_groups.resize(257, {.parameters = {"*"}}); }},
        {"optimizer.clip_groups[0].parameters", [](JobSpec& s) { s.optimizer.clip_groups = {{}}; }},
        {"optimizer.clip_groups[1].clip_norm",
         [](JobSpec& s) {
           s.optimizer.clip_groups = {{.parameters = {"*"}},
                                      {.parameters = {"*"}, .clip_norm = -1.0}};
         }},
        {"optimizer.groups",
         [](JobSpec& s) { s.optimizer.groups.resize(257, {.parameters = {"*"}}); }},
        {"optimizer.groups",
         [](JobSpec& s) {
           s.optimizer.groups = {
               {.parameters = std::vector<std::string>(100, std::string(1000, 'x'))}};
         }},
        {"optimizer.groups[0].parameters", [](JobSpec& s) { s.optimizer.groups = {{}}; }},
        {"optimizer.groups[0].parameters",
         [](JobSpec& s) {
           s.optimizer.groups = {{.parameters = {"*", ""}}};
         }},
        {"optimizer.groups[1].learning_rate_factor",
         [](JobSpec& s) {
           s.optimizer.groups = {{.parameters = {"*"}},
                                 {.parameters = {"*"}, .learning_rate_factor = -1.0}};
         }},
        {"optimizer.groups[0].weight_decay",
         [](JobSpec& s) {
           s.optimizer.groups = {{.parameters = {"*"}, .weight_decay = 0.0 / 0.0}};
         }},
        {"schedule.patience",
         [](JobSpec& s) {
           s.eval_every = 1;
           s.schedule = {.kind = "plateau", .patience = 2'000'000};
         }},
        {"schedule.threshold_mode",
         [](JobSpec& s) {
           s.eval_every = 1;
           s.schedule = {.kind = "plateau", .threshold_mode = "relative"};
         }},
        {"eval_every", [](JobSpec& s) { s.schedule.kind = "plateau"; }},
        {"eval_every", [](JobSpec& s) { s.stop.metric = "loss"; }},
        {"stop.patience",
         [](JobSpec& s) {
           s.eval_every = 1;
           s.stop = {.metric = "loss", .patience = 0};
         }},
        {"eval_every",
         [](JobSpec& s) {
           s.checkpoint = {.directory = "/c", .keep_best = "loss"};
         }},
        {"checkpoint.directory",
         [](JobSpec& s) {
           s.eval_every = 1;
           s.checkpoint.keep_best = "loss";
         }},
        {"resources.threads", [](JobSpec& s) { s.resources.threads = 0; }},
        {"resources.threads", [](JobSpec& s) { s.resources.threads = 257; }},
        {"resources.min_devices", [](JobSpec& s) { s.resources.min_devices = 5; }},
        {"stages", [](JobSpec& s) { s.stages = *parse_stages("cpu-avx2:5@1"); }},
        {"stages", [](JobSpec& s) { s.stages = *parse_stages("cpu-avx2:1+cpu-scalar:1@1"); }},
    };
    for (const Case& c : cases) {
      CAPTURE(c.field);
      JobSpec spec = good();
      c.spoil(spec);
      const Status status = validate(spec, "job.toml");
      REQUIRE(!status.ok());
      CHECK(status.error().kind == ErrorKind::kUsage);
      CHECK(status.error().message.rfind("job.toml: " + std::string(c.field) + " = ", 0) == 0);
      CHECK(status.error().message.find("allowed is") != std::string::npos);
    }
  }

  TEST_CASE("the fields of built-in models have no meaning beside a model file") {
    JobSpec spec = good();
    spec.model = {.file = "net", .name = "no such model", .weights = "w"};
    CHECK(task_of(spec.model) == Task::kCaptured);
    CHECK(validate(spec, "job.toml").ok());
    for (const char* kind : {"arrays", "tokens", "python", "idx", "cifar10", "image_folder",
                             "webdataset", "ratings", "squad", "voc"}) {
      spec.data = {.kind = kind, .path = "data", .vocabulary_file = "words", .python = "/python3"};
      CHECK(validate(spec, "job.toml").ok());
    }
  }

  TEST_CASE("a model file has metrics, and texts have a tokenizer") {
    JobSpec spec = good();
    spec.model.file = "net";
    spec.metrics = {"accuracy", "top1", "top5", "top1000", "f1_binary", "auc", "map", "mse", "mae"};
    spec.data = {.kind = "texts",
                 .path = "data",
                 .shifted = false,
                 .document_end = 3,
                 .tokenizer = "tokenizer.json",
                 .text_field = "body",
                 .append_token = "<end>",
                 .eval_share = 0.5};
    CHECK(validate(spec, "job.toml").ok());
  }

  TEST_CASE("a mix of device types needs level D2, which auto may become") {
    JobSpec spec = good();
    spec.stages = *parse_stages("cpu-avx2:1+cpu-scalar:1@1");
    for (const auto level : {DeterminismLevel::kD2, DeterminismLevel::kAuto}) {
      spec.level = level;
      CHECK(validate(spec, "job.toml").ok());
    }
    spec.level = DeterminismLevel::kD0;
    CHECK(!validate(spec, "job.toml").ok());
  }

  TEST_CASE("evaluations decide bits if the learning rate goes by them") {
    JobSpec job = good();
    job.eval_every = 5;
    JobSpec other = job;
    other.eval_every = 6;
    CHECK(first_other_bits(job, other).empty());
    job.schedule.kind = other.schedule.kind = "plateau";
    CHECK(first_other_bits(job, other) == "eval_every");
    other.eval_every = 5;
    other.schedule.patience = 3;
    CHECK(first_other_bits(job, other) == "schedule.patience");
    other = job;
    other.stop.metric = other.checkpoint.keep_best = "loss";
    CHECK(first_other_bits(job, other).empty());
  }

  TEST_CASE("every level is read by its name") {
    for (const char* name : {"D0", "D1", "D2", "auto"}) {
      const auto level = parse_level(name);
      REQUIRE(level.ok());
      CHECK(std::string(level_name(*level)) == name);
    }
    CHECK(!parse_level("d2").ok());
  }

  TEST_CASE("each model has a task, and every task's models train on synthetic data") {
    const std::pair<const char*, Task> tasks[] = {{"small_cnn", Task::kClassification},
                                                  {"mlp", Task::kClassification},
                                                  {"resnet18", Task::kClassification},
                                                  {"resnet50", Task::kClassification},
                                                  {"vgg19", Task::kClassification},
                                                  {"shufflenetv2", Task::kClassification},
                                                  {"swin_t", Task::kClassification},
                                                  {"yolov3", Task::kDetection},
                                                  {"neumf", Task::kRecommendation},
                                                  {"bert", Task::kQuestionAnswering},
                                                  {"electra", Task::kQuestionAnswering},
                                                  {"gpt2", Task::kLanguage},
                                                  {"llama", Task::kLanguage}};
    for (const auto& [name, task] : tasks) {
      CAPTURE(name);
      JobSpec spec = good();
      spec.model.name = name;
      spec.data.length = 16;
      CHECK(task_of(spec.model) == task);
      CHECK(validate(spec, "job.toml").ok());
    }
  }

  TEST_CASE("steps beside epochs, and epochs beside stages, are refused by both names") {
    JobSpec spec = good();
    spec.epochs = 2;
    CHECK(validate(spec, "job.toml").error().message ==
          "job.toml: epochs = 2: allowed is 0 beside steps = 10 (give steps or epochs)");
    spec.steps = 0;
    CHECK(validate(spec, "job.toml").ok());
    spec.stages = parse_stages("cpu-avx2:1@10").value();
    CHECK(
        validate(spec, "job.toml").error().message ==
        "job.toml: epochs = 2: allowed is 0 beside stages = \"cpu-avx2:1@10\", which say how many "
        "steps there are");
    spec.epochs = 0;
    CHECK(validate(spec, "job.toml").ok());
    spec.steps = 10;
    CHECK(validate(spec, "job.toml").ok());
  }

  TEST_CASE("a range is written with the digits that it needs") {
    JobSpec spec = good();
    spec.optimizer.learning_rate = 1e7;
    CHECK(validate(spec, "job.toml").error().message ==
          "job.toml: optimizer.learning_rate = 10000000: allowed is 0 to 1000000");
    spec = good();
    spec.optimizer.epsilon = -1e-12;
    CHECK(validate(spec, "job.toml").error().message ==
          "job.toml: optimizer.epsilon = -1e-12: allowed is above 0, at most 1");
  }
}
