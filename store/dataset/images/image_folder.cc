// Samples of classification from a directory of JPEG and PNG files:
//
//   DIR/train/CLASS/NAME.jpg   DIR/val/CLASS/NAME.png
//
// Classes are numbered in the order of the bytes of their names, and so are the files of a class.
// The name of a file ends in .jpg, .jpeg or .png, in upper or lower case. Files are decoded when
// they are used (raw_image.h), and cropped and augmented (augmented_image.h).
#include "store/dataset/sources.h"

#include <algorithm>
#include <filesystem>

#include "store/dataset/images/augmented_image.h"
#include "store/dataset/images/file_image.h"
#include "store/dataset/sorted_names.h"
#include "store/field_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

struct ImageFile {
  std::string name;  // name of the file without its directory
  std::int32_t label = 0;
};

// One half: DIR/train or DIR/val.
struct Folder {
  fs::path directory;
  std::vector<ImageFile> files;
};

bool is_image(const fs::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// Names of the folders or of the image files in `directory`, in the order of their bytes.
Result<std::vector<std::string>> names_in(const fs::path& directory, bool folders) {
  return sorted_names(directory, [folders](const fs::directory_entry& entry) {
    std::error_code ignored;
    return folders ? entry.is_directory(ignored)
                   : is_image(entry.path()) && entry.is_regular_file(ignored);
  });
}

Status append_class(Folder& folder, const std::string& name, std::int32_t label) {
  Result<std::vector<std::string>> files = names_in(folder.directory / name, false);
  if (!files) return files.error();
  if (folder.files.size() + files->size() > kImageFilesMax)
    return bad_field(folder.directory.string(), "images", "more",
                     "at most " + std::to_string(kImageFilesMax));
  for (std::string& file : *files) folder.files.push_back({std::move(file), label});
  return {};
}

// `classes` contains the class names of the training half.
Result<Folder> list_folder(const fs::path& directory, const std::vector<std::string>& classes) {
  const Result<std::vector<std::string>> names = names_in(directory, true);
  if (!names) return names.error();
  Folder folder{directory, {}};
  for (const std::string& name : *names) {
    // `classes` is sorted by bytes. Labels are positions in it, so both halves have the same
    // labels, whatever the file system lists first.
    const auto at = std::ranges::lower_bound(classes, name);
    if (at == classes.end() || *at != name)
      return bad_content(directory.string(), "folder of a class", "one whose name train/ has too");
    ES_RETURN_IF_ERROR(append_class(folder, name, static_cast<std::int32_t>(at - classes.begin())));
  }
  return folder;
}

class ImageFolderSource final : public RecordSource {
 public:
  ImageFolderSource(DataFacts facts, std::vector<std::string> classes, Folder train, Folder eval,
                    AugmentedImage images)
      : RecordSource(std::move(facts)),
        classes_(std::move(classes)),
        train_(std::move(train)),
        eval_(std::move(eval)),
        images_(std::move(images)) {}

  std::int32_t true_label(std::uint64_t index) const override { return eval_.files[index].label; }

 private:
  Status write(Half half, std::uint64_t epoch, std::uint64_t index, const SampleBlock& block,
               std::uint64_t position, Scratch& scratch) const override {
    const Folder& folder = half == Half::kTrain ? train_ : eval_;
    const ImageFile& file = folder.files[index];
    ES_RETURN_IF_ERROR(
        read_image(folder.directory / classes_[static_cast<std::size_t>(file.label)] / file.name,
                   scratch.decoded));
    images_.write(half, epoch, index, scratch, block.field(image_field::kImage, position));
    block.set_i32(image_field::kLabel, position, 0, file.label);
    return {};
  }

  std::vector<std::string> classes_;
  Folder train_, eval_;
  AugmentedImage images_;
};

Result<Folder> open_half(const fs::path& directory, const std::vector<std::string>& classes) {
  Result<Folder> folder = list_folder(directory, classes);
  if (folder.ok() && folder->files.empty())
    return bad_field(directory.string(), "images", "0",
                     "at least one .jpg, .jpeg or .png file in a folder of a class");
  return folder;
}

}  // namespace

Result<std::vector<std::string>> image_folder_classes(const DataSpec& data) {
  return names_in(fs::path(data.path) / "train", true);
}

Result<std::shared_ptr<const SampleSource>> image_folder_source(const JobSpec& spec) {
  Result<AugmentedImage> images = AugmentedImage::create(spec);
  if (!images) return images.error();
  const fs::path root = spec.data.path;
  Result<std::vector<std::string>> classes = image_folder_classes(spec.data);
  if (!classes) return classes.error();
  if (classes->size() != spec.model.classes)
    return bad_field((root / "train").string(), "folders of classes",
                     std::to_string(classes->size()),
                     "model.classes = " + std::to_string(spec.model.classes));
  Result<Folder> train = open_half(root / "train", *classes);
  if (!train) return train.error();
  Result<Folder> eval = open_half(root / "val", *classes);
  if (!eval) return eval.error();
  DataFacts facts{.layout = image_layout(images->shape(), spec.model.classes),
                  .train_count = train->files.size(),
                  .eval_count = eval->files.size()};
  return std::shared_ptr<const SampleSource>(
      std::make_shared<ImageFolderSource>(std::move(facts), *std::move(classes), *std::move(train),
                                          *std::move(eval), *std::move(images)));
}

}  // namespace es::store
