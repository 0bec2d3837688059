#include "actors/worker/state/initial_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "gpu/import/adapters.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMean = ".running_mean";
constexpr const char* kTracked = ".num_batches_tracked";

// Returns "bn1.num_batches_tracked" for "bn1.running_mean"; empty for other statistics and states.
std::string tracked_name(const gpu::StatInfo& stat) {
  if (stat.is_state() || !stat.name.ends_with(kMean)) return {};
  return stat.name.substr(0, stat.name.size() - std::strlen(kMean)) + kTracked;
}

std::vector<std::uint64_t> unsigned_shape(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

// The properties that a tensor of the file must have.
struct Expected {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
};

// Returns a tensor of the file, which must contain it.
Result<const store::TensorInfo*> check_tensor(const store::SafetensorsFile& file,
                                              const std::string& where, const Expected& expected) {
  const store::TensorInfo* found = file.find(expected.name);
  const std::string tensor = where + ": tensor \"" + expected.name + "\"";
  if (found == nullptr) return usage_error(tensor + " is missing: the model has it");
  if (found->dtype != expected.dtype)
    return usage_error(tensor + ": dtype = " + found->dtype + ": allowed is " + expected.dtype);
  if (found->shape != expected.shape)
    return usage_error(tensor + ": shape = " + store::shape_text(found->shape) + ": allowed is " +
                       store::shape_text(expected.shape));
  return found;
}

template <class T>
Result<std::vector<T>> read_values(const store::SafetensorsFile& file,
                                   const store::TensorInfo& tensor) {
  const auto bytes = file.read(tensor);
  if (!bytes) return bytes.error();
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

Error wrong_value(const std::string& where, const std::string& name, std::size_t index,
                  double value, const std::string& allowed) {
  return usage_error(where + ": tensor \"" + name + "\": element " + std::to_string(index) + " = " +
                     number_text(value) + ": allowed is " + allowed);
}

// Checks a parameter or a statistic: finite, and no variance below 0.
Status check_numbers(const store::SafetensorsFile& file, const std::string& where,
                     const std::string& name, const std::vector<std::uint64_t>& shape,
                     bool is_variance) {
  const auto tensor = check_tensor(file, where, {name, "F32", shape});
  if (!tensor) return tensor.error();
  const auto values = read_values<float>(file, **tensor);
  if (!values) return values.error();
  const auto wrong = std::ranges::find_if(
      *values, [&](float v) { return !std::isfinite(v) || (is_variance && v < 0.0F); });
  if (wrong == values->end()) return {};
  return wrong_value(where, name, static_cast<std::size_t>(wrong - values->begin()), *wrong,
                     is_variance ? "a finite number of at least 0" : "a finite number");
}

// Calls with(T()) with the type of the elements of a state that are no fp32 numbers.
template <class With>
auto with_element(const std::string& dtype, With&& with) {
  if (dtype == "I64") return with(std::int64_t());
  if (dtype == "I32") return with(std::int32_t());
  if (dtype == "I16") return with(std::int16_t());
  if (dtype == "I8") return with(std::int8_t());
  return with(std::uint8_t());  // U8 and BOOL
}

// Checks a state: finite numbers, or integers or truth values that the engine can keep.
Status check_initial_state(const store::SafetensorsFile& file, const std::string& where,
                           const gpu::StatInfo& state) {
  const std::vector<std::uint64_t> shape = unsigned_shape(state.torch_shape);
  if (state.dtype == "F32") return check_numbers(file, where, state.name, shape, false);
  const auto tensor = check_tensor(file, where, {state.name, state.dtype, shape});
  if (!tensor) return tensor.error();
  const bool truths = state.dtype == "BOOL";
  const std::int64_t low = truths ? 0 : std::numeric_limits<std::int32_t>::min();
  const std::int64_t high = truths ? 1 : std::numeric_limits<std::int32_t>::max();
  return with_element(state.dtype, [&](auto element) -> Status {
    const auto values = read_values<decltype(element)>(file, **tensor);
    if (!values) return values.error();
    for (std::size_t i = 0; i < values->size(); ++i)
      if ((*values)[i] < low || (*values)[i] > high)
        return wrong_value(where, state.name, i, static_cast<double>((*values)[i]),
                           std::to_string(low) + " to " + std::to_string(high));
    return {};
  });
}

// The words of a state of the file, which check_initial_state() has accepted.
Result<std::vector<float>> read_state(const store::SafetensorsFile& file,
                                      const store::TensorInfo& tensor, const gpu::StatInfo& state) {
  if (state.dtype == "F32") return read_values<float>(file, tensor);
  return with_element(state.dtype, [&](auto element) -> Result<std::vector<float>> {
    const auto values = read_values<decltype(element)>(file, tensor);
    if (!values) return values.error();
    std::vector<float> words;
    words.reserve(values->size());
    for (const auto value : *values)
      words.push_back(state.has_integers() ? std::bit_cast<float>(static_cast<std::int32_t>(value))
                                           : static_cast<float>(value));
    return words;
  });
}

// The bytes of a state in its type of the state dict. A number that does not fit the type wraps.
std::vector<std::byte> state_bytes(const gpu::StatInfo& state, const std::vector<float>& words) {
  return with_element(state.dtype, [&](auto element) {
    std::vector<std::byte> bytes(words.size() * sizeof element);
    for (std::size_t i = 0; i < words.size(); ++i) {
      element = static_cast<decltype(element)>(state.has_integers()
                                                   ? std::bit_cast<std::int32_t>(words[i])
                                                   : static_cast<std::int32_t>(words[i] != 0.0F));
      std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
    }
    return bytes;
  });
}

template <class T>
Status check_buffer_values(const store::SafetensorsFile& file, const std::string& where,
                           const store::TensorInfo& tensor, const gpu::BufferInfo& buffer) {
  const auto values = read_values<T>(file, tensor);
  if (!values) return values.error();
  for (std::size_t i = 0; i < values->size(); ++i)
    if ((*values)[i] != static_cast<T>(buffer.values[i]))
      return wrong_value(where, buffer.name, i, static_cast<double>((*values)[i]),
                         number_text(buffer.values[i]) + ", which follows from the model");
  return {};
}

Status check_buffer_bytes(const store::SafetensorsFile& file, const std::string& where,
                          const store::TensorInfo& tensor, const gpu::BufferInfo& buffer) {
  const auto bytes = file.read(tensor);
  if (!bytes) return bytes.error();
  if (*bytes == buffer.bytes) return {};
  return usage_error(where + ": tensor \"" + buffer.name +
                     "\" has other values: allowed are those of model.file");
}

// A buffer is optional. If the file has it, its values must be those that follow from the model.
Status check_buffer(const store::SafetensorsFile& file, const std::string& where,
                    const gpu::BufferInfo& buffer) {
  if (file.find(buffer.name) == nullptr) return {};
  const auto tensor =
      check_tensor(file, where, {buffer.name, buffer.dtype, unsigned_shape(buffer.torch_shape)});
  if (!tensor) return tensor.error();
  if (!buffer.bytes.empty()) return check_buffer_bytes(file, where, **tensor, buffer);
  if (buffer.dtype == "I64")
    return check_buffer_values<std::int64_t>(file, where, **tensor, buffer);
  return check_buffer_values<float>(file, where, **tensor, buffer);
}

// The other name of a tied parameter is optional. If the file has it, its values are the same.
Status check_alias(const store::SafetensorsFile& file, const std::string& where,
                   const gpu::AliasInfo& alias, const gpu::ParamInfo& param) {
  if (file.find(alias.name) == nullptr) return {};
  const auto tensor =
      check_tensor(file, where, {alias.name, "F32", unsigned_shape(param.torch_shape)});
  if (!tensor) return tensor.error();
  const auto values = file.read(**tensor);
  if (!values) return values.error();
  // The parameters were checked before the aliases, so the file has this one.
  const auto same = file.read(*file.find(param.name));
  if (!same) return same.error();
  if (*values == *same) return {};
  return usage_error(where + ": tensor \"" + alias.name +
                     "\" has other values: allowed are those of \"" + param.name +
                     "\", with which the model ties it");
}

// Whether a parameter begins with a value of its own, which no file of weights has.
bool is_own(const gpu::ParamInfo& param, const LoraSpec& lora) {
  return lora.rank != 0 && gpu::is_adapter(param.name);
}

bool has_optimizer(const store::SafetensorsFile& file) {
  return std::ranges::any_of(file.tensors(), [](const store::TensorInfo& tensor) {
    return tensor.name.starts_with(kOptimizerPrefix);
  });
}

std::string initial_name(const gpu::ParamTable& table, const gpu::ParamState& state) {
  return std::string(kOptimizerPrefix) + state_name(table, state);
}

Status check_tensors(const store::SafetensorsFile& file, const std::string& where,
                     const gpu::ParamTable& table, const LoraSpec& lora,
                     std::span<const gpu::ParamState> states) {
  std::set<std::string> known;
  if (has_optimizer(file))
    for (const gpu::ParamState& state : states) {
      const std::string name = initial_name(table, state);
      ES_RETURN_IF_ERROR(check_numbers(file, where, name, unsigned_shape(state.shape), false));
      known.insert(name);
    }
  for (const gpu::ParamInfo& p : table.params()) {
    if (is_own(p, lora)) continue;
    ES_RETURN_IF_ERROR(check_numbers(file, where, p.name, unsigned_shape(p.torch_shape), false));
    known.insert(p.name);
  }
  for (const gpu::StatInfo& s : table.stats()) {
    ES_RETURN_IF_ERROR(s.is_state() ? check_initial_state(file, where, s)
                                    : check_numbers(file, where, s.name,
                                                    unsigned_shape(s.torch_shape), s.is_variance));
    known.insert(s.name);
    const std::string tracked = tracked_name(s);
    if (tracked.empty()) continue;
    known.insert(tracked);
    if (file.find(tracked) == nullptr) continue;
    const auto tensor = check_tensor(file, where, {tracked, "I64", {}});
    if (!tensor) return tensor.error();
  }
  for (const gpu::BufferInfo& buffer : table.buffers()) {
    ES_RETURN_IF_ERROR(check_buffer(file, where, buffer));
    known.insert(buffer.name);
  }
  for (const gpu::AliasInfo& alias : table.aliases()) {
    ES_RETURN_IF_ERROR(check_alias(file, where, alias, table[alias.param]));
    known.insert(alias.name);
  }
  // The error does not repeat names that the model does not have, because the client may have no
  // right to read the file.
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    if (!known.contains(file.tensors()[i].name))
      return usage_error(where + ": tensor number " + std::to_string(i + 1) +
                         " of its data: allowed are the tensors of the model, which has none of "
                         "that name");
  return {};
}

// Reads parameters, statistics and states. The other tensors were checked and are not needed.
Result<std::vector<gpu::NamedTensor>> read_tensors(const store::SafetensorsFile& file,
                                                   const gpu::ParamTable& table) {
  std::set<std::string> left_out;
  for (const gpu::BufferInfo& buffer : table.buffers()) left_out.insert(buffer.name);
  for (const gpu::AliasInfo& alias : table.aliases()) left_out.insert(alias.name);
  std::map<std::string, const gpu::StatInfo*> states;
  for (const gpu::StatInfo& stat : table.stats()) {
    if (stat.is_state()) states[stat.name] = &stat;
    left_out.insert(tracked_name(stat));
  }
  std::vector<gpu::NamedTensor> tensors;
  for (const store::TensorInfo& info : file.tensors()) {
    if (left_out.contains(info.name) || info.name.starts_with(kOptimizerPrefix)) continue;
    const auto state = states.find(info.name);
    auto values = state == states.end() ? read_values<float>(file, info)
                                        : read_state(file, info, *state->second);
    if (!values) return values.error();
    tensors.push_back({info.name, {info.shape.begin(), info.shape.end()}, *std::move(values)});
  }
  return tensors;
}

// Returns the values in the buffer's type.
std::vector<std::byte> buffer_bytes(const gpu::BufferInfo& buffer) {
  if (!buffer.bytes.empty()) return buffer.bytes;
  std::vector<std::byte> bytes;
  const auto put = [&](auto value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  };
  for (const double value : buffer.values) {
    if (buffer.dtype == "I64")
      put(static_cast<std::int64_t>(value));
    else
      put(static_cast<float>(value));
  }
  return bytes;
}

Result<Digest> check_opened_weights(const store::SafetensorsFile& file, const std::string& where,
                                    const gpu::ParamTable& table, const LoraSpec& lora,
                                    std::span<const gpu::ParamState> states) {
  ES_RETURN_IF_ERROR(check_tensors(file, where, table, lora, states));
  return file.digest();
}

// Gives the optimizer the states of the file, if it has some, as far as the engine holds them.
Status read_states(const store::SafetensorsFile& file, const gpu::Engine& engine,
                   gpu::Replica& replica) {
  if (!has_optimizer(file)) return {};
  for (const gpu::ParamState& state : engine.optimizer_states()) {
    const gpu::ParamInfo& param = engine.table()[state.param];
    if (!engine.holds(gpu::bucket_of(engine.buckets(), param))) continue;
    const auto values = read_values<float>(file, *file.find(initial_name(engine.table(), state)));
    if (!values) return values.error();
    state.set(engine.table(), values->data(), replica.moments);
  }
  return {};
}

}  // namespace

Result<Digest> check_weights(const fs::path& file, const gpu::ParamTable& table,
                             const LoraSpec& lora, std::span<const gpu::ParamState> states) {
  const auto opened = store::SafetensorsFile::open(file);
  if (!opened) return opened.error();
  return check_opened_weights(*opened, file.string(), table, lora, states);
}

std::string state_name(const gpu::ParamTable& table, const gpu::ParamState& state) {
  return state.name + "." + table[state.param].name;
}

Status load_initial_weights(gpu::Engine& engine, const JobSpec& spec) {
  const ModelSpec& model = spec.model;
  if (model.weights.empty()) return {};
  // The same open file is checked and read, so no other one can come in between.
  const auto file = store::SafetensorsFile::open(model.weights);
  if (!file) return file.error();
  const auto digest = check_opened_weights(*file, model.weights, engine.table(), spec.lora,
                                           engine.optimizer_states());
  if (!digest) return digest.error();
  if (digest->hex() != model.weights_digest)
    return usage_error(model.weights + ": digest = " + digest->hex() + ": allowed is " +
                       model.weights_digest + ", which it had when the job was admitted");
  auto tensors = read_tensors(*file, engine.table());
  if (!tensors) return tensors.error();
  gpu::Replica replica = engine.replica();
  for (const gpu::ParamInfo& param : engine.table().params())
    if (is_own(param, spec.lora))
      tensors->push_back(exported(param, replica.params.data(), param.name));
  // Every EST begins with the statistics of the file. The parameters are written once for each EST,
  // with the same values.
  for (gpu::EstContext& context : replica.contexts)
    ES_RETURN_IF_ERROR(
        gpu::import_state(engine.table(), *tensors, replica.params.data(), context.stats.data()));
  ES_RETURN_IF_ERROR(read_states(*file, engine, replica));
  return engine.install(std::move(replica));
}

gpu::NamedTensor exported(const gpu::ParamInfo& param, const float* flat, const std::string& name) {
  gpu::NamedTensor tensor{name, param.torch_shape, {}};
  tensor.values.resize(static_cast<std::size_t>(param.count));
  gpu::to_pytorch(param, flat + param.offset, tensor.values.data());
  return tensor;
}

store::TensorData tensor_data(const gpu::NamedTensor& tensor) {
  return {tensor.name, "F32", unsigned_shape(tensor.shape),
          std::as_bytes(std::span(tensor.values))};
}

StateDict::StateDict(const gpu::ParamTable& table, const float* flat, const float* stats,
                     std::uint64_t version)
    : values_(gpu::export_state(table, flat, stats)), version_(static_cast<std::int64_t>(version)) {
  // export_state() returns the parameters first and in the order of their ids, then the statistics.
  const std::size_t params = table.params().size();
  for (std::size_t i = 0; i < params; ++i) tensors_.push_back(tensor_data(values_[i]));
  for (std::size_t i = 0; i < table.stats().size(); ++i) {
    const gpu::StatInfo& stat = table.stats()[i];
    tensors_.push_back(tensor_data(values_[params + i]));
    if (stat.is_state() && stat.dtype != "F32") {
      // tensors_ refers to these bytes. They stay in place when buffers_ grows, because only the
      // vectors that own them are moved.
      buffers_.push_back(state_bytes(stat, values_[params + i].values));
      tensors_.back().dtype = stat.dtype;
      tensors_.back().bytes = buffers_.back();
    }
    if (const std::string name = tracked_name(stat); !name.empty())
      tensors_.push_back({name, "I64", {}, std::as_bytes(std::span(&version_, 1))});
  }
  for (const gpu::AliasInfo& alias : table.aliases()) {
    tensors_.push_back(tensor_data(values_[static_cast<std::size_t>(alias.param)]));
    tensors_.back().name = alias.name;
  }
  for (const gpu::BufferInfo& buffer : table.buffers()) {
    if (!buffer.current) continue;
    buffers_.push_back(buffer_bytes(buffer));
    tensors_.push_back(
        {buffer.name, buffer.dtype, unsigned_shape(buffer.torch_shape), buffers_.back()});
  }
}

std::vector<gpu::NamedTensor> optimizer_tensors(const gpu::ParamTable& table, const float* flat,
                                                const std::string& prefix) {
  std::vector<gpu::NamedTensor> tensors;
  for (const gpu::ParamInfo& p : table.trained())
    tensors.push_back(exported(p, flat, prefix + "." + p.name));
  return tensors;
}

}  // namespace es::actors
