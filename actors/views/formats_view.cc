#include "actors/views/formats_view.h"

#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "proto/message_type.h"
#include "store/checkpoint/manifest.h"
#include "store/journal/claim_journal.h"
#include "store/journal/job_journal.h"
#include "store/ledger/ledger_file.h"

namespace es::actors {
namespace {

FormatView of(const char* name, std::pair<std::uint32_t, std::uint32_t> versions,
              const char* otherwise) {
  return {name, versions.first, versions.second, otherwise};
}

std::string range(const FormatView& format) {
  const std::string written = std::to_string(format.written);
  return format.oldest == format.written ? written
                                         : std::to_string(format.oldest) + " to " + written;
}

}  // namespace

std::vector<FormatView> formats() {
  return {
      of("protocol", {kProtocolVersion, kProtocolVersion},
         "a client or a daemon with another number is refused"),
      of("job record in the journal", store::job_record_versions(), "the head refuses to start"),
      of("claim record in the journal", store::claim_record_versions(),
         "the head refuses to start"),
      of("checkpoint", {store::kOldestCheckpointFormat, store::kCheckpointFormatVersion},
         "refused"),
      of("ledger file", store::ledger_file_versions(), "refused; write it anew from the job"),
  };
}

std::string formats_text(const std::vector<FormatView>& formats) {
  std::vector<std::vector<std::string>> rows{{"FORMAT", "WRITTEN", "READ", "ANOTHER ONE"}};
  for (const FormatView& f : formats)
    rows.push_back({f.name, std::to_string(f.written), range(f), f.otherwise});
  return table(rows);
}

std::string formats_markdown(const std::vector<FormatView>& formats) {
  std::string text =
      "| format | written | read | what happens with another one |\n| --- | --- | --- | --- |\n";
  for (const FormatView& f : formats)
    text += "| " + f.name + " | " + std::to_string(f.written) + " | " + range(f) + " | " +
            f.otherwise + " |\n";
  return text;
}

std::string formats_json(const std::vector<FormatView>& formats) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FormatView& f : formats)
    list.push_back({{"format", f.name},
                    {"written", f.written},
                    {"oldest_read", f.oldest},
                    {"otherwise", f.otherwise}});
  return json_text({{"formats", list}});
}

}  // namespace es::actors
