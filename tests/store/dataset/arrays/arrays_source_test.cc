#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <bit>
#include <filesystem>

#include "store/dataset/arrays/input_array.h"
#include "tests/store/dataset/arrays/array_files.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/temp_directory.h"
#include "tests/support/resident_bytes.h"

namespace es::store {
namespace {

using test::npy_data;
using test::npy_file;
using test::npy_literal;

// The arrays of every_kind.cc: "image" f32 [2,2,3], "label" i32 and "mask" bool [4].
struct Arrays {
  test::TempDirectory directory;
  JobSpec spec;

  Arrays() {
    for (const JobSpec& job : test::write_every_kind(directory.path()))
      if (job.data.kind == "arrays") spec = job;
  }
  std::string place(const std::string& file) const { return spec.data.path + "/" + file; }
  void write(const std::string& file, const std::string& bytes) const {
    test::write_file(place(file), bytes);
  }
  auto open() const { return arrays_source(spec, *test::inputs_of(spec)); }
  std::string error() const {
    const auto source = open();
    REQUIRE_FALSE(source.ok());
    return source.error().message;
  }
  // What the training samples are, or the error.
  Result<std::vector<float>> words(std::vector<std::uint64_t> samples) const {
    const auto source = open();
    if (!source) return source.error();
    std::vector<float> all(samples.size() * (*source)->layout().words());
    const Status filled = (*source)->fill_train(0, samples, all);
    if (!filled.ok()) return filled.error();
    return all;
  }
};

std::int32_t bits(float word) {
  return std::bit_cast<std::int32_t>(word);
}

}  // namespace

TEST_SUITE("store/dataset/arrays") {
  TEST_CASE("a sample has the rows of all arrays, and an image becomes [h,w,c]") {
    const Arrays arrays;
    const auto words = arrays.words({1, 3});
    REQUIRE(words.ok());
    // Sample 1 of "image" has the elements 12 to 23; its planes are 12 to 17 and 18 to 23.
    CHECK((*words)[0] == 0.25F * 12);
    CHECK((*words)[1] == 0.25F * 18);
    CHECK((*words)[2] == 0.25F * 13);
    CHECK((*words)[11] == 0.25F * 23);
    CHECK((*words)[12] == 0.25F * 36);
    CHECK(bits((*words)[24]) == 1);
    CHECK(bits((*words)[25]) == 3);
    CHECK(bits((*words)[26]) == 0);  // mask: elements 4 to 7, of which 6 is true
    CHECK(bits((*words)[28]) == 1);
  }

  TEST_CASE("a sample of a length bucket has the first elements of every axis") {
    Arrays arrays;
    arrays.spec.data.length_buckets = "not read here";
    CapturedInputs inputs = *test::inputs_of(arrays.spec);
    CapturedInputs small = inputs, wide = inputs;
    const auto image = [](CapturedInputs& of, std::int64_t height, std::int64_t width) {
      of.inputs[0].shape = {2, height, width};
      of.inputs[0].field.height = height;
      of.inputs[0].field.width = width;
    };
    image(inputs, 2, 2);
    image(small, 1, 2);
    image(wide, 1, 3);  // the arrays have the largest extents of all buckets
    small.inputs[2].shape = {3};
    small.inputs[2].field.height = 3;
    inputs.others = {small, wide};
    const auto source = arrays_source(arrays.spec, inputs);
    REQUIRE_MESSAGE(source.ok(), source.error().message);
    CHECK((*source)->buckets() == 3);
    CHECK((*source)->words_max() == 8 + 1 + 4);
    const auto words = [&](std::uint32_t bucket) {
      const SampleSource& padded = (*source)->of_bucket(bucket);
      std::vector<float> all(static_cast<std::size_t>(padded.layout().words()));
      const std::vector<std::uint64_t> samples = {1};
      CHECK(padded.fill_train(0, samples, all).ok());
      return all;
    };
    // Sample 1 of "image" has the planes 12 to 17 and 18 to 23, each of two lines.
    const std::vector<float> first = words(1);
    CHECK(std::vector(first.begin(), first.begin() + 4) ==
          std::vector{0.25F * 12, 0.25F * 18, 0.25F * 13, 0.25F * 19});
    CHECK(bits(first[4]) == 1);
    CHECK(bits(first[7]) == 1);  // mask: elements 4 to 6, of which 6 is true
    CHECK(words(2)[5] == 0.25F * 20);
    CHECK(words(0)[7] == 0.25F * 22);
  }

  TEST_CASE("the labels are known for metrics if none is ignored, or there is no directory eval") {
    const Arrays arrays;
    const auto source = arrays.open();
    REQUIRE(source.ok());
    CHECK((*source)->has_labels());
    CHECK((*source)->eval_count() == 3);
    CHECK((*source)->true_label(2) == 2);
    arrays.write("eval/label.npy", npy_file(npy_literal("<i4", {3}),
                                            npy_data(std::vector<std::int32_t>{1, -100, 2})));
    CapturedInputs inputs = *test::inputs_of(arrays.spec);
    inputs.inputs[1].field.low = -100;
    const auto ignored = arrays_source(arrays.spec, inputs);
    REQUIRE(ignored.ok());
    CHECK_FALSE((*ignored)->has_labels());
    std::filesystem::remove_all(arrays.place("eval"));
    const auto without = arrays.open();
    REQUIRE(without.ok());
    CHECK((*without)->eval_count() == 0);
  }

  TEST_CASE("the types that an input can be read from") {
    const Arrays arrays;
    arrays.write("train/image.npy", npy_file(npy_literal("<f8", {6, 2, 2, 3}),
                                             npy_data(std::vector<double>(72, 0.1))));
    arrays.write("train/label.npy",
                 npy_file(npy_literal("|u1", {6}), npy_data(std::vector<std::uint8_t>(6, 4))));
    auto words = arrays.words({0});
    REQUIRE(words.ok());
    CHECK((*words)[5] == 0.1F);
    CHECK(bits((*words)[12]) == 4);
    arrays.write("train/image.npy", npy_file(npy_literal("|u1", {6, 2, 2, 3}),
                                             npy_data(std::vector<std::uint8_t>(72, 200))));
    arrays.write("train/label.npy",
                 npy_file(npy_literal("<i4", {6}), npy_data(std::vector<std::int32_t>(6, 2))));
    words = arrays.words({0});
    REQUIRE(words.ok());
    CHECK((*words)[5] == 200.0F);
    CHECK(bits((*words)[12]) == 2);
    arrays.write("train/image.npy", npy_file(npy_literal("<i4", {6, 2, 2, 3}),
                                             npy_data(std::vector<std::int32_t>(72))));
    CHECK(arrays.error() == arrays.place("train/image.npy") +
                                ": type of elements = i4: allowed is f4, f8 or u1 for input "
                                "\"image\"");
  }

  TEST_CASE("numbers of f8 whose differences are lost in f4 are refused") {
    const Arrays arrays;
    std::vector<double> times(72);
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = 1.7e9 + 3.0 * static_cast<double>(i);
    const auto write = [&] {
      arrays.write("train/image.npy", npy_file(npy_literal("<f8", {6, 2, 2, 3}), npy_data(times)));
    };
    write();
    CHECK(arrays.error() ==
          arrays.place("train/image.npy") +
              ": sample 1, element 0 is not as it must be: allowed is an f8 number that differs "
              "from the one beside it also in f4, in which it is computed; of 5 such pairs 4 do "
              "not: subtract an offset before, or write f4 if this rounding is right");
    for (double& time : times) time -= 1.7e9;
    write();
    CHECK(arrays.open().ok());
    // Differences that come from rounding in f8 are none.
    for (std::size_t i = 0; i < times.size(); ++i)
      times[i] = 1.0 + 0x1p-52 * static_cast<double>(i);
    write();
    CHECK(arrays.open().ok());
  }

  TEST_CASE("an array that does not fit the model is named with what is allowed") {
    const Arrays arrays;
    const std::string image = arrays.place("train/image.npy");
    arrays.write("train/image.npy",
                 npy_file(npy_literal("<f4", {6, 12}), npy_data(std::vector<float>(72))));
    CHECK(arrays.error() == image +
                                ": shape = (samples, 12): allowed is (samples, 2, 2, 3), as input "
                                "\"image\" of the model");
    arrays.write("train/image.npy",
                 npy_file(npy_literal("<f4", {5, 2, 2, 3}), npy_data(std::vector<float>(60))));
    CHECK(arrays.error() == arrays.place("train/label.npy") +
                                ": number of samples = 6: allowed is 5, as in " + image);
    std::filesystem::remove(image);
    const auto missing = arrays.open();
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().kind == ErrorKind::kNotFound);
    CHECK(missing.error().message ==
          image + ": No such file or directory (the array of input \"image\" of the model)");
  }

