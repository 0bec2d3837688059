#pragma once
// Reads SQuAD v1.1's JSON:
//
//   {"data": [{"paragraphs": [{"context": "...",
//      "qas": [{"id": "...", "question": "...", "answers": [{"text": "...", "answer_start":
//      12}]}]}]}]}
//
// answer_start counts characters (not bytes) of the context. Other members are not looked at.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

inline constexpr std::uint64_t kSquadBytesMax = std::uint64_t{1} << 30;

struct SquadAnswer {
  std::string text;
  std::uint32_t begin = 0;  // bytes of the context; its text is there
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

// The paragraphs in the file's order; at least one question. Errors name file, place
// ("$.data[3].paragraphs[0].qas[1]"), field and what is allowed: not found; usage (no JSON, or too
// deep, a member that is missing or of another type, a question without an answer, an answer that
// is not where answer_start says).
Result<std::vector<SquadParagraph>> read_squad(const std::filesystem::path& file);

}  // namespace es::store
