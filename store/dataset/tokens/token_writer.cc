#include "store/dataset/tokens/token_writer.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>

#include "store/dataset/tokens/token_shard.h"
#include "store/system_error.h"

namespace es::store {
namespace {

void append_number(std::vector<std::byte>& bytes, std::uint32_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes.push_back(std::byte(number >> (8 * i)));
}

std::string shard_name(std::uint64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return digits + ".bin";
}

}  // namespace

Status TokenWriter::add(std::span<const std::uint32_t> ids) {
  tokens_ += ids.size();
  while (!ids.empty()) {
    const std::size_t room = static_cast<std::size_t>(shard_tokens_) - waiting_.size();
    const std::size_t taken = std::min(room, ids.size());
    waiting_.insert(waiting_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(taken));
    ids = ids.subspan(taken);
    if (waiting_.size() == shard_tokens_) ES_RETURN_IF_ERROR(write_shard());
  }
  return {};
}

Status TokenWriter::finish() {
  if (!waiting_.empty()) ES_RETURN_IF_ERROR(write_shard());
  return shards_ == 0 ? Status() : files_.sync_directory(directory_);
}

Status TokenWriter::write_shard() {
  std::error_code code;
  if (shards_ == 0 && !std::filesystem::create_directory(directory_, code))
    return system_failure(directory_, "be created", code.value());
  auto file = files_.create_file(directory_ / shard_name(shards_++));
  if (!file) return file.error();
  // A piece of the shard at a time, because the bytes would need as much memory as the ids.
  constexpr std::size_t kPieceTokens = 1 << 16;
  const TokenHeader& header = token_header(wide_ ? NpyType::kU32 : NpyType::kU16);
  std::vector<std::byte> bytes;
  for (const std::int64_t number :
       {header.mark, header.version, static_cast<std::int64_t>(waiting_.size())})
    append_number(bytes, static_cast<std::uint32_t>(number), 4);
  bytes.resize(kTokenHeaderBytes);
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    append_number(bytes, waiting_[i], wide_ ? 4 : 2);
    if (i % kPieceTokens != kPieceTokens - 1) continue;
    ES_RETURN_IF_ERROR((*file)->append(bytes));
    bytes.clear();
  }
  ES_RETURN_IF_ERROR((*file)->append(bytes));
  waiting_.clear();
  return (*file)->finish();
}

}  // namespace es::store
