#include "actors/common/initial_weights.h"

#include <doctest/doctest.h>

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

// An engine whose statistics are not those of a new one.
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

  fs::path write(const char* name, const std::vector<store::TensorData>& tensors) {
    const fs::path file = directory / name;
    REQUIRE(store::write_safetensors(store::posix_file_system(), file, tensors, {}).ok());
    return file;
  }
};

}  // namespace

TEST_SUITE("actors/common/initial_weights") {
  TEST_CASE("exported weights come back with every bit, for every EST") {
    Files files;
    JobSpec other = spec(2);
    other.model.weights = files.write("w", files.state.tensors());
    const auto target = engine(other);
    CHECK(target->params_digest() != files.source->params_digest());
    const auto digest = check_weights(other.model.weights, target->table());
    REQUIRE_MESSAGE(digest.ok(), (digest.ok() ? "" : digest.error().message));
    other.model.weights_digest = digest->hex();
    REQUIRE(load_initial_weights(*target, other.model).ok());
    CHECK(target->params_digest() == files.source->params_digest());
    CHECK(target->state_digest() == files.source->state_digest());
  }

  TEST_CASE("names and shapes are PyTorch's") {
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

  TEST_CASE("each thing that is wrong with a file has one clear error") {
    Files files;
    const gpu::ParamTable& table = files.source->table();
    const auto expect = [&](const fs::path& file, const std::string& text) {
      const auto checked = check_weights(file, table);
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
    expect(files.write("extra", tensors), "\"head.weight\": allowed are the tensors of the model");
    CHECK(check_weights(files.directory / "none", table).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a file that was changed after admission is noticed, and nothing is loaded") {
    Files files;
    JobSpec other = spec(2);
    other.model.weights = files.write("w", files.state.tensors());
    other.model.weights_digest = check_weights(other.model.weights, files.source->table())->hex();
    es::test::flip_bit(other.model.weights, fs::file_size(other.model.weights) - 3, 2);
    const auto target = engine(other);
    const Digest before = target->params_digest();
    const Status status = load_initial_weights(*target, other.model);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("allowed is " + other.model.weights_digest) !=
          std::string::npos);
    CHECK(target->params_digest() == before);
  }
}

}  // namespace es::actors
