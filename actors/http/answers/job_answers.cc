#include "actors/http/answers/job_answers.h"

#include <nlohmann/json.hpp>

#include <cmath>

#include "actors/esctl/views/json_text.h"
#include "actors/esctl/views/render_json.h"

namespace es::actors::http {
namespace {

using Json = nlohmann::ordered_json;
using esctl::json_text;

Json text_or_nothing(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json summary(const JobView& job) {
  return {
      {"job", job.id},
      {"name", job.name},
      {"state", job.state},
      {"tenant", text_or_nothing(job.tenant)},
      {"level", job.level},
      {"max_p", job.max_p},
      {"steps", job.step},
      {"steps_total", job.last_step},
      {"placement", text_or_nothing(job.placement)},
      {"loss_last", job.loss_last},
      {"samples_per_s", job.samples_per_second_now > 0 ? Json(job.samples_per_second_now) : Json()},
      {"submitted_unix_ms", job.submitted_unix_ms},
      {"waiting_for", text_or_nothing(job.waiting_for)},
      {"warning", text_or_nothing(job.warning)},
      {"error", text_or_nothing(job.error)}};
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

}  // namespace

std::string job_list_json(const std::vector<JobView>& jobs, std::uint64_t total,
                          const std::string& warning) {
  Json list = Json::array();
  for (const JobView& job : jobs) list.push_back(summary(job));
  return json_text({{"jobs", list}, {"total", total}, {"warning", text_or_nothing(warning)}}, -1) +
         "\n";
}

std::string job_line_json(const JobView& job) {
  return json_text(Json::parse(esctl::job_json(job)), -1);
}

std::string curve_json(const Curve& curve) {
  Json points = Json::array();
  for (const CurvePoint& p : curve.points())
    points.push_back({p.version, number(p.least), number(p.mean), number(p.largest)});
  return json_text({{"steps_per_point", curve.steps_per_point()}, {"points", points}}, -1) + "\n";
}

std::string ledger_part_json(const std::string& job, const std::string& spec_toml,
                             const std::string& from, const std::vector<LedgerEntry>& lines,
                             std::uint64_t next) {
  Json list = Json::array();
  for (const LedgerEntry& line : lines) {
    Json losses = Json::array();
    for (const float loss : line.losses) losses.push_back(number(loss));
    list.push_back({{"version", line.version},
                    {"losses", losses},
                    {"params", line.params},
                    {"state", text_or_nothing(line.state)}});
  }
  return json_text({{"job", job},
                    {"spec_toml", spec_toml},
                    {"from", text_or_nothing(from)},
                    {"lines", list},
                    {"next", next}},
                   -1) +
         "\n";
}

std::string identity_json(const Identity& identity) {
  return json_text({{"name", identity.name},
                    {"role", role_name(identity.role)},
                    {"tenant", text_or_nothing(identity.tenant)}},
                   -1) +
         "\n";
}

}  // namespace es::actors::http
