#include "store/safetensors/header.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "store/json_depth.h"

namespace es::store {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 62;
constexpr int kDepthMax = 3;  // levels: header, tensor, list of offsets

struct Type {
  const char* name;
  std::uint64_t bytes;
};
constexpr Type kTypes[] = {{"F32", 4}, {"F64", 8}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                           {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                           {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

// Parses the header. The result is discarded if the text is not JSON, is too deep, or has a name
// twice.
Json parse_strictly(std::string_view text) {
  if (json_depth(text) > kDepthMax) return Json(Json::value_t::discarded);
  bool good = true;
  std::set<std::string> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    // The parser keeps one of two equal names without an error. Another program may keep the other
    // one, so such a file is refused.
    if (event == Json::parse_event_t::key && depth == 1)
      good = good && names.insert(parsed.get<std::string>()).second;
    return good;
  };
  Json json = Json::parse(text.begin(), text.end(), check, false);
  return good ? json : Json(Json::value_t::discarded);
}

std::string tensor_place(std::size_t number) {
  return "tensor number " + std::to_string(number) + " of its header";
}

bool read_numbers(const Json& list, std::vector<std::uint64_t>& out) {
  if (!list.is_array()) return false;
  for (const Json& item : list) {
    if (!item.is_number_unsigned()) return false;
    out.push_back(item.get<std::uint64_t>());
  }
  return true;
}

// `number` counts the tensors of the header from 1. Errors name the number, because they must not
// repeat content of a file.
Result<TensorInfo> read_tensor(const std::string& name, std::size_t number, const Json& json) {
  const auto bad = [&](const std::string& allowed) {
    return usage_error(tensor_place(number) + ": allowed is " + allowed);
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets") || !json["dtype"].is_string())
    return bad("an object of dtype, shape and data_offsets");
  TensorInfo tensor{.name = name, .dtype = json["dtype"].get<std::string>(), .shape = {}};
  std::vector<std::uint64_t> offsets;
  if (!read_numbers(json["shape"], tensor.shape)) return bad("a shape of whole numbers");
  if (!read_numbers(json["data_offsets"], offsets) || offsets.size() != 2)
    return bad("two data_offsets");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const Result<std::uint64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes) return bad("a dtype of safetensors, and a shape of at most 2^62 bytes");
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
    return bad("data_offsets as far apart as its dtype and shape say");
  return tensor;
}

Status read_metadata(const Json& json, Metadata& out) {
  if (!json.is_object()) return usage_error("__metadata__: allowed is an object of texts");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return usage_error("__metadata__: allowed is an object of texts");
    out[key] = value.get<std::string>();
  }
  return {};
}

// Checks that the arrays are ascending, without overlap and without unused bytes between them.
Status check_layout(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].begin != at)
      return usage_error("tensor number " + std::to_string(i + 1) +
                         " of its data: allowed are data_offsets that begin where those of the one "
                         "before end");
    at = tensors[i].end;
  }
  if (at == data_bytes) return {};
  return usage_error("data of " + std::to_string(data_bytes) +
                     " bytes: allowed are as many as the tensors say");
}

}  // namespace

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t d : shape) text += (text.size() == 1 ? "" : ",") + std::to_string(d);
  return text + "]";
}

Result<std::uint64_t> tensor_bytes(std::string_view dtype, std::span<const std::uint64_t> shape) {
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const Type& t) { return dtype == t.name; });
  if (type == std::end(kTypes))
    return usage_error("dtype = \"" + std::string(dtype) + "\": allowed is one of safetensors'");
  std::uint64_t bytes = type->bytes;
  for (const std::uint64_t d : shape) {
    // A division, because the product could overflow. A dimension of 0 makes an empty tensor,
    // whatever the others are.
    if (d != 0 && bytes > kBytesMax / d)
      return usage_error("shape = " + shape_text(shape) + ": allowed are 2^62 bytes");
    bytes *= d;
  }
  return bytes;
}

Result<SafetensorsHeader> decode_header(std::string_view text, std::uint64_t data_bytes,
                                        const std::string& where) {
  const auto at = [&](const Error& error) { return usage_error(where + ": " + error.message); };
  const Json json = parse_strictly(text);
  if (!json.is_object())
    return usage_error(where +
                       ": allowed is a safetensors header, a JSON object without a name twice");
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      if (const Status read = read_metadata(value, header.metadata); !read.ok())
        return at(read.error());
      continue;
    }
    Result<TensorInfo> tensor = read_tensor(name, header.tensors.size() + 1, value);
    if (!tensor) return at(tensor.error());
    header.tensors.push_back(*std::move(tensor));
  }
  // The offsets decide the order of the data; the names in the header may have any order. Empty
  // tensors begin where the next one does, so the end decides between them.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  if (const Status layout = check_layout(header.tensors, data_bytes); !layout.ok())
    return at(layout.error());
  return header;
}

std::string encode_header(const SafetensorsHeader& header) {
  constexpr std::size_t kAlignment = 8;
  Json json = Json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const TensorInfo& t : header.tensors)
    json[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Spaces make the data begin at a multiple of 8, so that a reader can use it in place.
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace es::store
