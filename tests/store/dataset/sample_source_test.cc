#include "store/dataset/sample_source.h"

#include <doctest/doctest.h>

#include <bit>
#include <thread>

#include "proto/base/digest.h"
#include "tests/store/dataset/every_kind.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// A small job on synthetic data of the task of the model.
JobSpec synthetic_job(const std::string& model) {
  JobSpec spec;
  spec.seed = 5;
  spec.model.name = model;
  spec.data.samples = 300;
  spec.data.eval_samples = 230;
  spec.data.height = spec.data.width = 16;
  spec.data.channels = 3;
  spec.data.tokens = 24;
  spec.data.vocabulary = 100;
  spec.data.length = 24;
  spec.data.boxes = 4;
  spec.data.users = 60;
  spec.data.items = 200;
  spec.data.flip = model == "yolov3" || model == "small_cnn";
  return spec;
}

const std::vector<std::string> kModels = {"small_cnn", "neumf", "bert", "yolov3", "gpt2"};

std::vector<float> train_block(const SampleSource& source, std::uint64_t epoch,
                               const std::vector<std::uint64_t>& samples) {
  std::vector<float> words(samples.size() * source.layout().words());
  REQUIRE(source.fill_train(epoch, samples, words).ok());
  return words;
}

std::string digest(const std::vector<float>& words) {
  return digest_of(std::as_bytes(std::span(words))).hex();
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return digest(a) == digest(b);
}

// Every integer of the block is in the range of its field.
void check_ranges(const SampleLayout& layout, std::uint64_t batch,
                  const std::vector<float>& words) {
  for (std::size_t f = 0; f < layout.fields.size(); ++f) {
    const SampleField& field = layout.fields[f];
    if (field.type != FieldType::kI32) continue;
    for (std::int64_t i = 0; i < field.words() * std::int64_t(batch); ++i) {
      const auto value = std::bit_cast<std::int32_t>(words[layout.offset(f) * batch + i]);
      REQUIRE(value >= field.low);
      REQUIRE(value <= field.high);
    }
  }
}

// The inputs of a model file that has the same fields; an image is [c,h,w] there.
CapturedInputs inputs_like(const SampleSource& source, const JobSpec& spec) {
  CapturedInputs inputs{.inputs = {}, .box_classes = spec.model.classes};
  for (const SampleField& field : source.layout().fields) {
    CapturedInput input{
        field, field.type == FieldType::kI32 ? ValueType::kI32 : ValueType::kF32, {}};
    if (field.name == "image") input.shape = {field.channels, field.height, field.width};
    inputs.inputs.push_back(std::move(input));
  }
  return inputs;
}

void check_facts(const JobSpec& spec) {
  const auto source = open_samples(spec, inputs_of(spec));
  const auto facts = data_facts(spec, inputs_of(spec));
  REQUIRE(source.ok());
  REQUIRE(facts.ok());
  CHECK(facts->layout == (*source)->layout());
  CHECK(facts->train_count == (*source)->train_count());
  CHECK(facts->eval_count == (*source)->eval_count());
  CHECK(facts->eval_group == (*source)->eval_group());
}

}  // namespace

