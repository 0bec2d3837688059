#include "tests/store/dataset/every_kind.h"

#include <algorithm>
#include <string>

#include "tests/store/dataset/arrays/array_files.h"
#include "tests/store/dataset/images/idx_files.h"
#include "tests/store/dataset/images/image_files.h"
#include "tests/store/dataset/shards/tar_files.h"
#include "tests/store/dataset/tokens/token_files.h"
#include "tests/store/temp_directory.h"

namespace es::test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  write_file(file, bytes);
}

JobSpec image_job(const std::string& model, std::uint32_t classes) {
  JobSpec spec;
  spec.model.name = model;
  spec.model.classes = classes;
  spec.data.height = spec.data.width = 16;
  spec.data.channels = 3;
  return spec;
}

JobSpec write_idx(const fs::path& directory) {
  auto files = small_idx_set();
  for (std::size_t i = 0; i < 2; ++i)
    write(directory / (kIdxNames[i] + std::string(".gz")), gzip(files[i]));
  for (std::size_t i = 2; i < 4; ++i) write(directory / kIdxNames[i], files[i]);
  return image_job("small_cnn", 3);
}

// Record r has the label r mod 10, and bytes that differ from those of other records.
std::string cifar_records(int count) {
  std::string bytes;
  for (int r = 0; r < count; ++r) {
    bytes += static_cast<char>(r % 10);
    for (int b = 0; b < 3072; ++b) bytes += static_cast<char>(r + b);
  }
  return bytes;
}

JobSpec write_cifar(const fs::path& directory) {
  for (int i = 1; i <= 5; ++i)
    write(directory / ("data_batch_" + std::to_string(i) + ".bin"), cifar_records(i));
  write(directory / "test_batch.bin", cifar_records(3));
  return image_job("small_cnn", 10);
}

JobSpec write_image_folder(const fs::path& directory) {
  const store::RawImage smooth = smooth_picture(12, 17);
  const fs::path dog = directory / "train/dog", cat = directory / "train/cat";
  write(dog / "plain.jpg", make_jpeg(smooth));
  write(dog / "progressive.jpg", make_jpeg(smooth, {.progressive = true}));
  write(dog / "grey.jpeg", make_jpeg(smooth, {.grey = true}));
  write(dog / "cmyk.jpg", make_jpeg(smooth, {.cmyk = true}));
  write(dog / "half.jpg", make_jpeg(smooth, {.half_chroma = true}));
  int number = 0;
  for (const PngKind kind : {PngKind::kColour, PngKind::kGrey, PngKind::kAlpha, PngKind::kPalette,
                             PngKind::kDeep, PngKind::kInterlaced})
    write(cat / (std::to_string(number++) + ".png"), make_png(picture(11, 9), kind));
  write(directory / "val/cat/one.png", make_png(picture(16, 16)));
  write(directory / "val/dog/two.jpg", make_jpeg(smooth));
  JobSpec spec = image_job("small_cnn", 2);
  spec.data.random_resized_crop = true;
  return spec;
}

// Two users with 5 and 6 ratings. A third user has rated the remaining ones of 120 items.
JobSpec write_ratings(const fs::path& directory) {
  std::string text = "userId,movieId,rating,timestamp\n";
  const auto add = [&](int user, int item, int time) {
    text +=
        std::to_string(user) + "," + std::to_string(item) + ",3.5," + std::to_string(time) + "\n";
  };
  for (int i = 0; i < 5; ++i) add(7, 10 + 3 * i, 900 - i);
  for (int i = 0; i < 6; ++i) add(3, 11 + 5 * i, 100 + i);
  for (int item = 0; item < 120; ++item) add(100 + item, item, 50);
  write(directory / "ratings.csv", text);
  JobSpec spec;
  spec.model.name = "neumf";
  spec.data.negatives = 2;
  return spec;
}

std::string squad_json(int questions) {
  std::string context, list;
  for (int i = 0; i < 30; ++i) context += (i > 0 ? " W" : "W") + std::to_string(i);
  for (int q = 0; q < questions; ++q) {
    const std::string answer = "W" + std::to_string(7 + 2 * q);
    list += (q > 0 ? ", " : "") + std::string(R"({"id": "q)") + std::to_string(q) +
            R"(", "question": "who?", "answers": [{"text": ")" + answer + R"(", "answer_start": )" +
            std::to_string(context.find(answer)) + "}]}";
  }
  return R"({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": ")" + context +
         R"(", "qas": [)" + list + "]}]}]}";
}

JobSpec write_squad(const fs::path& directory) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\n?\n";
  for (int i = 0; i < 30; ++i) vocabulary += "w" + std::to_string(i) + "\n";
  write(directory / "vocabulary.txt", vocabulary);
  write(directory / "train-v1.1.json", squad_json(4));
  write(directory / "dev-v1.1.json", squad_json(2));
  JobSpec spec;
  spec.model.name = "bert";
  spec.data.tokens = 16;
  spec.data.vocabulary_file = (directory / "vocabulary.txt").string();
  return spec;
}

std::string annotation(const std::string& objects) {
  return "<annotation><size><width>17</width><height>12</height><depth>3</depth></size>" + objects +
         "</annotation>";
}

