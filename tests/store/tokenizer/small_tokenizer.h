#pragma once
// Small texts of tokenizer.json for tests.
#include <string>

namespace es::test {

// A tokenizer.json with a model and further members, such as R"("decoder": {...})".
inline std::string tokenizer_json(const std::string& model, const std::string& more = {}) {
  return R"({"version": "1.0", "model": )" + model + (more.empty() ? "" : ", " + more) + "}";
}

inline std::string small_bpe(const std::string& options = {}) {
  return R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5,
    "?": 6, "<0xC3>": 7, "<0xA9>": 8, "Ġ": 9}, "merges": ["b c", ["a", "b"], "ab c"])" +
         (options.empty() ? "" : ", " + options) + "}";
}

inline std::string small_word_piece() {
  return R"({"type": "WordPiece", "unk_token": "?", "max_input_chars_per_word": 6, "vocab":
    {"?": 0, "un": 1, "##able": 2, "##a": 3, ".": 4, "cafe": 5, "漢": 6, "[C]": 7}})";
}

inline std::string small_unigram(const std::string& options = R"("unk_id": 0)") {
  return R"({"type": "Unigram", "vocab": [["?", 0], ["▁", -2], ["a", -2], ["b", -2.5],
    ["ab", -3], ["▁a", -3.5], ["bb", -4]], )" +
         options + "}";
}

}  // namespace es::test