TEST_SUITE("store/dataset/sample_source") {
  TEST_CASE("a job spec opens the data that it names, and the facts agree with the source") {
    TempDirectory directory;
    std::vector<JobSpec> jobs = write_every_kind(directory.path());
    for (const std::string& model : kModels) jobs.push_back(synthetic_job(model));
    for (const JobSpec& spec : jobs) {
      CAPTURE(spec.data.kind);
      CAPTURE(spec.model.name);
      check_facts(spec);
    }
  }

  TEST_CASE(
      "a model file reads the data of the task whose fields are its inputs, to the same bits") {
    TempDirectory directory;
    std::vector<JobSpec> jobs = write_every_kind(directory.path());
    std::erase_if(jobs, [](const JobSpec& spec) { return !spec.model.file.empty(); });
    for (const std::string& model : kModels) jobs.push_back(synthetic_job(model));
    for (const JobSpec& spec : jobs) {
      CAPTURE(spec.data.kind);
      CAPTURE(spec.model.name);
      const auto built_in = open_samples(spec);
      REQUIRE(built_in.ok());
      const CapturedInputs inputs = inputs_like(**built_in, spec);
      JobSpec captured = spec;
      captured.model = ModelSpec{.file = "net.esmodel"};
      const auto source = open_samples(captured, &inputs);
      REQUIRE_MESSAGE(source.ok(), (source.ok() ? "" : source.error().message));
      CHECK((*source)->layout() == (*built_in)->layout());
      CHECK((*source)->eval_group() == (*built_in)->eval_group());
      CHECK(same(train_block(**source, 1, {1, 0}), train_block(**built_in, 1, {1, 0})));
    }
  }

  TEST_CASE("data whose fields are not the inputs of the model file are refused") {
    JobSpec spec = synthetic_job("neumf");
    CapturedInputs inputs = inputs_like(**open_samples(spec), spec);
    spec.model = ModelSpec{.file = "net.esmodel"};
    inputs.inputs[1].field.high += 1;
    const std::string high = std::to_string(inputs.inputs[1].field.high);
    CHECK(open_samples(spec, &inputs).error().message ==
          "data.kind = \"synthetic\": field of the samples [h,w,c] = \"item\" i32 [1,1,1] from 0 "
          "to " +
              std::to_string(inputs.inputs[1].field.high - 1) +
              ": allowed is \"item\" i32 [1,1,1] from 0 to " + high +
              ", as the input of the model");
    inputs.inputs[1].field.name = "thing";
    CHECK(open_samples(spec, &inputs).error().message ==
          "job: data.kind = \"synthetic\": allowed is \"arrays\", because the inputs of the model "
          "are not the fields of these data");
    inputs.inputs[1].field.name = "item";
    spec.data.kind = "squad";
    CHECK(open_samples(spec, &inputs).error().kind == ErrorKind::kUsage);
  }

  TEST_CASE("facts do not read the samples when a header, a size or a list contains them") {
    TempDirectory directory;
    const std::vector<JobSpec> jobs = write_every_kind(directory.path());
    const auto spoil = [&](const std::string& name, std::size_t begin, std::size_t length) {
      std::string bytes = read_file(directory / name);
      write_file(directory / name, bytes.replace(begin, length, std::string(length, '\xff')));
    };
    const std::string pixels = read_file(directory / "idx/train-images-idx3-ubyte.gz");
    spoil("idx/train-images-idx3-ubyte.gz", pixels.size() - 12, 4);
    spoil("cifar10/data_batch_3.bin", 3073, 1);  // A label.
    spoil("voc/Annotations/one.xml", 0, 20);
    for (const JobSpec& spec : jobs) {
      CAPTURE(spec.data.kind);
      const bool spoilt =
          spec.data.kind == "idx" || spec.data.kind == "cifar10" || spec.data.kind == "voc";
      CHECK(open_samples(spec, inputs_of(spec)).ok() == !spoilt);
      CHECK(data_facts(spec, inputs_of(spec)).ok());
    }
  }

  TEST_CASE("errors in a header, a size or a list are reported when the facts are read") {
    TempDirectory directory;
    const std::vector<JobSpec> jobs = write_every_kind(directory.path());
    const auto refused = [&](std::size_t job, const std::string& file, const std::string& bytes) {
      const std::string before = read_file(directory / file);
      write_file(directory / file, bytes);
      const auto facts = data_facts(jobs[job], inputs_of(jobs[job]));
      REQUIRE_FALSE(facts.ok());
      CHECK(facts.error().message == open_samples(jobs[job], inputs_of(jobs[job])).error().message);
      CHECK(facts.error().message.find((directory / file).string()) == 0);
      write_file(directory / file, before);
      CHECK(data_facts(jobs[job], inputs_of(jobs[job])).ok());
    };
    const auto cut = [&](const std::string& file) {
      const std::string bytes = read_file(directory / file);
      return bytes.substr(0, bytes.size() - 1);
    };
    for (const char* file : {"idx/t10k-images-idx3-ubyte", "idx/t10k-labels-idx1-ubyte"})
      refused(0, file, cut(file));
    refused(0, "idx/t10k-labels-idx1-ubyte", cut("idx/t10k-labels-idx1-ubyte") + "\x03");
    refused(0, "idx/train-images-idx3-ubyte.gz", cut("idx/train-images-idx3-ubyte.gz"));
    refused(1, "cifar10/test_batch.bin", cut("cifar10/test_batch.bin"));
    refused(3, "ratings/ratings.csv", cut("ratings/ratings.csv") + "x");
    refused(4, "squad/train-v1.1.json", cut("squad/train-v1.1.json"));
    refused(5, "voc/ImageSets/Main/val.txt", "");
    refused(6, "arrays/train/mask.npy", cut("arrays/train/mask.npy"));
  }

  TEST_CASE("an unknown kind is refused with the kinds that are allowed") {
    JobSpec spec;
    spec.data.kind = "tape";
    const std::string expected =
        "data.kind = \"tape\": allowed is idx, cifar10, image_folder, webdataset, ratings, squad, "
        "voc, tokens, synthetic";
    CHECK(open_samples(spec).error().message == expected);
    CHECK(data_facts(spec).error().message == expected);
  }

  TEST_CASE("a sample does not depend on its batch or on the thread") {
    for (const std::string& model : kModels) {
      CAPTURE(model);
      const auto source = *open_samples(synthetic_job(model));
      std::vector<std::vector<float>> alone(5), together(5);
      std::vector<std::thread> threads;
      for (std::uint64_t i = 0; i < 5; ++i) alone[i] = train_block(*source, 3, {40 * i});
      for (std::uint64_t i = 0; i < 5; ++i)
        threads.emplace_back([&, i] { together[i] = train_block(*source, 3, {40 * i}); });
      for (std::thread& thread : threads) thread.join();
      const auto all = train_block(*source, 3, {0, 40, 80, 120, 160});
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(same(alone[i], together[i]));
        std::size_t at = 0;
        for (const SampleField& field : source->layout().fields)
          for (std::int64_t w = 0; w < field.words(); ++w, ++at) {
            const std::size_t first = at - w;
            const float value = all[first * 5 + i * field.words() + w];
            REQUIRE(std::bit_cast<std::uint32_t>(value) ==
                    std::bit_cast<std::uint32_t>(alone[i][at]));
          }
      }
    }
  }

  TEST_CASE("integers stay within the ranges of the layout, in training and evaluation") {
    for (const std::string& model : kModels) {
      CAPTURE(model);
      const auto source = *open_samples(synthetic_job(model));
      std::vector<std::uint64_t> samples(source->train_count());
      for (std::uint64_t i = 0; i < samples.size(); ++i) samples[i] = i;
      check_ranges(source->layout(), samples.size(), train_block(*source, 1, samples));
      const std::uint64_t count = source->eval_count();
      std::vector<float> words(count * source->layout().words());
      REQUIRE(source->fill_eval(0, count, count, words).ok());
      check_ranges(source->layout(), count, words);
    }
  }

  TEST_CASE("only parts that are drawn anew in each epoch change with the epoch") {
    for (const std::string& model : kModels) {
      CAPTURE(model);
      JobSpec spec = synthetic_job(model);
      spec.data.flip = false;
      const auto plain = *open_samples(spec);
      CHECK(same(train_block(*plain, 0, {1, 2, 3, 4}), train_block(*plain, 7, {1, 2, 3, 4})));
      if (model != "small_cnn" && model != "yolov3") continue;
      spec.data.flip = true;
      const auto mirrored = *open_samples(spec);
      CHECK_FALSE(
          same(train_block(*mirrored, 0, {1, 2, 3, 4}), train_block(*mirrored, 7, {1, 2, 3, 4})));
    }
  }

  TEST_CASE("the bits of synthetic samples never change") {
    const std::vector<std::string> expected = {
        "fe78ecd525fd15c691e85c1a47e18815", "a6ae4498c68efbf585577ffbca2cf0d7",
        "1e6ecece69c7905bb7e756bae17b8cbf", "10465f7496d7bb6e1345a0124d69911d",
        "40c442f6d72f1400c392f8a6e515f018"};
    for (std::size_t m = 0; m < kModels.size(); ++m) {
      const auto source = *open_samples(synthetic_job(kModels[m]));
      CAPTURE(kModels[m]);
      CHECK(digest(train_block(*source, 2, {0, 1, 7, 99, 298})) == expected[m]);
    }
  }

  TEST_CASE("a batch consists of the samples that the sampler names") {
    const auto source = *open_samples(synthetic_job("neumf"));
    const auto sampler =
        *EpochSampler::create({.samples = 300, .max_p = 3, .batch_size = 7, .seed = 5});
    std::vector<float> words(7 * 3);
    REQUIRE(fill_batch(*source, sampler, {4, 2}, 1, words).ok());
    std::vector<std::uint64_t> samples;
    for (std::uint32_t i = 0; i < 7; ++i) samples.push_back(sampler.sample({4, 2}, 1, i));
    CHECK(same(words, train_block(*source, 4, samples)));
  }
}
