#include "actors/head/admission/model_key.h"

namespace es::actors {
namespace {

// "image:28x28x1,label:1x1x1<=9"
std::string layout_text(const SampleLayout& layout) {
  std::string text;
  for (const SampleField& f : layout.fields) {
    text += (text.empty() ? "" : ",") + f.name + ":" + std::to_string(f.height) + "x" +
            std::to_string(f.width) + "x" + std::to_string(f.channels);
    if (f.type == FieldType::kI32) text += "<=" + std::to_string(f.high);
  }
  return text;
}

std::string architecture_text(const ModelSpec& model) {
  if (!model.file.empty()) return "file-" + model.file_digest;
  return model.name + "-" + model.size + "/w" + std::to_string(model.width) + "/c" +
         std::to_string(model.classes) + "/p" + std::to_string(model.dropout);
}

// Without adapters empty, so that speeds that were measured before still count.
std::string adapters_text(const LoraSpec& lora) {
  if (lora.rank == 0) return {};
  std::string text = "/r" + std::to_string(lora.rank) + "/p" + std::to_string(lora.dropout);
  for (const std::string& target : lora.targets) text += "/" + target;
  return text;
}

}  // namespace

std::string model_key(const JobSpec& spec, const SampleLayout& layout) {
  return architecture_text(spec.model) + "/" + layout_text(layout) + "/t" +
         std::to_string(spec.resources.threads) + "/" + level_name(spec.level) +
         adapters_text(spec.lora) + (spec.precision == "fp32" ? "" : "/" + spec.precision) +
         (spec.arithmetic == "fp32" ? "" : "/" + spec.arithmetic);
}

}  // namespace es::actors
