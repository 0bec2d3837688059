#pragma once
// Reads the JSON of SQuAD v1.1:
//
//   {"data": [{"paragraphs": [{"context": "...",
//      "qas": [{"id": "...", "question": "...",
//               "answers": [{"text": "...", "answer_start": 12}]}]}]}]}
//
// answer_start counts characters (not bytes) of the context. Other members are ignored.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint64_t kSquadBytesMax = std::uint64_t{1} << 30;

struct SquadAnswer {
  std::string text;
  std::uint32_t begin = 0;  // byte offset of the text in the context
};

struct SquadQuestion {
  std::string id;
  std::string text;
  std::vector<SquadAnswer> answers;  // at least one
};

struct SquadParagraph {
  std::string context;  // UTF-8
  std::vector<SquadQuestion> questions;
};

// The paragraphs in the order of the file, with at least one question. Errors name the file, the
// place ("$.data[3].paragraphs[0].qas[1]"), the field and what is allowed: not found; usage (not
// JSON, or too deep; a member is missing or has another type; a question has no answer; an answer
// is not at answer_start).
Result<std::vector<SquadParagraph>> read_squad(const std::filesystem::path& file);

}  // namespace es::store
