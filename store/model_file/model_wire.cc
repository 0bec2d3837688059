#include "store/model_file/model_wire.h"

#include <kj/exception.h>

#include <cstring>
#include <stdexcept>

#include "proto/base/text.h"
#include "store/model_file/model_file.h"

namespace es::store {
namespace {

// A field that is not as it must be; the message says what is allowed.
struct WrongField : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads a message and remembers the field that it is about to read, for errors.
class ModelMessage {
 public:
  ModelProgram read(wire::Model::Reader model) {
    ModelProgram program;
    at("format");
    program.format = model.getFormat();
    check_format(program.format);
    program.producer = text("producer", model.getProducer());
    program.name = text("name", model.getName());
    list(
        "values", [&] { return model.getValues(); }, program.values);
    list(
        "inputs", [&] { return model.getInputs(); }, program.inputs);
    list(
        "parameters", [&] { return model.getParameters(); }, program.parameters);
    list(
        "statistics", [&] { return model.getStatistics(); }, program.statistics);
    list(
        "buffers", [&] { return model.getBuffers(); }, program.buffers);
    list(
        "constants", [&] { return model.getConstants(); }, program.constants);
    list(
        "nodes", [&] { return model.getNodes(); }, program.nodes);
    program.loss = model.getLoss();
    list(
        "outputs", [&] { return model.getOutputs(); }, program.outputs);
    list(
        "states", [&] { return model.getStates(); }, program.states);
    list(
        "numbers", [&] { return model.getNumbers(); }, program.numbers);
    list(
        "updates", [&] { return model.getUpdates(); }, program.updates);
    list(
        "programs", [&] { return model.getPrograms(); }, program.programs);
    numbers(
        "every", [&] { return model.getEvery(); }, program.every);
    return program;
  }

  std::string place() const { return element_.empty() ? field_ : element_ + "." + field_; }

 private:
  static void check_format(std::uint32_t format) {
    constexpr std::uint32_t kNewest = kModelFormatWithReductions;
    if (format == 0) throw WrongField("0: allowed is 1 to " + std::to_string(kNewest));
    if (format > kNewest)
      throw WrongField(std::to_string(format) + ": allowed is at most " + std::to_string(kNewest) +
                       "; the file was written for a newer version of EasyScale: install that "
                       "version, or write the file with the one that is installed");
  }

  void at(const char* field) { field_ = field; }

  std::string text(const char* field, capnp::Text::Reader value) {
    at(field);
    std::string all(value.begin(), value.size());
    // Names and sources are shown in errors and logs, so control characters from a file are
    // refused.
    if (all.size() > kModelTextMax || !is_plain(all))
      throw WrongField(
          "not as it must be: allowed is UTF-8 text without control characters, at "
          "most " +
          std::to_string(kModelTextMax) + " bytes");
    return all;
  }

  // Reads a list. `get` follows the pointer to it, which may fail.
  template <class Get, class Item>
  void list(const char* field, Get get, std::vector<Item>& items) {
    at(field);
    const auto elements = get();
    items.reserve(elements.size());
    // Lists may be nested: the place of the outer element is restored after the inner list.
    const std::string outer = element_;
    const std::string prefix = (outer.empty() ? "" : outer + ".") + field + "[";
    for (const auto element : elements) {
      element_ = prefix + std::to_string(items.size()) + "]";
      items.push_back(read(element));
    }
    element_ = outer;
  }

  template <class Get, class Number>
  void numbers(const char* field, Get get, std::vector<Number>& items) {
    at(field);
    const auto elements = get();
    items.reserve(elements.size());
    for (const Number element : elements) items.push_back(element);
  }

  ModelDim read(wire::Model::Dim::Reader dim) { return {dim.getSize(), dim.getPerBatch()}; }

  ModelValue read(wire::Model::Value::Reader value) {
    ModelValue result{.type = type(value.getType()), .dims = {}};
    list(
        "dims", [&] { return value.getDims(); }, result.dims);
    if (result.dims.size() > kModelDimsMax) {
      at("dims");
      throw WrongField("a list of " + std::to_string(result.dims.size()) +
                       ": allowed are at most " + std::to_string(kModelDimsMax));
    }
    return result;
  }