  TEST_CASE("an integer outside the range of its input is named when its sample is used") {
    const Arrays arrays;
    arrays.write("train/label.npy",
                 npy_file(npy_literal("<i8", {6}), npy_data(std::vector<std::int64_t>{
                                                       0, 1, std::int64_t{1} << 32, 5, 4, 0})));
    CHECK(arrays.words({0, 1, 4, 5}).ok());
    for (const std::uint64_t wrong : {2, 3})
      CHECK(arrays.words({wrong}).error().message ==
            arrays.place("train/label.npy") + ": sample " + std::to_string(wrong) +
                ": element 0 is not as it must be: allowed is 0 to 4");
  }

  TEST_CASE("a header that is no header of a NumPy file of an allowed kind is refused") {
    const Arrays arrays;
    const std::string data(72 * 4, '\0');
    const auto error_of = [&](const std::string& bytes) {
      arrays.write("train/image.npy", bytes);
      const std::string error = arrays.error();
      CHECK(error.starts_with(arrays.place("train/image.npy") + ": "));
      return error;
    };
    const std::string good = npy_literal("<f4", {6, 2, 2, 3});
    const auto changed = [&](const std::string& from, const std::string& to) {
      std::string literal = good;
      return error_of(npy_file(literal.replace(literal.find(from), from.size(), to), data));
    };
    CHECK(changed("<f4", ">f4").find("little endian") != std::string::npos);
    CHECK(changed("<f4", "<c8").find("type of its elements") != std::string::npos);
    CHECK(changed("False", "True").find("C order") != std::string::npos);
    CHECK(changed("False", "None").find("NumPy file") != std::string::npos);
    CHECK(changed("'shape'", "'sharp'").find("NumPy file") != std::string::npos);
    CHECK(changed("(6,2,2,3,)", "()").find("its shape") != std::string::npos);
    CHECK(changed("(6,2,2,3,)", "(6,99999999999999999999,)").find("NumPy file") !=
          std::string::npos);
    CHECK(changed("(6,2,2,3,)", "(6,9999999999,9999999999,)").find("its shape") !=
          std::string::npos);
    CHECK(error_of(npy_file(good, data + "x")).find("size in bytes") != std::string::npos);
    CHECK(error_of(npy_file(good, data, 4)).find("NumPy file") != std::string::npos);
    CHECK(error_of("PK").find("NumPy file") != std::string::npos);
    CHECK(error_of("").find("NumPy file") != std::string::npos);
  }

