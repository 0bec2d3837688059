#include "actors/base/job_file/job_file.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "tests/support/seed.h"

using namespace es;
using namespace es::actors;

namespace {

double fraction(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() % (1 << 20)), -20);
}

void randomise_data(DataSpec& data, Task task, std::mt19937_64& random) {
  const bool images = task == Task::kClassification || task == Task::kDetection;
  data.path = "a \\ \"b\"";
  data.height = data.width = 1 + random() % 64;
  data.normalise = random() % 2 == 0 ? "half" : "imagenet";
  data.crop_padding = images ? random() % 5 : 0;
  data.flip = images && random() % 2 == 0;
  data.random_resized_crop = task == Task::kClassification && random() % 2 == 0;
  if (data.random_resized_crop) data.kind = "image_folder";
  data.users = 1 + random() % 100;
  data.items = 2 + random() % 100;
  data.negatives = 1 + random() % 9;
  data.tokens = 8 + random() % 100;
  data.vocabulary = 16 + random() % 100;
  data.vocabulary_file = "vocab.txt";
  data.boxes = 1 + random() % 50;
  data.length = (task == Task::kLanguage ? 1 : 0) + random() % 100;
  data.token_type = random() % 2 == 0 ? "uint16" : "uint32";
  data.shifted = task == Task::kLanguage || random() % 2 == 0;
  data.python = "/usr/bin/python3";
  data.python_path = "/a:/b";
  data.timeout_s = 1 + random() % 100;
  data.weights = random() % 2 == 0 ? "" : "weights.npy";
  data.groups = !data.weights.empty() || random() % 2 == 0 ? "" : "groups.npy";
}

void randomise_model(ModelSpec& model, std::mt19937_64& random) {
  const char* models[] = {"mlp", "swin_t", "neumf", "bert", "electra", "yolov3", "gpt2"};
  const bool captured = random() % 4 == 0;
  if (captured) {
    model.file = "net.esmodel";
    if (random() % 2 == 0) model.file_digest = Digest{random(), random()}.hex();
  } else {
    model.name = models[random() % std::size(models)];
    model.size = random() % 2 == 0 ? "tiny" : "published";
    model.dropout = random() % 2 == 0 ? -1.0 : fraction(random);
    model.label_smoothing = model.name == "gpt2" ? fraction(random) : 0.0;
    model.z_loss = model.name == "gpt2" ? fraction(random) : 0.0;
  }
  model.weights = random() % 2 == 0 ? "" : "w.safetensors";
  if (!model.weights.empty()) model.weights_digest = Digest{random(), random()}.hex();
}

JobSpec random_spec(std::mt19937_64& random) {
  const char* optimizers[] = {"sgd", "adam", "adamw"};
  JobSpec spec;
  spec.name = "j" + std::to_string(random() % 1000);
  spec.max_p = 1 + random() % 64;
  spec.steps = 1 + random() % 1000;
  spec.seed = random() >> 1;
  spec.level = static_cast<DeterminismLevel>(random() % 4);
  spec.auto_cost = fraction(random);
  spec.precision = random() % 2 == 0 ? "fp32" : "bf16";
  spec.tf32 = spec.level < DeterminismLevel::kD2 && random() % 2 == 0;
  randomise_model(spec.model, random);
  if (random() % 2 == 0)
    spec.lora = {.rank = 1 + static_cast<std::uint32_t>(random() % 9),
                 .alpha = 0.5 + fraction(random),
                 .dropout = fraction(random),
                 .targets = {"*.q_proj", "head"}};
  randomise_data(spec.data, task_of(spec.model), random);
  spec.optimizer.kind = optimizers[random() % 3];
  spec.optimizer.nesterov = spec.optimizer.kind == "sgd";
  spec.optimizer.learning_rate = fraction(random);
  spec.optimizer.beta1 = fraction(random);
  spec.optimizer.beta2 = fraction(random);
  spec.optimizer.epsilon = 1e-9 + fraction(random) * 1e-3;
  spec.optimizer.weight_decay = static_cast<double>(random()) * 1e-22;
  spec.optimizer.clip_norm = fraction(random);
  spec.optimizer.ema = fraction(random);
  if (random() % 2 == 0)
    spec.optimizer.clip_groups = {{.parameters = {"a*", "\"*"}, .clip_norm = fraction(random)}};
  if (random() % 2 == 0)
    spec.optimizer.groups = {
        {.parameters = {"*.bias", "a \\ \"b\""}, .weight_decay = fraction(random)},
        {.parameters = {"*"}, .learning_rate_factor = fraction(random)}};
  spec.schedule.gamma = 1.0;
  if (random() % 2 == 0) spec.schedule = {.kind = "cosine", .floor = fraction(random)};
  if (random() % 4 == 0)
    spec.schedule = {.kind = "points",
                     .points = {{0, fraction(random)}, {1 + random() % 9, fraction(random)}},
                     .momentum_points = {{0, fraction(random)}}};
  spec.resources.threads = 1 + random() % 8;
  spec.resources.device_types = {{"cpu-avx2"}, {"cpu-scalar"}};
  spec.audit.every_steps = 50;
  spec.checkpoint = {.every_steps = random() % 9,
                     .directory = "c",
                     .keep = 2 + static_cast<std::uint32_t>(random() % 9)};
  spec.stages = *parse_stages("cpu-avx2:1@" + std::to_string(1 + random() % 9));
  return spec;
}

