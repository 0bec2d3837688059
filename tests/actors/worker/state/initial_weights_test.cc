#include "actors/worker/state/initial_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu/import/import.h"
#include "tests/store/model_file/small_model.h"
#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;

JobSpec spec(std::uint64_t seed) {
  JobSpec s;
  s.name = "weights";
  s.max_p = 2;
  s.batch_size = 2;
  s.steps = 4;
  s.seed = seed;
  s.model = {.name = "resnet18", .width = 4};
  return s;
}

std::unique_ptr<gpu::Engine> engine(const JobSpec& s) {
  const SampleLayout layout{{{.name = "image", .height = 8, .width = 8, .channels = 3},
                             {.name = "label", .type = FieldType::kI32, .high = 9}}};
  auto made = gpu::Engine::create(s, layout, {.cpu_class = CpuClass::kScalar});
  REQUIRE(made.ok());
  REQUIRE((*made)->init_replica().ok());
  return *std::move(made);
}

// An engine whose statistics differ from those of a new engine.
std::unique_ptr<gpu::Engine> trained() {
  auto e = engine(spec(1));
  gpu::Replica replica = e->replica();
  for (gpu::EstContext& context : replica.contexts)
    for (float& stat : context.stats) stat += 0.5F;
  REQUIRE(e->install(std::move(replica)).ok());
  return e;
}

struct Files {
  es::test::TempDirectory directory;
  std::unique_ptr<gpu::Engine> source = trained();
  StateDict state{source->table(), source->replica().params.data(),
                  source->replica().contexts[0].stats.data(), 7};

  int written = 0;

  fs::path write(const char* name, const std::vector<store::TensorData>& tensors) {
    const fs::path file = directory / name;
    REQUIRE(store::write_safetensors(store::posix_file_system(), file, tensors, {}).ok());
    return file;
  }
};

}  // namespace