  TEST_CASE("short samples are kept, and longer ones are read when they are needed") {
    const Arrays arrays;
    CapturedInputs inputs = *test::inputs_of(arrays.spec);
    for (const std::uint64_t elements :
         {InputArray::kShortSampleBytes / 4, InputArray::kShortSampleBytes / 4 + 1}) {
      const bool kept = elements * 4 <= InputArray::kShortSampleBytes;
      CAPTURE(kept);
      std::filesystem::remove_all(arrays.place("eval"));
      const std::string header =
          npy_file(npy_literal("<f4", {5, elements}), std::string(5 * 4 * elements, '\1'));
      arrays.write("train/image.npy", header);
      inputs.inputs = {{{.name = "image", .height = static_cast<std::uint32_t>(elements)},
                        ValueType::kF32,
                        {static_cast<std::int64_t>(elements)}}};
      const auto source = arrays_source(arrays.spec, inputs);
      REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
      std::filesystem::resize_file(arrays.place("train/image.npy"), 100);
      std::vector<float> words(elements);
      const std::uint64_t sample = 4;
      const Status filled = (*source)->fill_train(0, std::span(&sample, 1), words);
      CHECK(filled.ok() == kept);
      CHECK((bits(words.back()) == 0x01010101) == kept);
    }
  }

  TEST_CASE("memory does not grow with the files") {
    constexpr std::uint64_t kSamples = std::uint64_t{5} << 20;  // 20 GiB of images
    Arrays arrays;
    CapturedInputs inputs;
    inputs.inputs = {{{.name = "image", .height = 32, .width = 32}, ValueType::kF32, {1, 32, 32}},
                     {{.name = "label", .type = FieldType::kI32, .high = 9}, ValueType::kI32, {}}};
    const auto grow = [&](const std::string& file, const std::string& header, std::uint64_t bytes) {
      arrays.write(file, header);
      std::filesystem::resize_file(arrays.place(file), header.size() + kSamples * bytes);
    };
    std::filesystem::remove_all(arrays.place("eval"));
    grow("train/image.npy", npy_file(npy_literal("<f4", {kSamples, 1, 32, 32}), ""), 4096);
    grow("train/label.npy", npy_file(npy_literal("|u1", {kSamples}), ""), 1);
    const std::uint64_t before = test::resident_bytes();
    const auto source = arrays_source(arrays.spec, inputs);
    REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
    CHECK((*source)->train_count() == kSamples);
    std::vector<float> words(1025);
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const std::uint64_t sample = i * (kSamples / 20'000);
      REQUIRE((*source)->fill_train(0, std::span(&sample, 1), words).ok());
    }
    CHECK(test::resident_bytes() < before + (std::uint64_t{16} << 20));
  }
}

}  // namespace es::store