// The keys that the error about an unknown key lists.
std::vector<std::string> allowed_keys(const std::string& message) {
  const std::string before = "allowed here: ";
  std::istringstream list(message.substr(message.find(before) + before.size()));
  std::vector<std::string> keys;
  for (std::string key; list >> key;) {
    if (key.back() == ',') key.pop_back();
    keys.push_back(key);
  }
  return keys;
}

// Sections are tables, not keys with a value.
bool is_in(const std::string& text, const std::string& key) {
  return ("\n" + text).find("\n" + key + " = ") != std::string::npos ||
         text.find("\n[" + key + "]\n") != std::string::npos;
}

}  // namespace

TEST_SUITE("actors/base/job_file/job_file") {
  TEST_CASE("a job file is read into its fields") {
    const auto spec = parse_job(R"(
name = "fashion"
max_p = 4
batch_size = 64
level = "D2"
stages = "cpu-avx2:2@20,cpu-scalar:1@5"
[model]
name = "resnet18"
width = 16
[data]
kind = "idx"
path = "/data/fashion"
crop_padding = 2
flip = true
[optimizer]
learning_rate = 0.05
weight_decay = 5e-4
[schedule]
kind = "cosine"
floor = 0.1
warmup_steps = 10
[resources]
max_devices = 3
device_types = ["cpu-avx2"]
)",
                                "fashion.toml");
    REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message));
    CHECK(spec->name == "fashion");
    CHECK(spec->level == DeterminismLevel::kD2);
    CHECK(spec->stages.size() == 2);
    CHECK(spec->model.width == 16);
    CHECK(spec->data.flip);
    CHECK(spec->optimizer.weight_decay == 5e-4);
    CHECK(spec->schedule.floor == 0.1);
    CHECK(spec->schedule.warmup_steps == 10);
    CHECK(spec->resources.device_types.size() == 1);
    CHECK(spec->optimizer.groups.empty());
  }

  TEST_CASE("groups of parameters are tables, and one line of the canonical text") {
    const auto spec = parse_job(R"(
steps = 1
[optimizer]
kind = "adamw"
[[optimizer.groups]]
parameters = ["*.bias", "*norm*"]
weight_decay = 0
[[optimizer.groups]]
parameters = ["head.*"]
learning_rate_factor = 10
)",
                                "job.toml");
    REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message));
    CHECK(spec->optimizer.groups ==
          std::vector<ParameterGroup>{{.parameters = {"*.bias", "*norm*"}, .weight_decay = 0.0},
                                      {.parameters = {"head.*"}, .learning_rate_factor = 10.0}});
    const std::string line =
        "\ngroups = [{parameters = [\"*.bias\", \"*norm*\"], learning_rate_factor = 1.0, "
        "weight_decay = 0.0}, {parameters = [\"head.*\"], learning_rate_factor = 10.0}]\n";
    CHECK(to_toml(*spec).find(line) != std::string::npos);
    CHECK(bits_toml(*spec).find(line) != std::string::npos);
    CHECK(to_toml(JobSpec{}).find("groups") == std::string::npos);
  }

  TEST_CASE("points of a schedule are a text, which the canonical text has as it was") {
    const auto spec = parse_job(R"(
steps = 1
[optimizer]
kind = "adamw"
[schedule]
kind = "points"
points = "0:0.04,30:1,100:4e-06"
momentum_points = "0:0.95,30:0.85"
)",
                                "job.toml");
    REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message));
    CHECK(spec->schedule.points == std::vector<SchedulePoint>{{0, 0.04}, {30, 1.0}, {100, 4e-6}});
    CHECK(spec->schedule.momentum_points == std::vector<SchedulePoint>{{0, 0.95}, {30, 0.85}});
    CHECK(bits_toml(*spec).find("\npoints = \"0:0.04,30:1,100:4e-06\"\n") != std::string::npos);
    const auto again = parse_job(to_toml(*spec), "again.toml");
    REQUIRE(again.ok());
    CHECK(*again == *spec);
    CHECK(to_toml(JobSpec{}).find("points") == std::string::npos);
  }

  TEST_CASE("each error in a file is reported with file, key, value and what is allowed") {
    struct Case {
      const char* text;
      const char* expected;
    };
    const Case cases[] = {
        {"steps = 1\n[schedule]\nkind = \"points\"\npoints = \"0:1,5\"",
         "job.toml: schedule.points: \"5\" is not STEP:VALUE"},
        {"steps = 1\n[schedule]\nkind = \"points\"\npoints = \"0:1,\"",
         "job.toml: schedule.points: \"0:1,\" is not STEP:VALUE"},
        {"steps = 1\nmax_p = \"four\"", "job.toml: max_p = 'four': allowed is a whole number"},
        {"steps = 1\nmax_p = -1", "job.toml: max_p = -1: allowed is a whole number from 0"},
        {"steps = 1\nmax_p = 99999999999", "allowed is a whole number from 0 to 4294967295"},
        {"steps = 1\nmaxp = 4",
         "job.toml: unknown key maxp (line 2); allowed here: arithmetic, audit, auto_cost, "
         "batch_size"},
        {"steps = 1\n[model]\nwidht = 3", "unknown key model.widht (line 3)"},
        {"steps = 1\nlevel = \"D2\"\ntf32 = true",
         "job.toml: tf32 = true: allowed is false at level D2"},
        {"steps = 1\nlevel = \"D3\"", "level = \"D3\": allowed is D0, D1, D2, auto"},
        {"steps = 1\nstages = \"cpu:0@1\"", "job.toml: placement \"cpu:0\""},
        {"steps = 1\nmodel = 3", "job.toml: model = 3: allowed is a table [model]"},
        {"steps = 1\n[data]\nflip = 1", "data.flip = 1: allowed is true or false"},
        {"steps = = 1", "job.toml: line 1, column"},
        {"steps = 1\n[checkpoint]\nevery_steps = 5", "checkpoint.directory = \"\": allowed is"},
        {"steps = 1\n[checkpoint]\nkeep = 1", "checkpoint.keep = 1: allowed is 2 to 1000"},
        {"steps = 1\n[model]\nweights = \"w\"\nweights_digest = \"ABC\"",
         "model.weights_digest = \"ABC\": allowed is 32"},
        {"max_p = 2", "job.toml: steps = 0: allowed is at least 1"},
        {"steps = 1\n[model]\nname = \"mlp\"\nfile = \"net\"\nweights = \"w\"",
         "job.toml: model.name = 'mlp': allowed is no such key beside model.file"},
        {"steps = 1\n[optimizer]\ngroups = 3",
         "job.toml: optimizer.groups = 3: allowed is a list of tables"},
        {"steps = 1\n[optimizer]\ngroups = [\"*.bias\"]",
         "optimizer.groups = [ '*.bias' ]: allowed is a list of tables"},
        {"steps = 1\n[[optimizer.groups]]\nparameters = \"*.bias\"",
         "optimizer.groups[0].parameters = '*.bias': allowed is a list of texts"},
        {"steps = 1\n[[optimizer.groups]]\nparameters = [\"*\"]\nlr = 0.1",
         "unknown key optimizer.groups[0].lr (line 4); allowed here: learning_rate_factor, "
         "parameters, weight_decay"},
        {"steps = 1\n[[optimizer.groups]]\nweight_decay = 0.0",
         "optimizer.groups[0].parameters = []: allowed is a list of at least one name"},
        {"steps = 1\n[[optimizer.clip_groups]]\nparameters = [\"*\"]\nnorm = 0.1",
         "unknown key optimizer.clip_groups[0].norm (line 4); allowed here: clip_norm, parameters"},
        {"steps = 1\n[lora]\nalpha = 16",
         "job.toml: lora.rank = 0: allowed is at least 1 beside other keys of [lora]"},
        {"steps = 1\n[lora]\nrank = 8",
         "lora.targets = []: allowed is a list of at least one name"},
        {"steps = 1\n[lora]\nrank = 8\ntargets = [\"*\"]\ndropout = 1",
         "lora.dropout = 1: allowed is 0 to below 1"},
        {"steps = 1\n[optimizer]\nema = 1",
         "optimizer.ema = 1: allowed is 0 (no average) to below 1"},
        {"steps = 1\n[model]\nz_loss = 0.1",
         "model.z_loss = 0.1: allowed is 0 for a model that is no built-in language model"},
        {"steps = 1\n[model]\nlabel_smoothing = 0.1",
         "model.label_smoothing = 0.1: allowed is 0 for a model that is no built-in language "
         "model"},
        {"steps = 1\n[model]\nclasses = 10\nfile = \"net\"\nweights = \"w\"",
         "job.toml: model.classes = 10: allowed is no such key beside model.file"},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.text));
      const auto spec = parse_job(c.text, "job.toml");
      REQUIRE(!spec.ok());
      CHECK(spec.error().kind == ErrorKind::kUsage);
      CHECK_MESSAGE(spec.error().message.find(c.expected) != std::string::npos,
                    spec.error().message);
    }
  }

  TEST_CASE("a file that does not exist is not found") {
    const auto spec = read_job_file("does/not/exist.toml");
    REQUIRE(!spec.ok());
    CHECK(spec.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("the canonical text of a spec reads back as the same spec") {
    std::mt19937_64 random(es::test::seed("job_file"));
    for (int i = 0; i < 500; ++i) {
      const JobSpec spec = random_spec(random);
      const auto again = parse_job(to_toml(spec), "canonical");
      REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.error().message));
      CHECK(*again == spec);
      CHECK(to_toml(*again) == to_toml(spec));
    }
  }

  // A field that is missing in the canonical text would be lost between the head and its workers.
  TEST_CASE("the canonical text holds every key that a job file may have") {
    const std::string text =
        to_toml(JobSpec{
            .steps = 1,
            .recompute = "blocks",
            .precision = "bf16",
            .arithmetic = "x15",
            .tf32 = true,
            .model = {.name = "gpt2", .label_smoothing = 0.1, .z_loss = 1e-4},
            .lora = {.rank = 4, .alpha = 16, .dropout = 0.1, .targets = {"*.c_attn"}},
            .optimizer = {.ema = 0.99, .groups = {{.parameters = {"*"}}}},
            .metrics = {"f1"},
            .resources = {.queue = "vision", .suspendable = false, .max_seconds = 60, .budget = 5},
            .log = {.tensorboard = "runs", .mlflow = "http://x", .experiment = "e"},
            .stages = *parse_stages("cpu-avx2:1@1")}) +
        to_toml(JobSpec{.model = {.file = "net", .file_digest = "digest"},
                        .data = {.length = 8,
                                 .token_type = "uint32",
                                 .shifted = false,
                                 .path_digest = "digest",
                                 .python = "/python3",
                                 .python_path = "/modules",
                                 .timeout_s = 5,
                                 .weights = "weights.npy",
                                 .document_end = 1,
                                 .tokenizer = "tokenizer.json",
                                 .text_field = "body",
                                 .append_token = "<end>",
                                 .eval_share = 0.5},
                        .schedule = {.kind = "cosine",
                                     .floor = 0.5,
                                     .points = {{0, 1.0}},
                                     .momentum_points = {{0, 0.5}}}}) +
        to_toml(JobSpec{.data = {.length_buckets = "lengths"},
                        .optimizer = {.clip_groups = {{.parameters = {"*"}, .clip_norm = 1.0}}},
                        .schedule = {.kind = "plateau",
                                     .metric = "loss",
                                     .patience = 3,
                                     .threshold = 0.1,
                                     .threshold_mode = "abs",
                                     .cooldown = 1,
                                     .min_rate = 1e-6},
                        .checkpoint = {.keep_best = "loss"},
                        .stop = {.metric = "loss", .min_delta = 0.1},
                        .shard = {.state = "on"}});
    for (const char* section : {"", "model", "lora", "data", "optimizer", "schedule", "resources",
                                "checkpoint", "stop", "shard", "log"}) {
      CAPTURE(section);
      const std::string header = *section == 0 ? "" : "[" + std::string(section) + "]\n";
      const auto refused = parse_job("steps = 1\n" + header + "nonsense = 1\n", "job.toml");
      REQUIRE(!refused.ok());
      for (const std::string& key : allowed_keys(refused.error().message)) {
        CAPTURE(key);
        if (key != "nonsense") CHECK(is_in(text, key));
      }
    }
  }

  TEST_CASE("an error is one line, whatever text is at the place of the error") {
    const auto refused = parse_job("[data]\nflip = fa\nsamples = 3\n", "job.toml");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("job.toml: line ") == 0);
    CHECK(refused.error().message.find('\n') == std::string::npos);
  }

  TEST_CASE("mutated job files never crash the reader") {
    const std::string good = to_toml(JobSpec{.steps = 3});
    std::mt19937_64 random(es::test::seed("job_file_mutations"));
    for (int i = 0; i < 5000; ++i) {
      std::string text = good;
      for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
      const auto spec = parse_job(text, "mutated");
      if (spec.ok()) CHECK(validate(*spec, "mutated").ok());
    }
  }
}
