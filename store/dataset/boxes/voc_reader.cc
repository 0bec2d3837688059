#include "store/dataset/boxes/voc_reader.h"

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "store/dataset/line_reader.h"
#include "store/field_error.h"
#include "store/file_bytes.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr double kSideMax = 65'500;

const std::vector<std::string> kVocClasses = {
    "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
    "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
    "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};

// Calls `take(reader, line)` for each line of the file.
template <class Take>
Status for_each_line(const fs::path& file, Take take) {
  Result<LineReader> reader = LineReader::open(file);
  if (!reader) return reader.error();
  std::string_view line;
  while (true) {
    const Result<bool> more = reader->next(line);
    if (!more) return more.error();
    if (!*more) return {};
    ES_RETURN_IF_ERROR(take(*reader, line));
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

Result<double> number(const std::string& where, const pugi::xml_node& parent, const char* field,
                      double low, double high) {
  const std::string_view text = trimmed(parent.child_value(field));
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = code == std::errc{} && end == text.data() + text.size();
  if (number && value >= low && value <= high) return value;
  return bad_content(where, field,
                     "a number from " + std::to_string(static_cast<std::int64_t>(low)) + " to " +
                         std::to_string(static_cast<std::int64_t>(high)));
}

// Centre and length of the pixels [low, high] of `size`, counted from 1, as parts of the size.
struct Extent {
  float centre, length;
};
Extent extent(double low, double high, double size) {
  // Pixels are counted from 1, so pixel `low` begins at low - 1. A low of 0 is accepted too.
  const double begin = std::max(low - 1, 0.0);
  return {static_cast<float>((begin + high) / (2 * size)),
          static_cast<float>((high - begin) / size)};
}

// Reads one side of a box from the fields `low` and `high`.
Result<Extent> side(const std::string& where, const pugi::xml_node& bounds, const char* low,
                    const char* high, double size) {
  const Result<double> first = number(where, bounds, low, 0, size);
  if (!first) return first.error();
  const Result<double> last = number(where, bounds, high, 0, size);
  if (!last) return last.error();
  if (!(*first < *last)) return bad_content(where, high, std::string("more than ") + low);
  return extent(*first, *last, size);
}

Result<TrueBox> parse_object(const std::string& where, const pugi::xml_node& object,
                             const VocImage& image, const std::vector<std::string>& classes) {
  const std::string_view name = trimmed(object.child_value("name"));
  const auto at = std::ranges::find(classes, name);
  if (at == classes.end())
    return bad_content(where, "name", "one of the " + std::to_string(classes.size()) + " classes");
  const pugi::xml_node bounds = object.child("bndbox");
  const Result<Extent> x = side(where, bounds, "xmin", "xmax", image.width);
  if (!x) return x.error();
  const Result<Extent> y = side(where, bounds, "ymin", "ymax", image.height);
  if (!y) return y.error();
  return TrueBox{.label = static_cast<std::int32_t>(at - classes.begin()),
                 .x = x->centre,
                 .y = y->centre,
                 .w = x->length,
                 .h = y->length,
                 .difficult = trimmed(object.child_value("difficult")) == "1"};
}

// `where` replaces the path of the file in errors, because its name is a line of the list.
Status append_image(const fs::path& directory, const std::string& name, const std::string& where,
                    const std::vector<std::string>& classes, std::vector<VocImage>& images) {
  const fs::path file = directory / "Annotations" / (name + ".xml");
  const Result<std::string> xml = file_bytes(file, kAnnotationBytesMax, where);
  if (!xml) return xml.error();
  Result<VocImage> image = parse_voc_annotation(*xml, where, classes);
  if (!image) return image.error();
  image->name = name;
  images.push_back(*std::move(image));
  return {};
}

fs::path list_of(const fs::path& directory, const std::string& set) {
  return directory / "ImageSets" / "Main" / (set + ".txt");
}

}  // namespace

std::string voc_place(const fs::path& directory, const std::string& set, std::size_t index,
                      const std::string& what) {
  return list_of(directory, set).string() + ": line " + std::to_string(index + 1) + ": " + what;
}

Result<std::vector<std::string>> read_voc_classes(const fs::path& directory) {
  const fs::path file = directory / "classes.txt";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return kVocClasses;
  std::vector<std::string> classes;
  ES_RETURN_IF_ERROR(for_each_line(file, [&](const LineReader& reader, std::string_view line) {
    const std::string name(trimmed(line));
    if (name.empty() || std::ranges::find(classes, name) != classes.end())
      return Status(bad_content(reader.where(), "class", "a name that no earlier line has"));
    classes.push_back(name);
    return Status();
  }));
  return classes;
}

Result<VocImage> parse_voc_annotation(const std::string& xml, const std::string& file,
                                      const std::vector<std::string>& classes) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed)
    return usage_error(file + ": no XML (" + parsed.description() + " at byte " +
                       std::to_string(parsed.offset) + "): allowed is a VOC annotation");
  const pugi::xml_node root = document.child("annotation");
  const Result<double> width = number(file, root.child("size"), "width", 1, kSideMax);
  if (!width) return width.error();
  const Result<double> height = number(file, root.child("size"), "height", 1, kSideMax);
  if (!height) return height.error();
  VocImage image{.height = static_cast<std::uint32_t>(*height),
                 .width = static_cast<std::uint32_t>(*width)};
  std::size_t count = 0;
  for (const pugi::xml_node& object : root.children("object")) {
    const std::string where = file + ": object " + std::to_string(count++);
    const Result<TrueBox> box = parse_object(where, object, image, classes);
    if (!box) return box.error();
    image.boxes.push_back(*box);
  }
  return image;
}

Result<std::vector<std::string>> read_voc_names(const fs::path& directory, const std::string& set) {
  const fs::path list = list_of(directory, set);
  std::vector<std::string> names;
  ES_RETURN_IF_ERROR(for_each_line(list, [&](const LineReader& reader, std::string_view line) {
    const std::string_view name = trimmed(line);
    // A '/' could lead out of the directory of the annotations.
    if (name.empty() || name.find_first_of("/ \t") != std::string_view::npos)
      return Status(bad_content(reader.where(), "image", "the name of one image"));
    names.emplace_back(name);
    return Status();
  }));
  if (names.empty()) return bad_field(list.string(), "images", "0", "at least one");
  return names;
}

Result<std::vector<VocImage>> read_voc_set(const fs::path& directory, const std::string& set,
                                           const std::vector<std::string>& classes) {
  const Result<std::vector<std::string>> names = read_voc_names(directory, set);
  if (!names) return names.error();
  std::vector<VocImage> images;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string where = voc_place(directory, set, i, "its file in Annotations");
    ES_RETURN_IF_ERROR(append_image(directory, (*names)[i], where, classes, images));
  }
  return images;
}

}  // namespace es::store
