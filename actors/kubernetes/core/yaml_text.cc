#include "actors/kubernetes/core/yaml_text.h"

namespace es::actors::kubernetes {
namespace {

bool is_block(const Json& value) {
  return value.is_structured() && !value.empty();
}

void write_block(const Json& value, std::size_t depth, std::string& text);

// What follows "key:" or "-".
void write_value(const Json& value, std::size_t depth, std::string& text) {
  if (!is_block(value)) {
    text += " " + value.dump() + "\n";
    return;
  }
  text += "\n";
  write_block(value, depth + 1, text);
}

void write_block(const Json& value, std::size_t depth, std::string& text) {
  const std::string indent(2 * depth, ' ');
  if (value.is_object())
    for (const auto& [key, member] : value.items()) {
      text += indent + key + ":";
      write_value(member, depth, text);
    }
  else
    for (const Json& item : value) {
      text += indent + "-";
      write_value(item, depth, text);
    }
}

}  // namespace

std::string yaml_text(const Json& object) {
  std::string text;
  write_block(object, 0, text);
  return text;
}

}  // namespace es::actors::kubernetes
