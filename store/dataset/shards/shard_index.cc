#include "store/dataset/shards/shard_index.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "proto/base/text.h"
#include "store/dataset/images/raw_image.h"
#include "store/dataset/shards/tar_reader.h"
#include "store/field_error.h"
#include "store/json_depth.h"

namespace es::store {
namespace {

constexpr std::uint64_t kLabelTextBytesMax = 64;
constexpr std::uint64_t kLabelJsonBytesMax = 1 << 20;
constexpr int kLabelJsonDepthMax = 64;
constexpr const char* kLabelEndings = ".cls, .json or .txt";

// A member name, divided at the first dot of its last part.
struct KeyAndEnding {
  std::string key, ending;
};

// nullopt: the member belongs to no sample.
std::optional<KeyAndEnding> divided(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', begin);
  if (dot == std::string::npos || dot == begin) return std::nullopt;
  std::string ending = name.substr(dot + 1);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return KeyAndEnding{name.substr(0, dot), std::move(ending)};
}

std::optional<std::int64_t> label_in_text(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpaces) + 1);
  std::int64_t label = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), label);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return is_whole ? std::optional(label) : std::nullopt;
}

std::optional<std::int64_t> label_in_json(const std::string& text) {
  if (json_depth(text) > kLabelJsonDepthMax) return std::nullopt;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto label = json.find("label");
  if (label == json.end() || !label->is_number_integer()) return std::nullopt;
  return label->get<std::int64_t>();
}

// Collects the samples of one file.
class ShardScan {
 public:
  ShardScan(const DataFile& file, std::uint32_t classes, KeysInErrors keys,
            std::vector<ShardSample>& samples)
      : file_(file), reader_(file), classes_(classes), keys_(keys), samples_(samples) {}

  Status run() {
    TarMember member;
    while (true) {
      const Result<bool> more = reader_.next(member);
      if (!more) return more.error();
      if (!*more) return finish();
      std::optional<KeyAndEnding> name = divided(member.name);
      if (!name) continue;
      if (!open_ || name->key != key_) {
        ES_RETURN_IF_ERROR(finish());
        open_ = true;
        key_ = std::move(name->key);
        first_block_ = member.block();
      }
      ES_RETURN_IF_ERROR(add(name->ending, member));
    }
  }

 private:
  std::string place() const {
    const std::string block = tar_place(file_, first_block_);
    return keys_ == KeysInErrors::kShown ? block + ", key \"" + escaped(key_) + '"' : block;
  }

  Status add(const std::string& ending, const TarMember& member) {
    if (ending == "jpg" || ending == "jpeg" || ending == "png") return add_image(member);
    if (ending == "cls") return add_label(label_, member);
    if (ending == "json") return add_label(json_, member);
    if (ending == "txt") return add_label(text_, member);
    return {};
  }

  Status add_image(const TarMember& member) {
    if (image_)
      return bad_field(place(), "images of the sample", "2", "one .jpg, .jpeg or .png file");
    if (member.bytes == 0 || member.bytes > kImageFileBytesMax)
      return bad_field(place(), "bytes of the image", std::to_string(member.bytes),
                       "1 to " + std::to_string(kImageFileBytesMax));
    image_ =
        ShardSample{.image_at = member.at, .image_bytes = static_cast<std::uint32_t>(member.bytes)};
    return {};
  }

  Status add_label(std::optional<TarMember>& place_of_label, const TarMember& member) {
    if (place_of_label)
      return bad_field(place(), "labels of the sample", "2", "one file of each kind");
    place_of_label = member;
    return {};
  }

  // The number in the file that has the label. nullopt: the file has none.
  Result<std::optional<std::int64_t>> read_label() {
    const bool is_json = !label_ && json_;
    const TarMember& member = label_ ? *label_ : json_ ? *json_ : *text_;
    if (member.bytes > (is_json ? kLabelJsonBytesMax : kLabelTextBytesMax))
      return std::optional<std::int64_t>();
    const auto content = reader_.content(member);
    if (!content) return content.error();
    return is_json ? label_in_json(*content) : label_in_text(*content);
  }

  // Ends the sample that is open, if there is one.
  Status finish() {
    if (!open_) return {};
    if (!image_)
      return bad_field(place(), "images of the sample", "0", "a .jpg, .jpeg or .png file");
    if (!label_ && !json_ && !text_)
      return bad_field(place(), "labels of the sample", "0",
                       std::string("a ") + kLabelEndings + " file behind the one before");
    const auto label = read_label();
    if (!label) return label.error();
    if (!*label || **label < 0 || **label >= std::int64_t{classes_})
      return bad_content(place(), "label",
                         "0 to " + std::to_string(classes_ - 1) +
                             ", as text in .cls or .txt, or in the field \"label\" of .json");
    if (samples_.size() >= kShardSamplesMax)
      return bad_field(file_.name(), "samples", "more",
                       "at most " + std::to_string(kShardSamplesMax) + " in all files");
    image_->label = static_cast<std::int32_t>(**label);
    samples_.push_back(*image_);
    open_ = false;
    image_.reset();
    for (auto* const place_of_label : {&label_, &json_, &text_}) place_of_label->reset();
    return {};
  }

  const DataFile& file_;
  TarReader reader_;
  std::uint32_t classes_;
  KeysInErrors keys_;
  std::vector<ShardSample>& samples_;

  // The sample whose members are being read.
  bool open_ = false;
  std::string key_;
  std::uint64_t first_block_ = 0;
  std::optional<ShardSample> image_;
  std::optional<TarMember> label_, json_, text_;
};

}  // namespace

const Shard& ShardIndex::shard_of(std::uint64_t index) const {
  return *std::ranges::upper_bound(shards, index, {}, &Shard::end);
}

std::span<const ShardSample> ShardIndex::samples_of(std::size_t shard) const {
  const std::uint64_t begin = shard == 0 ? 0 : shards[shard - 1].end;
  return std::span(samples).subspan(begin, shards[shard].end - begin);
}

Result<ShardIndex> index_shards(const std::vector<ShardFile>& files, std::uint32_t classes,
                                KeysInErrors keys, IndexFiles index_files) {
  ShardIndex index;
  // What cannot be taken from an index file is read from the shard, which gives the error.
  const auto from_file = [&](const ShardFile& shard, const ShardState& state) {
    const auto known = read_shard_index(shard, state);
    const auto is_allowed = [&](const ShardSample& s) { return std::uint32_t(s.label) < classes; };
    if (!known || !std::ranges::all_of(*known, is_allowed)) return false;
    if (known->size() > kShardSamplesMax - index.samples.size()) return false;
    index.samples.insert(index.samples.end(), known->begin(), known->end());
    return true;
  };
  for (const ShardFile& shard : files) {
    const auto file = open_shard(shard);
    if (!file) return file.error();
    const auto state = shard_state(*file);
    if (!state) return state.error();
    if (index_files == IndexFiles::kIgnored || !from_file(shard, *state))
      ES_RETURN_IF_ERROR(ShardScan(*file, classes, keys, index.samples).run());
    index.shards.push_back({shard, *state, index.samples.size()});
  }
  index.samples.shrink_to_fit();
  if (index.samples.empty())
    return bad_field(files.front().name, "samples in this and all other files", "0", "at least 1");
  return index;
}

}  // namespace es::store
