#include "actors/common/initial_weights.h"

#include <cstring>
#include <fstream>
#include <set>

namespace es::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMean = ".running_mean";
constexpr const char* kTracked = ".num_batches_tracked";

// "bn1.num_batches_tracked" of "bn1.running_mean"; empty for other statistics.
std::string tracked_name(const std::string& stat) {
  if (!stat.ends_with(kMean)) return {};
  return stat.substr(0, stat.size() - std::strlen(kMean)) + kTracked;
}

std::vector<std::uint64_t> unsigned_shape(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

Result<Digest> file_digest(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  DigestBuilder digest;
  std::vector<char> block(std::size_t{1} << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    digest.add(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof()) return not_found(file.string() + ": no such file, or it cannot be read");
  return digest.finish();
}

Status check_tensor(const store::SafetensorsFile& file, const std::string& where,
                    const std::string& name, const std::vector<std::uint64_t>& shape) {
  const store::TensorInfo* found = file.find(name);
  const std::string tensor = where + ": tensor \"" + name + "\"";
  if (found == nullptr) return usage_error(tensor + " is missing: the model has it");
  if (found->dtype != "F32")
    return usage_error(tensor + ": dtype = " + found->dtype + ": allowed is F32");
  if (found->shape != shape)
    return usage_error(tensor + ": shape = " + store::shape_text(found->shape) + ": allowed is " +
                       store::shape_text(shape));
  return {};
}

Status check_tensors(const store::SafetensorsFile& file, const std::string& where,
                     const gpu::ParamTable& table) {
  std::set<std::string> known;
  for (const gpu::ParamInfo& p : table.params()) {
    ES_RETURN_IF_ERROR(check_tensor(file, where, p.name, unsigned_shape(p.torch_shape)));
    known.insert(p.name);
  }
  for (const gpu::StatInfo& s : table.stats()) {
    ES_RETURN_IF_ERROR(check_tensor(file, where, s.name, {static_cast<std::uint64_t>(s.count)}));
    known.insert({s.name, tracked_name(s.name)});
  }
  for (const store::TensorInfo& tensor : file.tensors())
    if (!known.contains(tensor.name))
      return usage_error(where + ": tensor \"" + tensor.name +
                         "\": allowed are the tensors of the model, which has none of that name");
  return {};
}

Result<std::vector<gpu::NamedTensor>> read_tensors(const store::SafetensorsFile& file) {
  std::vector<gpu::NamedTensor> tensors;
  for (const store::TensorInfo& info : file.tensors()) {
    if (info.name.ends_with(kTracked)) continue;
    const auto bytes = file.read(info);
    if (!bytes) return bytes.error();
    gpu::NamedTensor tensor{info.name, {info.shape.begin(), info.shape.end()}, {}};
    tensor.values.resize(bytes->size() / sizeof(float));
    std::memcpy(tensor.values.data(), bytes->data(), bytes->size());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

Result<Digest> check_weights(const fs::path& file, const gpu::ParamTable& table) {
  const auto opened = store::SafetensorsFile::open(file);
  if (!opened) return opened.error();
  ES_RETURN_IF_ERROR(check_tensors(*opened, file.string(), table));
  return file_digest(file);
}

Status load_initial_weights(gpu::Engine& engine, const ModelSpec& model) {
  if (model.weights.empty()) return {};
  const auto digest = check_weights(model.weights, engine.table());
  if (!digest) return digest.error();
  if (digest->hex() != model.weights_digest)
    return usage_error(model.weights + ": digest = " + digest->hex() + ": allowed is " +
                       model.weights_digest + ", which it had when the job was admitted");
  const auto file = store::SafetensorsFile::open(model.weights);
  if (!file) return file.error();
  const auto tensors = read_tensors(*file);
  if (!tensors) return tensors.error();
  gpu::Replica replica = engine.replica();
  for (gpu::EstContext& context : replica.contexts)
    ES_RETURN_IF_ERROR(
        gpu::import_state(engine.table(), *tensors, replica.params.data(), context.stats.data()));
  return engine.install(std::move(replica));
}

store::TensorData tensor_data(const gpu::NamedTensor& tensor) {
  return {tensor.name, "F32", unsigned_shape(tensor.shape),
          std::as_bytes(std::span(tensor.values))};
}

StateDict::StateDict(const gpu::ParamTable& table, const float* flat, const float* stats,
                     std::uint64_t version)
    : values_(gpu::export_state(table, flat, stats)), version_(static_cast<std::int64_t>(version)) {
  for (const gpu::NamedTensor& tensor : values_) {
    tensors_.push_back(tensor_data(tensor));
    if (const std::string name = tracked_name(tensor.name); !name.empty())
      tensors_.push_back({name, "I64", {}, std::as_bytes(std::span(&version_, 1))});
  }
}

std::vector<gpu::NamedTensor> optimizer_tensors(const gpu::ParamTable& table, const float* flat,
                                                const std::string& prefix) {
  std::vector<gpu::NamedTensor> tensors;
  for (const gpu::ParamInfo& p : table.params()) {
    gpu::NamedTensor tensor{prefix + "." + p.name, p.torch_shape, {}};
    tensor.values.resize(static_cast<std::size_t>(p.count));
    gpu::to_pytorch(p, flat + p.offset, tensor.values.data());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace es::actors
