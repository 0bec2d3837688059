#include <algorithm>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "actors/views/fields_view.h"

namespace es::actors::esctl {
namespace {

struct FieldsOptions {
  std::string key;
  bool markdown = false;
  bool json = false;
};

// `key`: a field, or a table with all of its fields.
Result<std::vector<FieldValue>> chosen_fields(const std::string& key) {
  std::vector<FieldValue> fields = field_values(JobSpec{});
  if (key.empty()) return fields;
  std::erase_if(fields, [&](const FieldValue& value) {
    return value.field.key != key && table_of(value.field) != key;
  });
  if (fields.empty())
    return not_found("field " + key + ": allowed is a key of a job file, such as max_p or " +
                     "optimizer.momentum, or a table, such as optimizer");
  return fields;
}

Status fields_command(const FieldsOptions& options, Console& console) {
  const auto fields = chosen_fields(options.key);
  if (!fields) return fields.error();
  console.out << (options.json       ? fields_json(*fields) + "\n"
                  : options.markdown ? fields_markdown(*fields)
                                     : fields_text(*fields));
  return {};
}

}  // namespace

void add_fields_command(CLI::App& app, Shell& shell) {
  auto options = std::make_shared<FieldsOptions>();
  CLI::App* command = app.add_subcommand("fields",
                                         "Explain the fields of a job file: allowed values, "
                                         "defaults, and whether they decide the bits");
  command->add_option("key", options->key, "One field, or one table (default: all)")
      ->type_name("KEY");
  command->add_flag("--markdown", options->markdown, "Write the page docs/JOB-FILE.md");
  add_json_option(*command, options->json);
  command->footer("Example:\n  esctl fields optimizer");
  command->callback([options, &shell] {
    shell.exit_code = finish(fields_command(*options, shell.console), options->json, shell.console);
  });
}

}  // namespace es::actors::esctl
