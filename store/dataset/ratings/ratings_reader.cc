#include "store/dataset/ratings/ratings_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "store/dataset/line_reader.h"
#include "store/field_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "userId,movieId,rating,timestamp";
constexpr std::uint64_t kIdsMax = std::numeric_limits<std::int32_t>::max();

// Numbers the ids of a file in the order of their appearance.
class IdMap {
 public:
  std::uint32_t number_of(std::uint64_t id) {
    return numbers_.try_emplace(id, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

  // Position of each number in the ascending order of ids.
  std::vector<std::uint32_t> ascending() const {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> ids(numbers_.begin(), numbers_.end());
    std::ranges::sort(ids);
    std::vector<std::uint32_t> places(ids.size());
    for (std::uint32_t place = 0; place < ids.size(); ++place) places[ids[place].second] = place;
    return places;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
};

// The separator of the fields of this line; empty if there is none.
std::string_view divider_of(std::string_view line) {
  for (const std::string_view divider : {"::", "\t", ","})
    if (line.find(divider) != std::string_view::npos) return divider;
  return {};
}

using Fields = std::array<std::string_view, 4>;

std::string divider_name(std::string_view divider) {
  return divider == "\t" ? "a tab" : '"' + std::string(divider) + '"';
}

Status split(const LineReader& reader, std::string_view line, std::string_view divider,
             Fields& fields) {
  std::size_t count = 0;
  std::string_view rest = line;
  while (true) {
    const std::size_t end = rest.find(divider);
    if (count < fields.size()) fields[count] = rest.substr(0, end);
    ++count;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + divider.size());
  }
  if (count == fields.size()) return {};
  return bad_field(reader.where(), "fields", std::to_string(count),
                   "4 (user, item, rating, time), divided by " + divider_name(divider));
}

template <class T>
Result<T> number(const LineReader& reader, const char* field, std::string_view text,
                 const char* allowed) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size()) return value;
  return bad_content(reader.where(), field, allowed);
}

struct Parsed {
  std::uint64_t user, item;
  std::int64_t time;
};

Result<Parsed> parse(const LineReader& reader, const Fields& fields) {
  constexpr const char* kWhole = "a whole number from 0 on";
  const auto user = number<std::uint64_t>(reader, "user", fields[0], kWhole);
  if (!user) return user.error();
  const auto item = number<std::uint64_t>(reader, "item", fields[1], kWhole);
  if (!item) return item.error();
  const auto rating = number<double>(reader, "rating", fields[2], "a number");
  if (!rating) return rating.error();
  if (!std::isfinite(*rating)) return bad_content(reader.where(), "rating", "a finite number");
  const auto time = number<std::int64_t>(reader, "time", fields[3], "a whole number of seconds");
  if (!time) return time.error();
  return Parsed{*user, *item, *time};
}

Result<fs::path> locate(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"u.data", "ratings.dat", "ratings.csv"})
    if (fs::exists(path / name, ignored)) return path / name;
  return not_found("data.path = \"" + path.string() +
                   "\": allowed is a file of ratings, or a directory with u.data, ratings.dat or "
                   "ratings.csv");
}

// Reads the rows; users and items are numbered by their first appearance.
Status read_rows(LineReader& reader, IdMap& users, IdMap& items, std::vector<Rating>& rows) {
  std::string_view line, divider;
  while (true) {
    const Result<bool> more = reader.next(line);
    if (!more) return more.error();
    if (!*more) return {};
    if (reader.number() == 1) {
      divider = divider_of(line);
      if (divider.empty())
        return bad_content(reader.where(), "text",
                           "user, item, rating and time divided by a tab, \"::\" or a comma");
      if (line == kHeader) continue;
    }
    Fields fields;
    ES_RETURN_IF_ERROR(split(reader, line, divider, fields));
    const Result<Parsed> row = parse(reader, fields);
    if (!row) return row.error();
    rows.push_back({users.number_of(row->user), items.number_of(row->item), row->time});
    if (rows.size() > kRatingsMax || users.size() > kIdsMax || items.size() > kIdsMax)
      return bad_field(reader.where(), "ratings, users or items", "too many",
                       "at most " + std::to_string(kRatingsMax) + " ratings");
  }
}

}  // namespace

Result<Ratings> read_ratings(const fs::path& path) {
  const Result<fs::path> file = locate(path);
  if (!file) return file.error();
  Result<LineReader> reader = LineReader::open(*file);
  if (!reader) return reader.error();
  IdMap users, items;
  Ratings ratings;
  ES_RETURN_IF_ERROR(read_rows(*reader, users, items, ratings.rows));
  if (ratings.rows.empty()) return bad_field(file->string(), "ratings", "0", "at least one line");
  // Numbers follow the ascending ids, so they do not depend on the order of the rows.
  const auto user_places = users.ascending(), item_places = items.ascending();
  for (Rating& row : ratings.rows) {
    row.user = user_places[row.user];
    row.item = item_places[row.item];
  }
  ratings.users = static_cast<std::uint32_t>(users.size());
  ratings.items = static_cast<std::uint32_t>(items.size());
  return ratings;
}

}  // namespace es::store
