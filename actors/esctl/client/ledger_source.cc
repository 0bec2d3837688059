#include "actors/esctl/client/ledger_source.h"

#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/requests.h"
#include "actors/views/ledger_lines.h"
#include "proto/text_of.h"
#include "store/checkpoint/file_system.h"

namespace es::actors::esctl {
namespace {

struct Part {
  std::string spec_toml, from;
  std::vector<store::LedgerLine> lines;
  Version next = 0;
};

Part part_from(wire::LedgerPart::Reader r) {
  Part part{text_of(r.getSpecToml(), "job spec"), line_of(r.getStartCheckpoint()), {}, r.getNext()};
  for (const auto line : r.getLines()) part.lines.push_back(ledger_line_from(line));
  return part;
}

// Joins the parts of a ledger, from the version `begin` on.
Result<Part> read_parts(Client& client, const JobId& job, Version begin) {
  Part whole;
  for (;;) {
    const auto answer =
        client.ask<wire::LedgerPart, wire::ReadLedger>(job, [&](wire::ReadLedger::Builder b) {
          b.setBegin(begin);
          b.setEnd(std::numeric_limits<Version>::max());
        });
    if (!answer) return answer.error();
    auto part = answer->decode(part_from);
    if (!part) return part.error();
    whole.spec_toml = std::move(part->spec_toml);
    whole.from = std::move(part->from);
    for (store::LedgerLine& line : part->lines) whole.lines.push_back(std::move(line));
    // 0 ends the series. The comparison also ends it if a faulty head would never advance.
    if (part->next <= begin) return whole;
    begin = part->next;
  }
}

// For example "cpu-avx2:4@20,cpu-scalar:1@10". Stages without a step are left out.
std::string placements_of(const JobView& job) {
  std::string text;
  for (const StageView& stage : job.stages)
    if (stage.steps > 0)
      text += (text.empty() ? "" : ",") + stage.placement + "@" + std::to_string(stage.steps);
  return text;
}

Result<store::LedgerFile> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return not_found(path + ": cannot be read");
  return store::decode_ledger_file(text.str(), path);
}

}  // namespace

Digest bits_digest(const JobSpec& spec) {
  return digest_of(bits_toml(spec));
}

Result<std::vector<store::LedgerLine>> read_ledger_lines(Client& client, const JobId& job,
                                                         Version begin) {
  Result<Part> whole = read_parts(client, job, begin);
  if (!whole) return whole.error();
  return std::move(whole->lines);
}

Result<store::LedgerFile> read_ledger(Client& client, const JobId& job) {
  Result<Part> whole = read_parts(client, job, 0);
  if (!whole) return whole.error();
  store::LedgerFile ledger;
  ledger.spec_toml = std::move(whole->spec_toml);
  ledger.from = std::move(whole->from);
  ledger.lines = std::move(whole->lines);
  const auto spec = parse_job(ledger.spec_toml, "job " + job);
  if (!spec) return spec.error();
  ledger.spec = bits_digest(*spec);
  // After the lines, so that the stages of a running job cover all of them.
  const auto details = describe_job(client, job);
  if (!details) return details.error();
  ledger.job = details->job.id;
  ledger.placements = placements_of(details->job);
  ledger.checkpoint = details->job.checkpoint;
  return ledger;
}

bool is_ledger_file(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(name, ignored);
}

Result<store::LedgerFile> open_ledger(const std::string& name, const HeadOptions& head) {
  if (is_ledger_file(name)) return read_file(name);
  const auto client = connect(head);
  if (!client) return client.error();
  return read_ledger(**client, name);
}

Status write_ledger_file(const store::LedgerFile& ledger, const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, code)))
    return refused(path + ": exists already: allowed is a new name");
  store::FileSystem& files = store::posix_file_system();
  const auto file = files.create_file(path);
  if (!file) return file.error();
  const std::string text = store::encode_ledger_file(ledger);
  Status written = (*file)->append(std::as_bytes(std::span(text)));
  if (written.ok()) written = (*file)->finish();
  if (!written.ok()) (void)files.remove_file(path);  // a partial file is not a ledger
  return written;
}

}  // namespace es::actors::esctl
