#include "store/model_file/model_digest.h"

#include <bit>
#include <span>

namespace es::store {
namespace {

// Adds every part with its length or its kind before it, so that no two programs have one form.
// Fields that the results do not depend on, such as the producer and the sources of nodes, are not
// added.
class ModelForm {
 public:
  explicit ModelForm(DigestBuilder& digest) : digest_(digest) {}

  template <class Item>
  void add(const std::vector<Item>& items) {
    digest_.add_u64(items.size());
    for (const Item& item : items) add(item);
  }
  void add(const std::string& text) { digest_.add_text(text); }
  void add(std::int64_t number) { digest_.add_u64(static_cast<std::uint64_t>(number)); }
  void add(ValueId id) { add(std::int64_t{id}); }
  void add(bool flag) { add(std::int64_t{flag}); }
  void add(double number) { digest_.add_u64(std::bit_cast<std::uint64_t>(number)); }

  void add(const ModelDim& dim) {
    add(dim.size);
    add(dim.per_batch);
  }
  void add(const ModelValue& value) {
    add(static_cast<std::int64_t>(value.type));
    add(value.dims);
  }
  void add(const ModelInput& input) {
    add(input.name);
    for (const std::int32_t number : {input.value, input.low, input.high}) add(number);
  }
  void add(const ModelParameter& parameter) {
    add(parameter.name);
    add(parameter.aliases);
    add(parameter.value);
    add(parameter.trainable);
  }
  // Initial values are added at the end, and only where there are some. So the digest of a program
  // without them is the one that it had before they existed.
  void add_inits(const std::vector<ModelParameter>& parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].init) continue;
      digest_.add_u64(i);
      add(double{parameters[i].init->constant});
      add(double{parameters[i].init->bound});
    }
  }
  void add(const ModelStatistic& statistic) {
    add(statistic.name);
    add(statistic.size);
    add(statistic.is_variance);
  }
  void add(const ModelState& state) {
    add(state.name);
    add(state.dtype);
    add(state.value);
  }
  void add(const ModelBuffer& buffer) {
    add(buffer.name);
    add(buffer.dtype);
    add(buffer.shape);
    add_bytes(std::as_bytes(std::span(buffer.bytes)));
  }
  void add(const ModelConstant& constant) {
    add(constant.name);
    add(constant.value);
    static_assert(std::endian::native == std::endian::little);
    add_bytes(std::as_bytes(std::span(constant.words)));
  }
  void add(const ModelAttribute& attribute) {
    add(attribute.name);
    // The kind of the value, so that the number 1 and the flag true differ.
    digest_.add_u64(attribute.value.index());
    std::visit([this](const auto& value) { add(value); }, attribute.value);
  }
  void add(const ModelNode& node) {
    add(node.kind);
    add(std::int64_t{node.version});
    add(node.name);
    add(node.inputs);
    add(node.outputs);
    add(node.attributes);
  }
  void add(const ModelOutput& output) {
    add(output.name);
    add(output.value);
  }
  void add(const ModelNumbers& numbers) {
    add(numbers.name);
    add_bytes(std::as_bytes(std::span(numbers.values)));
    if (numbers.reductions != 0) digest_.add_u64(numbers.reductions);
  }
  void add(const ModelPhase& phase) {
    digest_.add_u64(phase.first_step);
    digest_.add_u64(phase.program);
  }
  void add(const ModelUpdate& update) {
    add(update.parameters);
    add(update.programs);
    add(update.phases);
  }
  void add(const ModelProgram& program) {
    digest_.add_u64(program.format);
    add(program.name);
    add(program.values);
    add(program.inputs);
    add(program.parameters);
    add(program.statistics);
    add(program.buffers);
    add(program.constants);
    add(program.nodes);
    add(program.loss);
    add(program.outputs);
    add_inits(program.parameters);
    // As for initial values: a program without states, updates or further programs keeps the digest
    // that it had before.
    if (!program.states.empty()) add(program.states);
    if (program.updates.empty() && program.programs.empty()) return;
    add(program.numbers);
    add(program.updates);
    if (program.programs.empty()) return;
    add(program.programs);
    digest_.add_u64(program.every.size());
    for (const std::uint32_t every : program.every) digest_.add_u64(every);
  }

 private:
  void add_bytes(std::span<const std::byte> bytes) {
    digest_.add_u64(bytes.size());
    digest_.add(bytes);
  }

  DigestBuilder& digest_;
};

}  // namespace

Digest model_digest(const ModelProgram& program) {
  DigestBuilder digest;
  digest.add_text("EasyScale model");
  ModelForm(digest).add(program);
  return digest.finish();
}

}  // namespace es::store
