#include "actors/head/cluster_scheduler/shell/ledger_part.h"

#include <algorithm>
#include <bit>

namespace es::actors {
namespace {

// Numbers in one LedgerPart, so that it stays far below the limit of a frame.
constexpr std::size_t kPartNumbersMax = 64 * 1024;
constexpr std::size_t kDigestNumbers = 8;  // approximate size of a line without its losses

// Returns the number of lines for one part. REQUIRES: lines is not empty.
std::size_t part_of(const std::vector<store::LedgerLine>& lines) {
  // All lines of a job have one loss for each EST, so the first one stands for all.
  const std::size_t each = lines.front().losses.size() + kDigestNumbers;
  return std::min(lines.size(), std::max<std::size_t>(1, kPartNumbersMax / each));
}

void put_line(wire::LedgerLine::Builder b, const store::LedgerLine& line) {
  b.setVersion(line.version);
  auto losses = b.initLossBits(line.losses.size());
  for (std::size_t i = 0; i < line.losses.size(); ++i)
    losses.set(i, std::bit_cast<std::uint32_t>(line.losses[i]));
  if (!line.params_digest) return;
  b.initParams().setHigh(line.params_digest->high);
  b.getParams().setLow(line.params_digest->low);
}

}  // namespace

Result<std::optional<LedgerPart>> ledger_part(HeadStore& store, const JobId& job, Version begin,
                                              Version end) {
  auto record = store.load(job);
  if (!record) return record.error();
  if (!record->has_value()) return std::optional<LedgerPart>();
  auto lines = store.ledger().read(job, begin, end, kPartNumbersMax / kDigestNumbers);
  if (!lines) return lines.error();
  LedgerPart part{(*record)->spec_toml, (*record)->start_checkpoint, *std::move(lines), {}};
  if (part.lines.empty()) return std::optional(std::move(part));
  part.lines.resize(part_of(part.lines));
  const Version next = part.lines.back().version + 1;
  if (next < end) part.next = next;
  return std::optional(std::move(part));
}

void put(wire::LedgerPart::Builder b, const LedgerPart& part) {
  b.setSpecToml(part.spec_toml);
  b.setStartCheckpoint(part.start_checkpoint);
  auto list = b.initLines(part.lines.size());
  for (std::size_t i = 0; i < part.lines.size(); ++i) put_line(list[i], part.lines[i]);
  if (part.next) b.setNext(*part.next);
}

}  // namespace es::actors
