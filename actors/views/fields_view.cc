#include "actors/views/fields_view.h"

#include <utility>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using Json = nlohmann::ordered_json;

const char* bits_text(Bits bits) {
  switch (bits) {
    case Bits::kDecided:
      return "yes";
    case Bits::kByLength:
      return "yes; a job may continue a checkpoint with another value";
    case Bits::kByLevel:
      return "yes; which kernels compute";
    case Bits::kByContent:
      return "no, but the content of the file does";
    case Bits::kNot:
      return "no";
  }
  return "?";
}

// What is allowed and where, on one line; for a type that says it all, the type.
std::string rule_text(const FieldValue& value) {
  std::string text = allowed_text(value.field);
  if (text.empty()) text = value.type;
  if (!value.field.unit.empty()) text += " (" + std::string(value.field.unit) + ")";
  if (!value.field.applies_to.empty()) text += ", for " + std::string(value.field.applies_to);
  return text;
}

std::string joined(const std::vector<std::string>& words, const char* quote) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? quote : std::string(", ") + quote) + word + quote;
  return text;
}

// A bar would end the cell.
std::string cell(std::string text) {
  // Two bytes on: past the new backslash and the bar, which has moved by one.
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string markdown_row(const FieldValue& value) {
  const JobField& field = value.field;
  std::string row = "| `" + std::string(name_in_table(field)) + "` | " + std::string(value.type);
  row += " | " + cell(allowed_text(field)) + " | " +
         (value.toml.empty() ? "" : '`' + value.toml + '`');
  row += " | " + std::string(field.unit);
  row += " | " + std::string(bits_text(field.bits)) + " | " + std::string(field.meaning);
  if (!field.applies_to.empty()) row += " For " + std::string(field.applies_to) + ".";
  return row + " |\n";
}

constexpr const char* kIntroduction = R"(# The job file

A job is described by a TOML file. Every key is optional, except that one of `steps`, `epochs` and
`stages` must say how long the job trains. An unknown key, a wrong type and a value that is not
allowed are errors. An error names the file, the key, the value and what is allowed. The text has at
most 256 KiB of UTF-8. A relative path begins at the directory of the job file.

The command `esctl fields --markdown` writes this page from the table in
[job_fields_table.h](../proto/base/job_fields_table.h), and a test compares the two.
[reference/jobs.md](reference/jobs.md) explains how fields work together, and the folder
configs/jobs has examples.

The column "bits" says whether the value decides the bits of the result. Two jobs end with the same
bits on all sets of devices that `level` allows if their fields with "yes" are equal and their data
and weights are equal.
)";

// The value as JSON. Numbers, texts and lists of them are written alike in TOML and in JSON; other
// values stay texts.
Json json_value(const FieldValue& value) {
  Json json = Json::parse(value.toml, nullptr, false);
  return json.is_discarded() ? Json(value.toml) : json;
}

std::vector<FieldValue> set_fields(const JobSpec& spec) {
  const std::vector<FieldValue> defaults = field_values(JobSpec{});
  std::vector<FieldValue> fields = field_values(spec), set;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const JobField& field = fields[i].field;
    const bool applies = !fields[i].excluded && (field.applies == nullptr || field.applies(spec));
    if (applies && fields[i].toml != defaults[i].toml) set.push_back(std::move(fields[i]));
  }
  return set;
}

constexpr const char* kTableHead =
    "| key | type | allowed | default | unit | bits | meaning |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

// The fields of the tables of a list.
std::string tables_markdown(const FieldValue& list) {
  std::string text = "\n## `[[" + std::string(list.field.key) + "]]`\n\n" + kTableHead;
  for (const FieldValue& member : list.members) text += markdown_row(member);
  return text;
}

std::string tasks_markdown() {
  std::string text =
      "\n## Models and data\n\n| task | `model.name` | `data.kind` |\n| --- | --- | --- |\n";
  for (const TaskNames& names : task_names())
    text += std::string("| ") + task_name(names.task) + " | " +
            (names.models.empty() ? "none: `model.file`" : joined(names.models, "`")) + " | " +
            joined(names.data_kinds, "`") + " |\n";
  return text;
}

}  // namespace

std::string fields_text(const std::vector<FieldValue>& fields) {
  std::string text;
  for (const FieldValue& value : fields) {
    text += (text.empty() ? "" : "\n") + std::string(value.field.key) + " = " + value.toml + "\n";
    text += "    " + std::string(value.field.meaning) + "\n";
    text += "    allowed: " + rule_text(value) + "\n";
    text += "    decides the bits: " + std::string(bits_text(value.field.bits)) + "\n";
  }
  return text;
}

std::string fields_json(const std::vector<FieldValue>& fields) {
  Json list = Json::array();
  for (const FieldValue& value : fields)
    list.push_back({{"key", value.field.key},
                    {"type", value.type},
                    {"allowed", allowed_text(value.field)},
                    {"default", value.toml},
                    {"unit", value.field.unit},
                    {"for", value.field.applies_to},
                    {"decides_bits", value.field.bits != Bits::kNot},
                    {"meaning", value.field.meaning}});
  return json_text({{"fields", list}});
}

std::string job_fields_text(const JobSpec& spec) {
  std::vector<std::vector<std::string>> rows{{"FIELD", "VALUE", "DECIDES THE BITS"}};
  for (const FieldValue& value : set_fields(spec))
    rows.push_back({std::string(value.field.key), value.toml, bits_text(value.field.bits)});
  return table(rows);
}

nlohmann::ordered_json job_fields_json(const JobSpec& spec) {
  Json list = Json::array();
  for (const FieldValue& value : set_fields(spec))
    list.push_back({{"key", value.field.key},
                    {"value", json_value(value)},
                    {"decides_bits", value.field.bits != Bits::kNot}});
  return list;
}

std::string fields_markdown(const std::vector<FieldValue>& fields) {
  std::string text = kIntroduction;
  // No table has this name, so the first field begins a section too, although its table is empty.
  std::string_view table = "-";
  std::string lists;
  for (const FieldValue& value : fields) {
    if (table_of(value.field) != table) {
      table = table_of(value.field);
      text += table.empty() ? "\n## Top level\n\n" : "\n## `[" + std::string(table) + "]`\n\n";
      text += kTableHead;
    }
    text += markdown_row(value);
    if (!value.members.empty()) lists += tables_markdown(value);
  }
  return text + lists + tasks_markdown();
}

}  // namespace es::actors
