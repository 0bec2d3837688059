// tokenizer_bench TOKENIZER.json TEXTS OUT [--surround | --decode]: encodes texts on one thread.
//
// TEXTS has one text in each line, as a JSON string. OUT gets, for each text, the number of ids and
// the ids, as little-endian uint32; with --decode a line with the text that the ids become, as a
// JSON string. --surround adds the tokens of the post-processor. Standard output gets the seconds
// of the encoding, without the reading of files. tokenizer_speed.py compares it with that of the
// library "tokenizers", and tests/store/tokenizer/tokenizer_reference_test.py compares the ids.
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/tokenizer/tokenizer.h"

namespace {

using es::store::Tokenizer;

std::vector<std::string> read_texts(const char* file) {
  std::ifstream in(file);
  std::vector<std::string> texts;
  for (std::string line; std::getline(in, line);)
    texts.push_back(nlohmann::json::parse(line).get<std::string>());
  return texts;
}

void write_ids(std::ofstream& out, const std::vector<std::uint32_t>& ids) {
  const auto count = static_cast<std::uint32_t>(ids.size());
  out.write(reinterpret_cast<const char*>(&count), sizeof count);
  out.write(reinterpret_cast<const char*>(ids.data()),
            static_cast<std::streamsize>(ids.size() * sizeof ids[0]));
}

int fail(const std::string& message) {
  std::cout << message << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4)
    return fail("usage: tokenizer_bench TOKENIZER.json TEXTS OUT [--surround | --decode]");
  const std::string option = argc > 4 ? argv[4] : "";
  const auto tokenizer = Tokenizer::read(argv[1]);
  if (!tokenizer) return fail(tokenizer.error().message);
  const std::vector<std::string> texts = read_texts(argv[2]);
  std::vector<std::vector<std::uint32_t>> ids(texts.size());
  es::store::WordCache cache;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const es::Status encoded = tokenizer->encode(texts[i], option == "--surround", cache, ids[i]);
    if (!encoded.ok()) return fail(encoded.error().message);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::ofstream out(argv[3], std::ios::binary);
  for (const auto& of_text : ids)
    if (option == "--decode")
      out << nlohmann::json(tokenizer->decode(of_text, false).value()).dump() << "\n";
    else
      write_ids(out, of_text);
  std::cout << seconds.count() << "\n";
  return 0;
}