JobSpec write_voc(const fs::path& directory) {
  const std::string box =
      "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>10</xmax><ymax>11.5</ymax></bndbox></object>";
  write(directory / "classes.txt", "cat\ndog\n");
  write(directory / "ImageSets/Main/train.txt", "one\ntwo\n");
  write(directory / "ImageSets/Main/val.txt", "two\n");
  write(directory / "Annotations/one.xml", annotation("<object><name>cat</name>" + box));
  write(directory / "Annotations/two.xml",
        annotation("<object><name>dog</name>" + box +
                   "<object><name>cat</name><difficult>1</difficult>" + box));
  write(directory / "JPEGImages/one.jpg", make_jpeg(smooth_picture(12, 17)));
  write(directory / "JPEGImages/two.jpg", make_png(picture(12, 17)));
  JobSpec spec = image_job("yolov3", 2);
  spec.data.height = spec.data.width = 32;
  spec.data.boxes = 3;
  return spec;
}

// The inputs "image" f32 [2,2,3], "label" i32 of a number from 0 to 4, and "mask" bool [4].
store::CapturedInputs small_inputs() {
  return {.inputs = {{{.name = "image", .height = 2, .width = 3, .channels = 2},
                      ValueType::kF32,
                      {2, 2, 3}},
                     {{.name = "label", .type = FieldType::kI32, .high = 4}, ValueType::kI32, {}},
                     {{.name = "mask", .type = FieldType::kI32, .height = 4, .high = 1},
                      ValueType::kBool,
                      {4}}},
          .predicts_label = true};
}

void write_half(const fs::path& half, std::size_t samples) {
  std::vector<float> image(samples * 12);
  std::vector<std::int64_t> label(samples);
  std::vector<std::uint8_t> mask(samples * 4);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = 0.25F * static_cast<float>(i);
  for (std::size_t i = 0; i < samples; ++i) label[i] = static_cast<std::int64_t>(i % 5);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0;
  write(half / "image.npy", npy_file(npy_literal("<f4", {samples, 2, 2, 3}), npy_data(image)));
  write(half / "label.npy", npy_file(npy_literal("<i8", {samples}), npy_data(label), 2));
  write(half / "mask.npy", npy_file(npy_literal("|b1", {samples, 4}), npy_data(mask), 3));
}

JobSpec write_arrays(const fs::path& directory) {
  write_half(directory / "train", 6);
  write_half(directory / "eval", 3);
  JobSpec spec;
  spec.model.file = "net.esmodel";
  return spec;
}

// "ids" and "labels" i32 [4] of tokens from 0 to 99.
store::CapturedInputs token_inputs() {
  store::CapturedInput ids{
      {.name = "ids", .type = FieldType::kI32, .height = 4, .high = 99}, ValueType::kI32, {4}};
  store::CapturedInput labels = ids;
  labels.field.name = "labels";
  return {.inputs = {std::move(ids), std::move(labels)}};
}

// Three shards of every form, and two raw ones for the evaluation.
JobSpec write_tokens(const fs::path& directory) {
  std::vector<std::uint16_t> small;
  for (std::size_t i = 0; i < 23; ++i) small.push_back(static_cast<std::uint16_t>(i * i % 100));
  const std::vector<std::int64_t> wide(small.begin(), small.end());
  const std::vector<std::uint32_t> middle(small.begin(), small.end());
  write(directory / "train/0.bin", npy_data(small));
  write(directory / "train/1.npy", npy_file(npy_literal("<i8", {wide.size()}), npy_data(wide)));
  write(directory / "train/2.bin", token_header(20240801, 7, middle.size()) + npy_data(middle));
  write(directory / "eval/0.bin", npy_data(small));
  write(directory / "eval/1.bin", npy_data(small));
  JobSpec spec;
  spec.model.file = "net.esmodel";
  return spec;
}

// Two shards of the training and one of the evaluation, with every kind of name and label.
JobSpec write_webdataset(const fs::path& directory) {
  const std::string cat = make_jpeg(smooth_picture(12, 17)), dog = make_png(picture(11, 9));
  write(directory / "train/0.tar", tar_member("a/0.jpg", cat) + tar_member("a/0.cls", "0") +
                                       tar_member("a/1.PNG", dog) + tar_member("a/1.txt", "a dog") +
                                       tar_member("a/1.json", R"({"label": 1})") + tar_end());
  const std::string long_name = std::string(120, 'n') + ".jpg";
  write(directory / "train/1.tar",
        pax_header({{"path", long_name}}) + tar_member("short.jpg", cat) +
            gnu_name(std::string(120, 'n') + ".cls") + tar_member("short.cls", "1\n") + tar_end());
  write(directory / "eval/0.tar", tar_member("0.txt", "1") + tar_member("0.jpeg", dog) + tar_end());
  return image_job("small_cnn", 2);
}

struct Kind {
  const char* name;
  JobSpec (*write)(const fs::path& directory);
};
constexpr Kind kKinds[] = {
    {"idx", write_idx},         {"cifar10", write_cifar}, {"image_folder", write_image_folder},
    {"ratings", write_ratings}, {"squad", write_squad},   {"voc", write_voc},
    {"arrays", write_arrays},   {"tokens", write_tokens}, {"webdataset", write_webdataset}};

}  // namespace

const store::CapturedInputs* inputs_of(const JobSpec& spec) {
  static const store::CapturedInputs arrays = small_inputs(), tokens = token_inputs();
  if (spec.model.file.empty()) return nullptr;
  return spec.data.kind == "tokens" ? &tokens : &arrays;
}

std::vector<JobSpec> write_every_kind(const fs::path& root) {
  std::vector<JobSpec> jobs;
  for (const Kind& kind : kKinds) {
    const fs::path directory = root / kind.name;
    jobs.push_back(kind.write(directory));
    jobs.back().data.kind = kind.name;
    jobs.back().data.path = directory.string();
  }
  return jobs;
}

std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace es::test