  ValueType type(wire::Model::Type type) {
    at("type");
    switch (type) {
      case wire::Model::Type::F32:
        return ValueType::kF32;
      case wire::Model::Type::I32:
        return ValueType::kI32;
      case wire::Model::Type::BOOL:
        return ValueType::kBool;
      case wire::Model::Type::I64:
        return ValueType::kI64;
    }
    throw WrongField("unknown: allowed is f32, i32, bool or i64");
  }

  ModelInput read(wire::Model::Input::Reader input) {
    return {text("name", input.getName()), input.getValue(), input.getLow(), input.getHigh()};
  }

  std::string read(capnp::Text::Reader alias) { return text("name", alias); }

  ModelParameter read(wire::Model::Parameter::Reader parameter) {
    ModelParameter result{.name = text("name", parameter.getName()),
                          .aliases = {},
                          .value = parameter.getValue(),
                          .trainable = parameter.getTrainable()};
    list(
        "aliases", [&] { return parameter.getAliases(); }, result.aliases);
    at("init");
    if (parameter.hasInit()) result.init = read(parameter.getInit());
    return result;
  }

  ModelInit read(wire::Model::Init::Reader init) { return {init.getConstant(), init.getBound()}; }

  ModelStatistic read(wire::Model::Statistic::Reader statistic) {
    return {text("name", statistic.getName()), statistic.getSize(), statistic.getIsVariance()};
  }

  ModelState read(wire::Model::State::Reader state) {
    return {text("name", state.getName()), text("dtype", state.getDtype()), state.getValue()};
  }

  ModelBuffer read(wire::Model::Buffer::Reader buffer) {
    ModelBuffer result{.name = text("name", buffer.getName()),
                       .dtype = text("dtype", buffer.getDtype()),
                       .shape = {},
                       .bytes = {}};
    numbers(
        "shape", [&] { return buffer.getShape(); }, result.shape);
    at("bytes");
    const capnp::Data::Reader bytes = buffer.getBytes();
    result.bytes.assign(bytes.begin(), bytes.end());
    return result;
  }

  ModelConstant read(wire::Model::Constant::Reader constant) {
    ModelConstant result{
        .name = text("name", constant.getName()), .value = constant.getValue(), .words = {}};
    words(
        "words", [&] { return constant.getWords(); }, result.words);
    return result;
  }

  // Reads elements of 4 bytes.
  template <class Get, class Word>
  void words(const char* field, Get get, std::vector<Word>& items) {
    at(field);
    const capnp::Data::Reader bytes = get();
    if (bytes.size() % sizeof(Word) != 0)
      throw WrongField("a list of " + std::to_string(bytes.size()) +
                       " bytes: allowed are 4 bytes for each element");
    items.resize(bytes.size() / sizeof(Word));
    if (!items.empty()) std::memcpy(items.data(), bytes.begin(), bytes.size());
  }

  ModelAttribute read(wire::Model::Attribute::Reader attribute) {
    ModelAttribute result{.name = text("name", attribute.getName()), .value = {}};
    switch (attribute.which()) {
      case wire::Model::Attribute::FLAG:
        result.value = attribute.getFlag();
        return result;
      case wire::Model::Attribute::INTEGER:
        result.value = attribute.getInteger();
        return result;
      case wire::Model::Attribute::NUMBER:
        result.value = attribute.getNumber();
        return result;
      case wire::Model::Attribute::TEXT:
        result.value = text("text", attribute.getText());
        return result;
      case wire::Model::Attribute::INTEGERS:
        numbers(
            "integers", [&] { return attribute.getIntegers(); },
            result.value.emplace<std::vector<std::int64_t>>());
        return result;
      case wire::Model::Attribute::NUMBERS:
        numbers(
            "numbers", [&] { return attribute.getNumbers(); },
            result.value.emplace<std::vector<double>>());
        return result;
    }
    at("value");
    throw WrongField(
        "of an unknown type: allowed is flag, integer, number, text, integers or "
        "numbers");
  }

