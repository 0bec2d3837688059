#include "tests/bench/train_workloads.h"

#include <bit>
#include <random>

namespace es::bench {
namespace {

SampleField real(const char* name, std::int64_t h, std::int64_t w, std::int64_t c) {
  return {.name = name, .type = FieldType::kF32, .height = h, .width = w, .channels = c};
}

SampleField integers(const char* name, std::int64_t h, std::int64_t c, std::int32_t low,
                     std::int32_t high) {
  return {
      .name = name, .type = FieldType::kI32, .height = h, .channels = c, .low = low, .high = high};
}

SampleLayout images(std::int64_t side, std::int32_t classes) {
  return {{real("image", side, side, 3), integers("label", 1, 1, 0, classes - 1)}};
}

SampleLayout ratings() {
  return {
      {integers("user", 1, 1, 0, 942), integers("item", 1, 1, 0, 1681), real("label", 1, 1, 1)}};
}

SampleLayout questions(std::int32_t tokens, std::int32_t vocabulary) {
  return {{integers("ids", tokens, 1, 0, vocabulary - 1), integers("types", tokens, 1, 0, 1),
           integers("length", 1, 1, 1, tokens), integers("span", 1, 2, 0, tokens - 1)}};
}

SampleLayout scenes(std::int64_t side, std::int64_t boxes) {
  return {{real("image", side, side, 3), real("boxes", boxes, 1, 5)}};
}

Workload workload(const char* name, const char* model, std::uint32_t batch, std::uint32_t classes,
                  SampleLayout layout, double learning_rate = 0.01) {
  JobSpec spec;
  spec.name = name;
  spec.max_p = 1;
  spec.batch_size = batch;
  spec.steps = 1'000'000;
  spec.model = {.name = model, .classes = classes};
  spec.optimizer = {.learning_rate = learning_rate, .momentum = 0.9};
  return {name, spec, std::move(layout)};
}

// A language model at its published size, with AdamW and without dropout, as it is compared with
// that of transformers.
Workload decoder(const char* model, std::int64_t tokens, std::int32_t vocabulary,
                 std::uint32_t batch = 2) {
  const std::string name =
      std::string(model) + "_s" + std::to_string(tokens) + "_b" + std::to_string(batch);
  const auto ids = [&](const char* field) { return integers(field, tokens, 1, 0, vocabulary - 1); };
  Workload made = workload(name.c_str(), model, batch, 10, {{ids("ids"), ids("labels")}});
  made.spec.model.dropout = 0.0;
  made.spec.optimizer = {.kind = "adamw", .learning_rate = 1e-4};
  return made;
}

// [height = boxes][channels = 5] per sample: class, centre and size; class -1 = no box.
void fill_boxes(const SampleField& field, std::uint32_t classes, std::mt19937_64& random,
                std::span<float> words) {
  std::uniform_real_distribution<float> place(0.2F, 0.8F), size(0.05F, 0.4F);
  for (std::size_t box = 0; box * 5 < words.size(); ++box) {
    const bool present = box % static_cast<std::size_t>(field.height) < 2;
    float* b = &words[box * 5];
    b[0] = present ? static_cast<float>(random() % classes) : -1.0F;
    b[1] = place(random), b[2] = place(random);
    b[3] = size(random), b[4] = size(random);
  }
}

void fill_field(const Workload& workload, const SampleField& field, std::mt19937_64& random,
                std::span<float> words) {
  std::uniform_real_distribution<float> value(-1.7F, 1.7F);
  std::uniform_int_distribution<std::int32_t> integer(field.low, field.high);
  if (field.name == "boxes") return fill_boxes(field, workload.spec.model.classes, random, words);
  for (float& word : words) {
    if (field.name == "length") {
      word = std::bit_cast<float>(field.high);
    } else if (field.type == FieldType::kI32) {
      word = std::bit_cast<float>(integer(random));
    } else if (field.name == "label") {
      word = static_cast<float>(random() % 2);
    } else {
      word = value(random);
    }
  }
}

}  // namespace

std::vector<Workload> workloads() {
  std::vector<Workload> all = {
      workload("resnet18_cifar32_b32", "resnet18", 32, 10, images(32, 10)),
      workload("resnet50_64_b8", "resnet50", 8, 1000, images(64, 1000)),
      workload("shufflenetv2_64_b32", "shufflenetv2", 32, 1000, images(64, 1000)),
      workload("vgg19_64_b8", "vgg19", 8, 1000, images(64, 1000)),
      workload("swin_t_64_b4", "swin_t", 4, 1000, images(64, 1000)),
      // Its loss is a sum over boxes. With a learning rate of 0.01 it leaves the range of fp32
      // within ten steps.
      workload("yolov3_96_b2", "yolov3", 2, 80, scenes(96, 20), 1e-4),
      workload("neumf_b1024", "neumf", 1024, 10, ratings()),
      workload("bert_base_s64_b4", "bert", 4, 10, questions(64, 30522)),
      workload("electra_small_s64_b4", "electra", 4, 10, questions(64, 30522)),
      workload("resnet50_224_b32", "resnet50", 32, 1000, images(224, 1000)),
      workload("resnet50_224_b256", "resnet50", 256, 1000, images(224, 1000)),
      workload("bert_base_s384_b8", "bert", 8, 10, questions(384, 30522)),
      workload("bert_base_s512_b32", "bert", 32, 10, questions(512, 30522)),
      decoder("gpt2", 1024, 50257, 8), decoder("llama", 1024, 32000, 8)};
  for (const std::int64_t tokens : {64, 256, 1024}) {
    all.push_back(decoder("gpt2", tokens, 50257));
    all.push_back(decoder("llama", tokens, 32000));
  }
  return all;
}

void fill_randomly(const Workload& workload, std::uint64_t seed, std::span<float> words) {
  std::mt19937_64 random(seed);
  for (const SampleField& field : workload.layout.fields) {
    const auto count = static_cast<std::size_t>(field.words() * workload.spec.batch_size);
    fill_field(workload, field, random, words.first(count));
    words = words.subspan(count);
  }
}

}  // namespace es::bench
