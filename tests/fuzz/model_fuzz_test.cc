// Mutated model files: the reader returns a model that is equal after it is written and read again,
// or one error that names the file. A model that was read is checked, and a checked one imported.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "gpu/engine/captured_updates.h"
#include "gpu/import/check.h"
#include "gpu/import/import.h"
#include "store/model_file/model_digest.h"
#include "store/model_file/model_file.h"
#include "store/model_file/model_json.h"
#include "tests/fuzz/cost.h"
#include "tests/fuzz/rounds.h"
#include "tests/store/model_file/small_model.h"
#include "tests/store/mutate.h"
#include "tests/support/seed.h"

namespace es::test {
namespace {

constexpr unsigned kSecondsMax = 60;
// The seeds have some hundred values and two kilobytes.
constexpr std::size_t kReadAllocationMax = std::size_t{1} << 20;
constexpr const char* kWhere = "net.esmodel";
constexpr std::int64_t kBatch = 2;
// Larger models are checked but not imported here, because the memory of a graph grows with what a
// model declares.
constexpr std::int64_t kElementsMax = 1 << 20;

struct Outcome {
  int read = 0, checked = 0, imported = 0;
};

bool is_small(const ModelProgram& program) {
  for (const ModelValue& value : program.values) {
    std::int64_t elements = kBatch;
    for (const ModelDim& dim : value.dims) {
      elements *= dim.size * (dim.per_batch ? kBatch : 1);
      if (elements > kElementsMax) return false;
    }
  }
  for (const ModelUpdate& update : program.updates)
    if (!std::ranges::all_of(update.programs, is_small)) return false;
  return std::ranges::all_of(program.programs, is_small);
}

// The small model, with an initial value, a state, an optimizer and a second loss.
ModelProgram seed_model() {
  ModelProgram program = with_losses(with_updates(with_state(small_model())));
  program.parameters[0].init = ModelInit{.constant = 0.5F, .bound = 0.25F};
  return program;
}

void check_error(const Error& error) {
  CAPTURE(error.message);
  REQUIRE(error.kind == ErrorKind::kUsage);
  REQUIRE(error.message.find('\n') == std::string::npos);
  REQUIRE(error.message.size() < 1000);
}

void check_read_model(const ModelProgram& program, Outcome& outcome) {
  ++outcome.read;
  const auto again = store::decode_model(store::encode_model(program), kWhere);
  REQUIRE(again.ok());
  REQUIRE(store::model_digest(*again) == store::model_digest(program));
  const Status checked = gpu::check_program(program);
  if (!checked.ok()) return check_error(checked.error());
  ++outcome.checked;
  if (!is_small(program)) return;
  const auto graph = gpu::import_model(program, kBatch);
  if (!graph.ok()) return check_error(graph.error());
  ++outcome.imported;
  const OptimizerSpec optimizer{.kind = program.updates.empty() ? "sgd" : "captured"};
  const auto updates = gpu::captured_updates(graph->table, graph->updates.get(), optimizer, {}, 3);
  if (!updates.ok()) check_error(updates.error());
}

template <class Read>
void mutate_model(const char* name, const std::string& whole, int usual_rounds, Read read) {
  std::mt19937_64 random(seed(name));
  Outcome outcome;
  const int rounds = fuzz_rounds(usual_rounds);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const std::string bytes = mutate(whole, random);
    take_largest_allocation();
    expect_end_within(kSecondsMax);
    const auto program = read(bytes);
    REQUIRE(take_largest_allocation() <= kReadAllocationMax);
    if (program.ok()) {
      check_read_model(*program, outcome);
    } else {
      check_error(program.error());
      REQUIRE(program.error().message.starts_with(kWhere));
    }
    expect_end_within(0);
  }
  MESSAGE(std::string(name) << ": " << rounds << " mutated models, " << outcome.read
                            << " still read, " << outcome.checked << " pass the check, "
                            << outcome.imported << " imported");
}

// Changes a node or a value of a program, or nothing; `any` may be the number of a value.
bool change_node(ModelProgram& p, std::int32_t any, std::mt19937_64& random) {
  ModelNode& node = p.nodes[random() % p.nodes.size()];
  ModelValue& value = p.values[random() % p.values.size()];
  switch (random() % 8) {
    case 0:
      node.inputs[random() % node.inputs.size()] = any;
      return true;
    case 1:
      node.outputs[0] = any;
      return true;
    case 2:
      value.dims.resize(value.dims.size() + random() % 2);
      if (!value.dims.empty())
        value.dims[random() % value.dims.size()].size = std::int64_t{any} << random() % 60;
      return true;
    case 3:
      value.type = static_cast<ValueType>(random() % 3);
      return true;
    default:
      return false;
  }
}

// Changes one number or name of the optimizer.
void change_update(ModelProgram& program, std::mt19937_64& random) {
  ModelUpdate& update = program.updates[random() % program.updates.size()];
  ModelProgram& p = update.programs[random() % update.programs.size()];
  const auto any = static_cast<std::int32_t>(random() % 9) - 2;
  if (change_node(p, any, random)) return;
  switch (random() % 6) {
    case 0:
      p.parameters[random() % p.parameters.size()].name = "number." + std::to_string(any);
      break;
    case 1:
      p.parameters[random() % p.parameters.size()].value = any;
      break;
    case 2:
      p.outputs[random() % p.outputs.size()].value = any;
      break;
    case 3:
      update.phases[random() % update.phases.size()] = {random() % 3,
                                                        static_cast<std::uint32_t>(any)};
      break;
    case 4:
      program.numbers[0].values.resize(random() % 5);
      break;
    default:
      update.parameters.resize(random() % 3);
  }
}

// A seed that a mutation does not turn into an unreadable one so easily: the model itself changes.
void change_number(ModelProgram& program, std::mt19937_64& random) {
  const auto any = static_cast<std::int32_t>(random() % 12) - 2;
  for (ModelNode& n : program.nodes) n.region = static_cast<std::uint32_t>(random() % 3);
  if (change_node(program, any, random)) return;
  switch (random() % 4) {
    case 0:
      program.constants[0].words.resize(random() % 40);
      break;
    case 1:
      program.states[0].value = any;
      break;
    case 2:
      program.nodes[5].attributes[0].value = std::int64_t{any};
      break;
    default:
      (random() % 2 == 0 ? program.loss : program.outputs[0].value) = any;
  }
}

}  // namespace

TEST_SUITE("fuzz/model") {
  TEST_CASE("mutated model files") {
    mutate_model("fuzz model", store::encode_model(seed_model()), 5000,
                 [](const std::string& bytes) { return store::decode_model(bytes, kWhere); });
  }

  TEST_CASE("the mutated JSON form of a model") {
    mutate_model("fuzz model JSON", store::model_to_json(seed_model()), 1000,
                 [](const std::string& text) { return store::model_from_json(text, kWhere); });
  }

  TEST_CASE("models with wrong numbers") {
    std::mt19937_64 random(seed("fuzz model numbers"));
    Outcome outcome;
    const int rounds = fuzz_rounds(5000);
    for (int round = 0; round < rounds; ++round) {
      CAPTURE(round);
      ModelProgram program = seed_model();
      for (std::size_t left = 1 + random() % 2; left > 0; --left)
        (random() % 2 == 0 ? change_number : change_update)(program, random);
      expect_end_within(kSecondsMax);
      check_read_model(program, outcome);
      expect_end_within(0);
    }
    MESSAGE(outcome.checked << " of " << rounds << " pass the check");
  }
}

}  // namespace es::test