  ModelNode read(wire::Model::Node::Reader node) {
    ModelNode result{.kind = text("kind", node.getKind()),
                     .version = node.getVersion(),
                     .name = text("name", node.getName()),
                     .inputs = {},
                     .outputs = {},
                     .attributes = {},
                     .source = text("source", node.getSource()),
                     .region = node.getRegion()};
    numbers(
        "inputs", [&] { return node.getInputs(); }, result.inputs);
    numbers(
        "outputs", [&] { return node.getOutputs(); }, result.outputs);
    list(
        "attributes", [&] { return node.getAttributes(); }, result.attributes);
    return result;
  }

  ModelOutput read(wire::Model::Output::Reader output) {
    return {text("name", output.getName()), output.getValue()};
  }

  ModelNumbers read(wire::Model::Numbers::Reader numbers) {
    ModelNumbers result{.name = text("name", numbers.getName()), .values = {}};
    words(
        "values", [&] { return numbers.getValues(); }, result.values);
    result.reductions = numbers.getReductions();
    return result;
  }

  ModelPhase read(wire::Model::Phase::Reader phase) {
    return {phase.getFirstStep(), phase.getProgram()};
  }

  ModelUpdate read(wire::Model::Update::Reader update) {
    ModelUpdate result;
    list(
        "parameters", [&] { return update.getParameters(); }, result.parameters);
    list(
        "programs", [&] { return update.getPrograms(); }, result.programs);
    list(
        "phases", [&] { return update.getPhases(); }, result.phases);
    return result;
  }

