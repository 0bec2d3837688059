#include "store/recovery/records.h"

#include <algorithm>

#include "proto/base/digest.h"
#include "store/journal/claim_journal.h"
#include "store/journal/job_journal.h"
#include "store/journal/suspect_devices.h"
#include "store/journal/usage_journal.h"
#include "store/journal/vacated_nodes.h"
#include "store/kv/keys.h"
#include "store/ledger/ledger.h"
#include "store/metrics/metric.h"
#include "store/plans/plan_store.h"

namespace es::store {
namespace {

// Components of the keys of each table: t is a text, n is a number.
const std::map<std::string, std::string, std::less<>> kTables = {
    {"capability", "tnt"}, {"claim", "t"}, {"counter", "t"}, {"end", "t"},   {"evaluation", "tn"},
    {"final_state", "t"},  {"job", "t"},   {"ledger", "tn"}, {"meta", "t"},  {"plans", "tn"},
    {"suspect", "ttn"},    {"sync", "tn"}, {"tag", "t"},     {"usage", "t"}, {"vacated", "t"},
};
// Largest jump over versions behind a damaged place of a table with versions.
constexpr std::uint64_t kVersionJumpMax = std::uint64_t{1} << 40;

std::optional<std::string> take_text(std::string_view& rest) {
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) return {};
  std::string text(rest.substr(0, end));
  rest.remove_prefix(end + 1);
  return text;
}

std::string quoted(const std::string& text) {
  std::string safe;
  // A damaged key may contain any bytes, which must not reach a terminal.
  for (const char c : text) safe.push_back(c >= ' ' && c != 127 ? c : '?');
  return '"' + safe + '"';
}

bool is_digest(std::string_view value) {
  return Digest::parse(value).has_value();
}

Status expect(bool holds, std::string_view key) {
  if (holds) return {};
  return failure(name_of_key(key) + " in the state directory cannot be read: it is damaged");
}

Status check_totals(std::string_view value, std::string_view key) {
  const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
  return expect(MetricTotals::decode({bytes, value.size()}).ok(), key);
}

template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(result.error());
}

}  // namespace

std::optional<RecordKey> parse_key(std::string_view key) {
  const auto table = take_text(key);
  const auto form = table ? kTables.find(*table) : kTables.end();
  if (form == kTables.end()) return {};
  RecordKey parsed{*table, {}, {}};
  for (const char component : form->second) {
    if (component == 't') {
      auto text = take_text(key);
      if (!text) return {};
      parsed.texts.push_back(*std::move(text));
    } else {
      if (key.size() < 8) return {};
      parsed.number = decode_key_number(key.substr(0, 8));
      key.remove_prefix(8);
    }
  }
  // Bytes behind the last component: the key was not written by this program.
  if (!key.empty()) return {};
  return parsed;
}

std::string name_of_key(std::string_view key) {
  const auto parsed = parse_key(key);
  if (!parsed) return "a record of no known table, " + quoted(std::string(key.substr(0, 40)));
  const std::string what = quoted(parsed->texts.front());
  if (parsed->table == "job" || parsed->table == "claim" || parsed->table == "counter")
    return parsed->table + " " + what;
  if (parsed->table == "ledger" || parsed->table == "evaluation")
    return parsed->table + " of job " + what + ", version " + std::to_string(*parsed->number);
  if (parsed->table == "end" || parsed->table == "final_state")
    return parsed->table + " of job " + what;
  std::string text = parsed->table;
  for (const std::string& component : parsed->texts) text += " " + quoted(component);
  return text + (parsed->number ? " " + std::to_string(*parsed->number) : "");
}

Status check_record(std::string_view key, std::string_view value) {
  const auto parsed = parse_key(key);
  if (!parsed) return expect(false, key);
  const std::string& table = parsed->table;
  const std::string& name = parsed->texts.front();
  if (table == "job") return status_of(decode_job_record(value, name));
  if (table == "claim") {
    const auto claim = decode_claim(value);
    // The name is in the key and in the value. If they differ, the value belongs to another key.
    return claim ? expect(claim->name == name, key) : Status(claim.error());
  }
  if (table == "usage") {
    const auto usage = decode_usage(value);
    return usage ? expect(usage->queue == name, key) : Status(usage.error());
  }
  if (table == "vacated") {
    const auto node = decode_vacated_node(value);
    return node ? expect(node->node == name, key) : Status(node.error());
  }
  if (table == "suspect") {
    const auto suspect = decode_suspect_device(value);
    if (!suspect) return suspect.error();
    return expect(suspect->node == name && suspect->type.name == parsed->texts[1] &&
                      suspect->index == *parsed->number,
                  key);
  }
  if (table == "counter") return status_of(decode_counter(value, name));
  if (table == "tag") return status_of(decode_tag(value));
  if (table == "plans") return status_of(decode_plans(value, name_of_key(key)));
  if (table == "capability") return status_of(decode_capability(value, parsed->texts[1], name));
  if (table == "sync") return status_of(decode_sync(value, name_of_key(key)));
  if (table == "ledger")
    return status_of(decode_ledger_line(value, *parsed->number, name_of_key(key)));
  if (table == "evaluation") return check_totals(value, key);
  if (table == "final_state") return expect(is_digest(value), key);
  // The value is a Cap'n Proto message, which consists of words of 8 bytes. Nothing more is known
  // of it here.
  if (table == "end") return expect(!value.empty() && value.size() % 8 == 0, key);
  return {};  // meta: checked when the directory is opened
}

Status check_records(const KeyValueStore& store) {
  Status checked;
  ES_RETURN_IF_ERROR(
      // All keys that begin with a byte below 0xff; those of this program begin with a letter.
      store.scan({"\0", 1}, "\xff", [&](std::string_view key, std::string_view value) {
        checked = check_record(key, value);
        return checked.ok();
      }));
  return checked;
}

std::vector<std::string> starts_after(const std::map<std::string, std::string>& pairs,
                                      const std::string& after) {
  std::vector<std::string> starts;
  std::vector<std::string> jobs;
  for (const auto& [key, value] : pairs)
    if (const auto parsed = parse_key(key); parsed && parsed->table == "job")
      jobs.push_back(parsed->texts.front());
  // Any table, and any job within a table, may be the first one behind the damage. Starts are
  // cheap: each costs one seek.
  for (const auto& [table, form] : kTables) {
    starts.push_back(KeyBuilder(table).key());
    for (const std::string& job : jobs) starts.push_back(KeyBuilder(table).text(job).key());
  }
  const auto last = parse_key(after);
  if (last && (last->table == "ledger" || last->table == "evaluation"))
    // A table of versions may be long. Starts at growing distances find where it is readable again.
    for (std::uint64_t jump = 2; jump < kVersionJumpMax; jump *= 2)
      starts.push_back(
          KeyBuilder(last->table).text(last->texts.front()).number(*last->number + jump).key());
  // The caller takes the first start that works, so the starts must ascend for it to skip as little
  // as possible.
  std::ranges::sort(starts);
  // Also removes a start whose version has wrapped around 2^64.
  std::erase_if(starts, [&](const std::string& start) { return start <= after; });
  return starts;
}

}  // namespace es::store