TEST_SUITE("actors/worker/state/initial_weights") {
  TEST_CASE("exported weights are imported with every bit, for every EST") {
    Files files;
    JobSpec other = spec(2);
    other.model.weights = files.write("w", files.state.tensors());
    const auto target = engine(other);
    CHECK(target->params_digest() != files.source->params_digest());
    const auto digest = check_weights(other.model.weights, target->table(), {});
    REQUIRE_MESSAGE(digest.ok(), (digest.ok() ? "" : digest.error().message));
    other.model.weights_digest = digest->hex();
    REQUIRE(load_initial_weights(*target, other).ok());
    CHECK(target->params_digest() == files.source->params_digest());
    CHECK(target->state_digest() == files.source->state_digest());
  }

  TEST_CASE("the states of an optimizer of a model file begin with those of the file") {
    JobSpec job = spec(1);
    job.optimizer = {.kind = "captured"};
    const auto make = [&] {
      auto made = gpu::Engine::create(
          job, *gpu::import_model(es::test::with_updates(es::test::small_model()), 2),
          {.cpu_class = CpuClass::kScalar, .total_steps = 3});
      REQUIRE(made.ok());
      REQUIRE((*made)->init_replica().ok());
      return *std::move(made);
    };
    const auto source = make();
    gpu::Replica replica = source->replica();
    const gpu::ParamTable& table = source->table();
    REQUIRE(source->optimizer_states().size() == 1);  // that of the weight; the bias has none
    const gpu::ParamState& state = source->optimizer_states()[0];
    CHECK(state_name(table, state) == "last.fc.weight");
    std::vector<float> content(48);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = 0.5F + static_cast<float>(i);
    state.set(table, content.data(), replica.moments);
    CHECK(state.values(table, replica.moments) == content);
    REQUIRE(source->install(std::move(replica)).ok());

    es::test::TempDirectory directory;
    const StateDict weights(table, source->replica().params.data(), nullptr, 0);
    const auto write = [&](const char* name, std::vector<store::TensorData> tensors) {
      job.model.weights = directory / name;
      return store::write_safetensors(store::posix_file_system(), job.model.weights, tensors, {});
    };
    auto tensors = weights.tensors();
    tensors.push_back(
        {"optimizer/last.fc.weight", "F32", {3, 16}, std::as_bytes(std::span(content))});
    REQUIRE(write("whole", tensors).ok());
    const auto target = make();
    const auto digest = check_weights(job.model.weights, table, {}, target->optimizer_states());
    REQUIRE_MESSAGE(digest.ok(), (digest.ok() ? "" : digest.error().message));
    job.model.weights_digest = digest->hex();
    CHECK(target->state_digest() != source->state_digest());
    REQUIRE(load_initial_weights(*target, job).ok());
    CHECK(target->state_digest() == source->state_digest());

    tensors.back().shape = {48};
    REQUIRE(write("shape", tensors).ok());
    CHECK(check_weights(job.model.weights, table, {}, target->optimizer_states())
              .error()
              .message.find("\"optimizer/last.fc.weight\": shape = [48]: allowed is [3,16]") !=
          std::string::npos);
    tensors.back().name = "optimizer/other.fc.weight";
    REQUIRE(write("name", tensors).ok());
    CHECK(check_weights(job.model.weights, table, {}, target->optimizer_states())
              .error()
              .message.find("\"optimizer/last.fc.weight\" is missing") != std::string::npos);
    // A job whose optimizer keeps nothing of that name has no use for it.
    CHECK(
        check_weights(job.model.weights, table, {}).error().message.find("of its data: allowed") !=
        std::string::npos);
  }

  TEST_CASE("names and shapes are those of PyTorch") {
    Files files;
    const auto file = store::SafetensorsFile::open(files.write("w", files.state.tensors()));
    REQUIRE(file.ok());
    CHECK(file->find("conv1.weight")->shape == std::vector<std::uint64_t>{4, 3, 3, 3});
    CHECK(file->find("layer2.0.downsample.1.running_var")->shape == std::vector<std::uint64_t>{8});
    const store::TensorInfo* tracked = file->find("bn1.num_batches_tracked");
    REQUIRE(tracked != nullptr);
    CHECK(tracked->dtype == "I64");
    CHECK(tracked->shape.empty());
    CHECK(file->read(*tracked).value()[0] == std::byte{7});
  }

  TEST_CASE("each fault of a file has one clear error") {
    Files files;
    const gpu::ParamTable& table = files.source->table();
    const auto expect = [&](const fs::path& file, const std::string& text) {
      const auto checked = check_weights(file, table, {});
      REQUIRE_FALSE(checked.ok());
      CHECK_MESSAGE(checked.error().message.find(text) != std::string::npos,
                    checked.error().message);
      CHECK(checked.error().message.find(file.string()) == 0);
    };
    auto tensors = files.state.tensors();
    tensors.erase(tensors.begin());
    expect(files.write("missing", tensors), "tensor \"conv1.weight\" is missing");
    tensors = files.state.tensors();
    tensors[0].shape = {4, 27};
    expect(files.write("shape", tensors), "\"conv1.weight\": shape = [4,27]: allowed is [4,3,3,3]");
    tensors = files.state.tensors();
    tensors[0].dtype = "I32";
    expect(files.write("dtype", tensors), "\"conv1.weight\": dtype = I32: allowed is F32");
    tensors = files.state.tensors();
    tensors.push_back({"head.weight", "F32", {0}, {}});
    expect(files.write("extra", tensors), "of its data: allowed are the tensors of the model");
    tensors.back().name = "";
    expect(files.write("nameless", tensors), "of its data: allowed are the tensors of the model");
    tensors = files.state.tensors();
    const auto tracked = std::ranges::find(tensors, std::string("bn1.num_batches_tracked"),
                                           &store::TensorData::name);
    REQUIRE(tracked != tensors.end());
    const std::vector<std::byte> two(16);
    tracked->shape = {2};
    tracked->bytes = two;
    expect(files.write("tracked", tensors),
           "\"bn1.num_batches_tracked\": shape = [2]: allowed is []");
    CHECK(check_weights(files.directory / "none", table, {}).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("numbers that no training produces are refused by tensor, element and value") {
    Files files;
    const auto refused = [&](const char* name, std::size_t element, float value) {
      auto tensors = files.state.tensors();
      const auto tensor = std::ranges::find(tensors, std::string(name), &store::TensorData::name);
      REQUIRE(tensor != tensors.end());
      std::vector<float> values(tensor->bytes.size() / sizeof(float));
      std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
      values[element] = value;
      tensor->bytes = std::as_bytes(std::span(values));
      const fs::path file = files.directory / ("bad" + std::to_string(++files.written));
      REQUIRE(store::write_safetensors(store::posix_file_system(), file, tensors, {}).ok());
      const auto checked = check_weights(file, files.source->table(), {});
      return checked.ok() ? "accepted" : checked.error().message.substr(file.string().size());
    };
    CHECK(refused("bn1.running_var", 3, -1000.0F) ==
          ": tensor \"bn1.running_var\": element 3 = -1000: allowed is a finite number of at least "
          "0");
    CHECK(refused("bn1.running_var", 0, NAN).find("element 0 = nan") != std::string::npos);
    CHECK(refused("bn1.running_var", 0, -0.0F) == "accepted");
    CHECK(refused("bn1.running_mean", 1, -1000.0F) == "accepted");
    CHECK(refused("bn1.running_mean", 1, INFINITY) ==
          ": tensor \"bn1.running_mean\": element 1 = inf: allowed is a finite number");
    CHECK(refused("fc.weight", 5, -INFINITY).find("\"fc.weight\": element 5 = -inf") !=
          std::string::npos);
  }

  TEST_CASE("tensors that follow from the model are written, and checked and left out at import") {
    gpu::ParamTable table = engine(spec(1))->table();
    table.add_buffer(
        {.name = "index", .torch_shape = {2, 2}, .dtype = "I64", .values = {3, 1, 4, 1}});
    table.add_buffer(
        {.name = "anchors", .torch_shape = {2}, .dtype = "F32", .values = {1.25, 0.5}});
    table.add_buffer(
        {.name = "old", .torch_shape = {1}, .dtype = "I64", .values = {0}, .current = false});
    Files files;
    const gpu::Replica& replica = files.source->replica();
    const StateDict state(table, replica.params.data(), replica.contexts[0].stats.data(), 7);
    CHECK(check_weights(files.write("whole", state.tensors()), table, {}).ok());
    CHECK(check_weights(files.write("without", files.state.tensors()), table, {}).ok());
    auto tensors = state.tensors();
    CHECK(std::ranges::find(tensors, std::string("old"), &store::TensorData::name) ==
          tensors.end());
    const std::int64_t zero = 0, two = 2;
    tensors.push_back({"old", "I64", {1}, std::as_bytes(std::span(&zero, 1))});
    CHECK(check_weights(files.write("old", tensors), table, {}).ok());
    tensors.back().bytes = std::as_bytes(std::span(&two, 1));
    const auto checked = check_weights(files.write("other", tensors), table, {});
    REQUIRE_FALSE(checked.ok());
    CHECK(checked.error().message.find(
              "\"old\": element 0 = 2: allowed is 0, which follows from the model") !=
          std::string::npos);
  }

  TEST_CASE("other names of a parameter and buffers of a model file are written and checked") {
    gpu::ParamTable table = engine(spec(1))->table();
    table.add_alias({"tied.weight", 0});
    const auto mask = std::vector<std::byte>{std::byte{1}, std::byte{0}};
    table.add_buffer({.name = "mask", .torch_shape = {2}, .dtype = "BOOL", .bytes = mask});
    Files files;
    const gpu::Replica& replica = files.source->replica();
    const StateDict state(table, replica.params.data(), replica.contexts[0].stats.data(), 7);
    CHECK(check_weights(files.write("whole", state.tensors()), table, {}).ok());
    CHECK(check_weights(files.write("without", files.state.tensors()), table, {}).ok());
    const auto changed = [&](const char* name) {
      auto tensors = state.tensors();
      const auto tensor = std::ranges::find(tensors, name, &store::TensorData::name);
      REQUIRE(tensor != tensors.end());
      std::vector<std::byte> bytes(tensor->bytes.begin(), tensor->bytes.end());
      bytes[0] ^= std::byte{1};
      tensor->bytes = bytes;
      const auto checked = check_weights(files.write(name, tensors), table, {});
      REQUIRE_FALSE(checked.ok());
      return checked.error().message;
    };
    const std::string first = table.params()[0].name;
    CHECK(changed("tied.weight")
              .ends_with(": tensor \"tied.weight\" has other values: allowed are those of \"" +
                         first + "\", with which the model ties it"));
    CHECK(changed("mask").ends_with(
        ": tensor \"mask\" has other values: allowed are those of model.file"));
  }

  TEST_CASE("states keep the type and shape that they have in the state dict") {
    gpu::ParamTable table;
    table.add({.name = "w", .torch_shape = {2}, .order = {.outer = 2}});
    table.add_mean("running_mean", 1);
    table.add_state("own.running_mean", {2, 1}, "F32");
    table.add_state("steps", {}, "I64");
    table.add_state("bytes", {2}, "U8");
    table.add_state("seen", {2}, "BOOL");
    const auto word = [](std::int32_t v) { return std::bit_cast<float>(v); };
    const std::vector<float> flat(16, 0.5F);
    std::vector<float> stats{0.25F, 1.5F, -2.5F, word(-7), word(3), word(255), 1.0F, 0.0F};
    const StateDict state(table, flat.data(), stats.data(), 9);
    const auto find = [&](const std::string& name) -> const store::TensorData* {
      const auto found = std::ranges::find(state.tensors(), name, &store::TensorData::name);
      return found == state.tensors().end() ? nullptr : &*found;
    };
    CHECK(find("num_batches_tracked") == nullptr);  // the name of a module is in front of it
    CHECK(find("own.num_batches_tracked") == nullptr);
    CHECK(find("own.running_mean")->shape == std::vector<std::uint64_t>{2, 1});
    CHECK(find("steps")->dtype == "I64");
    CHECK(find("steps")->shape.empty());
    std::int64_t steps = 0;
    REQUIRE(find("steps")->bytes.size() == sizeof steps);
    std::memcpy(&steps, find("steps")->bytes.data(), sizeof steps);
    CHECK(steps == -7);
    CHECK(find("bytes")->dtype == "U8");
    CHECK(find("bytes")->bytes[1] == std::byte{255});
    CHECK(find("seen")->dtype == "BOOL");
    CHECK(find("seen")->bytes[0] == std::byte{1});
    CHECK(find("seen")->bytes[1] == std::byte{0});

    Files files;
    CHECK(check_weights(files.write("states", state.tensors()), table, {}).ok());
    const auto changed = [&](const char* name, const char* dtype, std::vector<std::byte> bytes) {
      auto tensors = state.tensors();
      const auto tensor = std::ranges::find(tensors, std::string(name), &store::TensorData::name);
      tensor->dtype = dtype;
      tensor->bytes = bytes;
      const auto checked = check_weights(
          files.write(("bad" + std::to_string(++files.written)).c_str(), tensors), table, {});
      REQUIRE_FALSE(checked.ok());
      return checked.error().message;
    };
    std::vector<std::byte> large(8);
    large[4] = std::byte{1};  // 2^32
    CHECK(changed("steps", "I64", large)
              .ends_with("\"steps\": element 0 = 4.2949673e+09: allowed is -2147483648 to "
                         "2147483647"));
    CHECK(changed("steps", "I32", std::vector<std::byte>(4))
              .ends_with("\"steps\": dtype = I32: allowed is I64"));
    CHECK(changed("seen", "BOOL", std::vector<std::byte>(2, std::byte{2}))
              .ends_with("\"seen\": element 0 = 2: allowed is 0 to 1"));
    const float nan = std::nanf("");
    std::vector<std::byte> two(8);
    std::memcpy(two.data() + 4, &nan, sizeof nan);
    CHECK(changed("own.running_mean", "F32", two).find("element 1 = nan") != std::string::npos);
  }

  TEST_CASE("a file that was changed after admission is noticed, and nothing is loaded") {
    Files files;
    JobSpec other = spec(2);
    other.model.weights = files.write("w", files.state.tensors());
    other.model.weights_digest =
        check_weights(other.model.weights, files.source->table(), {})->hex();
    es::test::flip_bit(other.model.weights, fs::file_size(other.model.weights) - 3, 2);
    const auto target = engine(other);
    const Digest before = target->params_digest();
    const Status status = load_initial_weights(*target, other);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("allowed is " + other.model.weights_digest) !=
          std::string::npos);
    CHECK(target->params_digest() == before);
  }
}

}  // namespace es::actors