  std::string element_;  // "nodes[3]"; empty outside of lists
  std::string field_;
};

wire::Model::Type wire_type(ValueType type) {
  switch (type) {
    case ValueType::kF32:
      return wire::Model::Type::F32;
    case ValueType::kI32:
      return wire::Model::Type::I32;
    case ValueType::kBool:
      return wire::Model::Type::BOOL;
    case ValueType::kI64:
      return wire::Model::Type::I64;
  }
  return wire::Model::Type::F32;
}

void fill(wire::Model::Dim::Builder to, const ModelDim& dim) {
  to.setSize(dim.size);
  to.setPerBatch(dim.per_batch);
}

template <class Builders, class Item>
void fill_list(Builders to, const std::vector<Item>& items);

template <class Number>
kj::ArrayPtr<const Number> numbers_of(const std::vector<Number>& numbers) {
  return kj::arrayPtr(numbers.data(), numbers.size());
}

void fill_texts(capnp::List<capnp::Text>::Builder to, const std::vector<std::string>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) to.set(i, texts[i]);
}

void fill(wire::Model::Value::Builder to, const ModelValue& value) {
  to.setType(wire_type(value.type));
  fill_list(to.initDims(value.dims.size()), value.dims);
}

void fill(wire::Model::Input::Builder to, const ModelInput& input) {
  to.setName(input.name);
  to.setValue(input.value);
  to.setLow(input.low);
  to.setHigh(input.high);
}

void fill(wire::Model::Parameter::Builder to, const ModelParameter& parameter) {
  to.setName(parameter.name);
  to.setValue(parameter.value);
  to.setTrainable(parameter.trainable);
  fill_texts(to.initAliases(parameter.aliases.size()), parameter.aliases);
  if (!parameter.init) return;
  auto init = to.initInit();
  init.setConstant(parameter.init->constant);
  init.setBound(parameter.init->bound);
}

void fill(wire::Model::Statistic::Builder to, const ModelStatistic& statistic) {
  to.setName(statistic.name);
  to.setSize(statistic.size);
  to.setIsVariance(statistic.is_variance);
}

void fill(wire::Model::State::Builder to, const ModelState& state) {
  to.setName(state.name);
  to.setDtype(state.dtype);
  to.setValue(state.value);
}

void fill(wire::Model::Buffer::Builder to, const ModelBuffer& buffer) {
  to.setName(buffer.name);
  to.setDtype(buffer.dtype);
  to.setShape(numbers_of(buffer.shape));
  to.setBytes(numbers_of(buffer.bytes));
}

void fill(wire::Model::Constant::Builder to, const ModelConstant& constant) {
  to.setName(constant.name);
  to.setValue(constant.value);
  to.setWords(numbers_of(constant.words).asBytes());
}

struct FillValue {
  wire::Model::Attribute::Builder to;
  void operator()(bool value) { to.setFlag(value); }
  void operator()(std::int64_t value) { to.setInteger(value); }
  void operator()(double value) { to.setNumber(value); }
  void operator()(const std::string& value) { to.setText(value); }
  void operator()(const std::vector<std::int64_t>& value) { to.setIntegers(numbers_of(value)); }
  void operator()(const std::vector<double>& value) { to.setNumbers(numbers_of(value)); }
};

void fill(wire::Model::Attribute::Builder to, const ModelAttribute& attribute) {
  to.setName(attribute.name);
  std::visit(FillValue{to}, attribute.value);
}

void fill(wire::Model::Node::Builder to, const ModelNode& node) {
  to.setKind(node.kind);
  to.setVersion(node.version);
  to.setName(node.name);
  to.setInputs(numbers_of(node.inputs));
  to.setOutputs(numbers_of(node.outputs));
  fill_list(to.initAttributes(node.attributes.size()), node.attributes);
  to.setSource(node.source);
  to.setRegion(node.region);
}

void fill(wire::Model::Output::Builder to, const ModelOutput& output) {
  to.setName(output.name);
  to.setValue(output.value);
}

void fill(wire::Model::Numbers::Builder to, const ModelNumbers& numbers) {
  to.setName(numbers.name);
  to.setValues(numbers_of(numbers.values).asBytes());
  to.setReductions(numbers.reductions);
}

void fill(wire::Model::Phase::Builder to, const ModelPhase& phase) {
  to.setFirstStep(phase.first_step);
  to.setProgram(phase.program);
}

void fill(wire::Model::Update::Builder to, const ModelUpdate& update) {
  fill_texts(to.initParameters(update.parameters.size()), update.parameters);
  fill_list(to.initPrograms(update.programs.size()), update.programs);
  fill_list(to.initPhases(update.phases.size()), update.phases);
}

void fill(wire::Model::Builder model, const ModelProgram& program) {
  model.setFormat(program.format);
  model.setProducer(program.producer);
  model.setName(program.name);
  fill_list(model.initValues(program.values.size()), program.values);
  fill_list(model.initInputs(program.inputs.size()), program.inputs);
  fill_list(model.initParameters(program.parameters.size()), program.parameters);
  fill_list(model.initStatistics(program.statistics.size()), program.statistics);
  fill_list(model.initBuffers(program.buffers.size()), program.buffers);
  fill_list(model.initConstants(program.constants.size()), program.constants);
  fill_list(model.initNodes(program.nodes.size()), program.nodes);
  model.setLoss(program.loss);
  fill_list(model.initOutputs(program.outputs.size()), program.outputs);
  if (!program.states.empty()) fill_list(model.initStates(program.states.size()), program.states);
  if (!program.numbers.empty())
    fill_list(model.initNumbers(program.numbers.size()), program.numbers);
  if (!program.updates.empty())
    fill_list(model.initUpdates(program.updates.size()), program.updates);
  if (!program.programs.empty())
    fill_list(model.initPrograms(program.programs.size()), program.programs);
  if (!program.every.empty()) model.setEvery(numbers_of(program.every));
}

template <class Builders, class Item>
void fill_list(Builders to, const std::vector<Item>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) fill(to[i], items[i]);
}

}  // namespace

Result<ModelProgram> program_of(wire::Model::Reader model, const std::string& where) {
  ModelMessage message;
  try {
    return message.read(model);
  } catch (const WrongField& wrong) {
    return usage_error(where + ": " + message.place() + " is " + wrong.what());
  } catch (const kj::Exception&) {
    return usage_error(where + ": " + message.place() +
                       " is damaged: allowed is what `esctl models pack` writes");
  }
}

void fill_message(wire::Model::Builder model, const ModelProgram& program) {
  fill(model, program);
}

}  // namespace es::store
