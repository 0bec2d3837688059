#pragma once
// Fields: an object of a tokenizer.json together with its place, so that every error names the
// file, the field, its value and what is allowed.
//
// It points into the parsed file and must not outlive it.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

using TokenizerJson = nlohmann::ordered_json;

class Fields {
 public:
  // `path` is empty for the whole file, and otherwise for example "pre_tokenizer". REQUIRES: `json`
  // is an object.
  Fields(std::string file, std::string path, const TokenizerJson& json)
      : file_(std::move(file)), path_(std::move(path)), json_(&json) {}

  // The value of a key; nullptr if it is missing or null.
  const TokenizerJson* find(const char* key) const;
  // "model.type = "X": allowed is ALLOWED" with the name of the file before it.
  Error bad(const std::string& key, const std::string& allowed) const;
  // The same for a place below the key, such as "merges[3]", with a value.
  Error bad(const std::string& place, const TokenizerJson* value, const std::string& allowed) const;

  // Errors of all: usage; the value has another type, or is missing without a default.
  Result<std::string> text(const char* key, std::optional<std::string> missing = {}) const;
  Result<bool> flag(const char* key, std::optional<bool> missing = {}) const;
  Result<std::uint64_t> number(const char* key, std::uint64_t max,
                               std::optional<std::uint64_t> missing = {}) const;
  Result<Fields> object(const char* key) const;
  // A list of objects.
  Result<std::vector<Fields>> objects(const char* key) const;
  // The value of "type". Error: it is none of `allowed`.
  Result<std::string> type(std::initializer_list<std::string_view> allowed) const;

 private:
  std::string place(const std::string& key) const;

  std::string file_;
  std::string path_;
  const TokenizerJson* json_;
};

// The text with the names in quotation marks, separated by commas.
std::string quoted_list(std::initializer_list<std::string_view> names);

}  // namespace es::store
