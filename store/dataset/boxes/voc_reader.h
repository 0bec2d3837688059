#pragma once
// Reads the annotations of a Pascal VOC data set:
//
//   DIR/ImageSets/Main/train.txt, val.txt   names of images, one per line
//   DIR/Annotations/NAME.xml                size and objects of an image
//   DIR/JPEGImages/NAME.jpg                 the image
//   DIR/classes.txt                         names of the classes, one per line; without this file
//                                           they are VOC's twenty, in alphabetical order
//
// bndbox counts pixels from 1, and both ends belong to the box; fractions are allowed.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "store/dataset/sample_source.h"

namespace es::store {

inline constexpr std::uint64_t kAnnotationBytesMax = std::uint64_t{4} << 20;

struct VocImage {
  std::string name;
  std::uint32_t height = 0, width = 0;  // from the annotation
  std::vector<TrueBox> boxes;
};

// The class names of the data set. Error (usage): classes.txt has an empty line or a name twice.
Result<std::vector<std::string>> read_voc_classes(const std::filesystem::path& directory);

// The names in DIR/ImageSets/Main/SET.txt in its order; at least one. Errors: not found; usage.
Result<std::vector<std::string>> read_voc_names(const std::filesystem::path& directory,
                                                const std::string& set);

// Returns "DIR/ImageSets/Main/SET.txt: line N: WHAT" with N = index + 1. Errors use it for a file
// whose name is line N of the list, because they must not repeat the line.
std::string voc_place(const std::filesystem::path& directory, const std::string& set,
                      std::size_t index, const std::string& what);

// Parses one annotation, the text of `file`. Error (usage), with file, object and field: not XML, a
// missing or wrong value, a class that is not among the names, or a box outside of the image.
Result<VocImage> parse_voc_annotation(const std::string& xml, const std::string& file,
                                      const std::vector<std::string>& classes);

// The images of read_voc_names with their annotations. Errors: those of read_voc_names; not found
// (an annotation); usage (as above).
Result<std::vector<VocImage>> read_voc_set(const std::filesystem::path& directory,
                                           const std::string& set,
                                           const std::vector<std::string>& classes);

}  // namespace es::store
