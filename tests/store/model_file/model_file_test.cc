#include "store/model_file/model_file.h"

#include <doctest/doctest.h>

#include <limits>

#include "store/model_file/model_digest.h"
#include "store/model_file/model_json.h"
#include "tests/store/model_file/small_model.h"
#include "tests/store/temp_directory.h"

namespace es::store {
namespace {

using test::small_model;
using test::with_losses;
using test::with_state;
using test::with_updates;

// The model with a statistic and an attribute of every type.
ModelProgram full_model() {
  ModelProgram model = small_model();
  model.statistics = {{.name = "bn.running_mean", .size = 3, .is_variance = false},
                      {.name = "bn.running_var", .size = 3, .is_variance = true}};
  model.parameters[1].trainable = false;
  model.parameters[1].init = ModelInit{.constant = -1.5F, .bound = 0.25F};
  model.nodes[0].attributes = {
      {"flag", true},
      {"integer", std::numeric_limits<std::int64_t>::min()},
      {"number", -std::numeric_limits<double>::infinity()},
      {"text", std::string("none")},
      {"integers", std::vector<std::int64_t>{1, -1, std::int64_t{1} << 60}},
      {"numbers", std::vector<double>{0.1, 1e300}}};
  return model;
}

std::string error_of(const Result<ModelProgram>& model) {
  REQUIRE(!model.ok());
  CHECK(model.error().kind == ErrorKind::kUsage);
  CHECK(model.error().message.find('\n') == std::string::npos);
  return model.error().message;
}

// Returns the error of a model that differs from the small one in one field.
std::string error_with(void (*change)(ModelProgram&)) {
  ModelProgram model = small_model();
  change(model);
  return error_of(decode_model(encode_model(model), "net.esmodel"));
}

// What `capnp convert json:binary` made of the model "old" with the schema before initial values.
constexpr std::string_view kOldMessage =
    "000000001a0000000000000001000a00010000000000000000000000000000002100000022000000"
    "21000000170000000000000000000000310000001f00000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000006f6c6400000000000400000001000100"
    "00000000000000000100000017000000040000000200000003000000000000000000000000000000"
    "040000000100020000000000010000000500000012000000050000000e0000007700000000000000"
    "01000000120000007600000000000000";

std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

}  // namespace

TEST_SUITE("store/model_file") {
  TEST_CASE("a model that is written and read is the same, and so are its bytes") {
    const ModelProgram model = full_model();
    const std::string bytes = encode_model(model);
    const auto read = decode_model(bytes, "net.esmodel");
    REQUIRE(read.ok());
    CHECK(*read == model);
    CHECK(encode_model(*read) == bytes);
  }

  TEST_CASE("a file from before the initial values reads as before") {
    const auto read =
        decode_model(std::string(kModelFileMark) + bytes_of_hex(kOldMessage), "old.esmodel");
    REQUIRE(read.ok());
    CHECK(read->name == "old");
    CHECK(read->values == std::vector<ModelValue>{{.type = ValueType::kF32, .dims = {{3}}}});
    CHECK(
        read->parameters ==
        std::vector<ModelParameter>{
            {.name = "w", .aliases = {"v"}, .value = 0, .trainable = false, .init = std::nullopt}});
  }

  TEST_CASE("a model whose message has several segments is read as well") {
    for (const std::size_t copies : {10, 50, 51, 57, 100, 1000}) {
      ModelProgram model = full_model();
      for (std::size_t i = 0; i < copies; ++i) {
        model.nodes.push_back(model.nodes[i % 4]);
        model.values.push_back(model.values[i % 9]);
      }
      const auto read = decode_model(encode_model(model), "net.esmodel");
      REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
      CHECK(*read == model);
    }
  }

  TEST_CASE("a model survives its JSON form") {
    for (const ModelProgram& model :
         {full_model(), with_state(small_model()), with_updates(small_model()),
          with_losses(with_updates(small_model()))}) {
      const auto read = model_from_json(model_to_json(model), "net.json");
      if (!read.ok()) FAIL(read.error().message);
      CHECK(*read == model);
      CHECK(encode_model(*read) == encode_model(model));
    }
  }

  TEST_CASE("states are written, read and a part of the digest; without them nothing is") {
    const ModelProgram model = with_state(small_model());
    const auto read = decode_model(encode_model(model), "net.esmodel");
    REQUIRE(read.ok());
    CHECK(*read == model);
    CHECK(model_to_json(small_model()).find("states") == std::string::npos);
    const auto changed = [&](void (*change)(ModelState&)) {
      ModelProgram other = model;
      change(other.states[0]);
      return model_digest(other) != model_digest(model);
    };
    CHECK(changed([](ModelState& s) { s.name = "other"; }));
    CHECK(changed([](ModelState& s) { s.dtype = "I64"; }));
    CHECK(changed([](ModelState& s) { s.value = 10; }));
    const auto error_of_state = [&](void (*change)(ModelState&)) {
      ModelProgram other = model;
      change(other.states[0]);
      return error_of(decode_model(encode_model(other), "net.esmodel"));
    };
    CHECK(error_of_state([](ModelState& s) {
            s.name = "\n";
          }).starts_with("net.esmodel: states[0].name is not as it must be"));
    CHECK(error_of_state([](ModelState& s) {
            s.dtype = std::string(4097, 'F');
          }).starts_with("net.esmodel: states[0].dtype is not as it must be"));
  }

  TEST_CASE("JSON may leave out what has its default, and 64-bit integers may be numbers") {
    const auto read = model_from_json(
        R"({"format": 1, "loss": 0, "values": [{}],
            "nodes": [{"kind": "sum", "inputs": [0], "outputs": [1],
                       "attributes": [{"name": "axes", "integers": [0, "1"]}]}]})",
        "net.json");
    REQUIRE(read.ok());
    CHECK(read->values == std::vector<ModelValue>(1));
    CHECK(read->nodes[0].version == 1);
    CHECK(read->nodes[0].attributes[0].value ==
          decltype(ModelAttribute::value)(std::vector<std::int64_t>{0, 1}));
  }

  TEST_CASE("JSON with an unknown field, of another type or cut off is refused") {
    for (const char* text : {R"({"format": 1, "colour": 2})", R"({"format": "one"})",
                             R"({"format": 1)", R"([1])", "", R"({"values": [{"type": "f64"}]})"})
      CHECK(error_of(model_from_json(text, "net.json")).starts_with("net.json: "));
  }

  TEST_CASE("a file is written as a whole and not over another one") {
    test::TempDirectory directory;
    const auto file = directory / "net.esmodel";
    REQUIRE(write_model_file(posix_file_system(), file, full_model()).ok());
    const auto read = read_model_file(file);
    REQUIRE(read.ok());
    CHECK(*read == full_model());
    const Status again = write_model_file(posix_file_system(), file, full_model());
    REQUIRE(!again.ok());
    CHECK(again.error().kind == ErrorKind::kRefused);
    CHECK(read_model_file(directory / "none").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("every beginning of a file is refused with the name of the file") {
    const std::string bytes = encode_model(small_model());
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK(error_of(decode_model(bytes.substr(0, size), "net.esmodel"))
                .starts_with("net.esmodel: "));
    CHECK(error_of(decode_model(bytes + std::string(8, '\0'), "net.esmodel")) ==
          "net.esmodel: its message is followed by other bytes: allowed is a model file, as "
          "`esctl models pack` writes it");
  }

  TEST_CASE("integers of 64 bits are kept, and decide the digest") {
    ModelProgram model = small_model();
    model.values.push_back({.type = ValueType::kI64, .dims = {}});
    model.constants.push_back({.name = "k", .value = 9, .words = {1, 2}});
    model.format = kModelFormatWithLongs;
    const Result<ModelProgram> read = decode_model(encode_model(model), "net.esmodel");
    REQUIRE(read.ok());
    CHECK(*read == model);
    ModelProgram other = model;
    other.values.back().type = ValueType::kI32;
    CHECK(model_digest(other) != model_digest(model));
  }

  TEST_CASE("an optimizer is written, read and a part of the digest; without one nothing is") {
    const ModelProgram model = with_updates(small_model());
    const auto read = decode_model(encode_model(model), "net.esmodel");
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
    CHECK(*read == model);
    CHECK(model_to_json(small_model()).find("updates") == std::string::npos);
    const auto changed = [&](void (*change)(ModelProgram&)) {
      ModelProgram other = model;
      change(other);
      return model_digest(other) != model_digest(model);
    };
    CHECK(changed([](ModelProgram& m) { m.numbers[0].values[2] = 1.0F; }));
    CHECK(changed([](ModelProgram& m) { m.updates[0].phases[1].first_step = 1; }));
    CHECK(changed([](ModelProgram& m) { m.updates[0].phases[1].program = 0; }));
    CHECK(changed([](ModelProgram& m) { m.updates[0].programs[1].nodes[1].kind = "add"; }));
    CHECK(changed([](ModelProgram& m) { m.updates[1].parameters[0] = "fc.weight"; }));
  }

  TEST_CASE("further programs are written, read and a part of the digest; without any nothing is") {
    const ModelProgram model = with_losses(with_updates(with_state(small_model())));
    const auto read = decode_model(encode_model(model), "net.esmodel");
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
    CHECK(*read == model);
    CHECK(model_to_json(small_model()).find("programs") == std::string::npos);
    const auto changed = [&](void (*change)(ModelProgram&)) {
      ModelProgram other = model;
      change(other);
      return model_digest(other) != model_digest(model);
    };
    CHECK(changed([](ModelProgram& m) { m.every[1] = 2; }));
    CHECK(changed([](ModelProgram& m) { m.every.clear(); }));
    CHECK(changed([](ModelProgram& m) { m.programs[0].parameters[1].trainable = false; }));
    CHECK(changed([](ModelProgram& m) { m.programs[0].nodes[1].kind = "add"; }));
    CHECK(changed([](ModelProgram& m) { m.programs.push_back(m.programs[0]); }));
  }

  TEST_CASE("a newer format is refused with what to do") {
    CHECK(error_with([](ModelProgram& m) { m.format = 7; }) ==
          "net.esmodel: format is 7: allowed is at most 6; the file was written for a newer "
          "version of EasyScale: install that version, or write the file with the one that is "
          "installed");
    CHECK(error_with([](ModelProgram& m) { m.format = 0; }) ==
          "net.esmodel: format is 0: allowed is 1 to 6");
  }

  TEST_CASE("an error names the field and repeats no text") {
    CHECK(error_with([](ModelProgram& m) { m.nodes[3].attributes[2].name = "bad\n"; }) ==
          "net.esmodel: nodes[3].attributes[2].name is not as it must be: allowed is UTF-8 text "
          "without control characters, at most 4096 bytes");
    CHECK(error_with([](ModelProgram& m) {
            m.parameters[0].aliases[0] = std::string(4097, 'a');
          }).starts_with("net.esmodel: parameters[0].aliases[0].name is not as it must be"));
    CHECK(error_with([](ModelProgram& m) { m.values[2].dims.resize(9); }) ==
          "net.esmodel: values[2].dims is a list of 9: allowed are at most 8");
  }

  TEST_CASE("the digest depends on the model, but not on its producer, source and regions") {
    const Digest digest = model_digest(full_model());
    ModelProgram model = full_model();
    model.producer = "another";
    for (ModelNode& node : model.nodes) {
      node.source = "elsewhere.py:1";
      node.region = 7;
    }
    CHECK(model_digest(model) == digest);
    const auto changed = [&](void (*change)(ModelProgram&)) {
      ModelProgram other = full_model();
      change(other);
      return model_digest(other) != digest;
    };
    CHECK(changed([](ModelProgram& m) { m.values[0].dims[1].per_batch = true; }));
    CHECK(changed([](ModelProgram& m) { m.inputs[1].high = 3; }));
    CHECK(changed([](ModelProgram& m) { m.parameters[0].aliases.clear(); }));
    CHECK(changed([](ModelProgram& m) { m.parameters[0].trainable = false; }));
    CHECK(changed([](ModelProgram& m) { m.parameters[1].init.reset(); }));
    CHECK(changed([](ModelProgram& m) { m.parameters[1].init->bound = 0.5F; }));
    CHECK(changed([](ModelProgram& m) { m.parameters[1].init->constant = 0.5F; }));
    CHECK(changed([](ModelProgram& m) { std::swap(m.parameters[0].init, m.parameters[1].init); }));
    CHECK(changed([](ModelProgram& m) { m.statistics[0].is_variance = true; }));
    CHECK(changed([](ModelProgram& m) { m.buffers[0].bytes[0] = 8; }));
    CHECK(changed([](ModelProgram& m) { m.constants[0].words[3] = 0; }));
    CHECK(changed([](ModelProgram& m) { m.nodes[2].version = 2; }));
    CHECK(changed([](ModelProgram& m) { m.nodes[3].attributes[1].value = 0.5; }));
    CHECK(changed([](ModelProgram& m) { m.outputs[0].name = "scores"; }));
  }

  TEST_CASE("a model without initial values keeps the digest that it had before there were any") {
    CHECK(model_digest(small_model()).hex() == "886e380600403efcbda0896fef8a5651");
  }
}

}  // namespace es::store
