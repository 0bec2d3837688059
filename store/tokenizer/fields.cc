#include "store/tokenizer/fields.h"

#include <algorithm>

namespace es::store {
namespace {

constexpr std::size_t kShownBytesMax = 80;

std::string shown(const TokenizerJson* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list of " + std::to_string(value->size());
  const std::string text = value->dump(-1, ' ', true, TokenizerJson::error_handler_t::replace);
  return text.size() <= kShownBytesMax ? text : text.substr(0, kShownBytesMax) + "...";
}

}  // namespace

std::string quoted_list(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  return text;
}

std::string Fields::place(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const TokenizerJson* Fields::find(const char* key) const {
  const auto at = json_->find(key);
  return at == json_->end() || at->is_null() ? nullptr : &*at;
}

Error Fields::bad(const std::string& key, const std::string& allowed) const {
  return bad(key, find(key.c_str()), allowed);
}

Error Fields::bad(const std::string& at, const TokenizerJson* value,
                  const std::string& allowed) const {
  return usage_error(file_ + ": " + place(at) + " = " + shown(value) + ": allowed is " + allowed);
}

Result<std::string> Fields::text(const char* key, std::optional<std::string> missing) const {
  const TokenizerJson* const value = find(key);
  if (value == nullptr && missing) return *std::move(missing);
  if (value == nullptr || !value->is_string()) return bad(key, "a text");
  return value->get<std::string>();
}

Result<bool> Fields::flag(const char* key, std::optional<bool> missing) const {
  const TokenizerJson* const value = find(key);
  if (value == nullptr && missing) return *missing;
  if (value == nullptr || !value->is_boolean()) return bad(key, "true or false");
  return value->get<bool>();
}

Result<std::uint64_t> Fields::number(const char* key, std::uint64_t max,
                                     std::optional<std::uint64_t> missing) const {
  const TokenizerJson* const value = find(key);
  if (value == nullptr && missing) return *missing;
  if (value == nullptr || !value->is_number_unsigned() || value->get<std::uint64_t>() > max)
    return bad(key, "a whole number from 0 to " + std::to_string(max));
  return value->get<std::uint64_t>();
}

Result<Fields> Fields::object(const char* key) const {
  const TokenizerJson* const value = find(key);
  if (value == nullptr || !value->is_object()) return bad(key, "an object");
  return Fields(file_, place(key), *value);
}

Result<std::vector<Fields>> Fields::objects(const char* key) const {
  const TokenizerJson* const value = find(key);
  if (value == nullptr || !value->is_array()) return bad(key, "a list of objects");
  std::vector<Fields> all;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::string name = std::string(key) + "[" + std::to_string(i) + "]";
    const TokenizerJson& item = (*value)[i];
    if (!item.is_object()) return bad(name, &item, "an object");
    all.emplace_back(file_, place(name), item);
  }
  return all;
}

Result<std::string> Fields::type(std::initializer_list<std::string_view> allowed) const {
  auto found = text("type");
  if (found && std::ranges::find(allowed, *found) != allowed.end()) return found;
  return bad("type", quoted_list(allowed));
}

}  // namespace es::store
