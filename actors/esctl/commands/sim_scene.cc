#include "actors/esctl/commands/sim_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/base/job_file/price_options.h"
#include "actors/base/job_file/queue_file.h"

namespace es::actors::esctl {
namespace {

// For example "v100=32,p100=16".
Result<DeviceSet> parse_cluster(const std::string& text, const store::StepTimes& times) {
  DeviceSet cluster;
  std::string rest = text + ",";
  const std::string known = times.device_types_text();
  const auto bad = [&](const std::string& part) {
    return usage_error("--cluster " + text + ": \"" + part +
                       "\": allowed is TYPE=COUNT[,TYPE=COUNT...] with each type once and a count "
                       "above 0; a type consists of lower-case letters, digits, - and _" +
                       (known.empty() ? "" : "; types with step times: " + known));
  };
  for (std::size_t end = rest.find(','); end != std::string::npos; end = rest.find(',')) {
    std::string part = rest.substr(0, end);
    rest.erase(0, end + 1);
    std::string devices = part;
    if (const std::size_t equals = devices.find('='); equals != std::string::npos)
      devices[equals] = ':';
    const auto set = parse_device_set(devices);
    if (!set || set->counts.size() != 1 || part.find('=') == std::string::npos) return bad(part);
    if (cluster.count_of(set->counts[0].type) > 0) return bad(part);
    cluster.add(set->counts[0].type, set->counts[0].count);
  }
  return cluster;
}

// At least one device of each type remains.
DeviceSet scaled(const DeviceSet& cluster, double scale) {
  DeviceSet result;
  for (const DeviceCount& c : cluster.counts)
    result.add(c.type, static_cast<std::uint32_t>(std::max(1.0, std::round(c.count * scale))));
  return result;
}

}  // namespace

Result<Scene> read_scene(const SimOptions& options) {
  store::StepTimes times;
  if (!options.step_times.empty()) {
    auto read = store::read_step_times(options.step_times);
    if (!read) return read.error();
    times = *std::move(read);
  }
  const auto cluster = parse_cluster(options.cluster, times);
  if (!cluster) return cluster.error();
  const auto trace = store::read_trace(options.trace, options.workload);
  if (!trace) return trace.error();
  const std::uint64_t seed = options.world.seed;
  auto workload = simulator::make_workload(
      *trace, times, scaled(*cluster, options.scale),
      {.jitter_s = seed == 0 ? 0.0 : 1.0, .seed = seed, .resample = options.resample});
  if (!workload) return workload.error();
  auto queues = actors::read_queues(options.queues, options.quotas);
  if (!queues) return queues.error();
  for (const simulator::WorkJob& job : workload->jobs) {
    const ResourceSpec& asks = job.spec.resources;
    const Status known = scheduler::check_queue_of_job(*queues, asks.queue, asks.tenant);
    if (!known.ok())
      return usage_error(options.trace + ": job " + job.id + ": " + known.error().message);
  }
  Scene scene{*std::move(workload), options.world, *std::move(queues)};
  if (options.scale_s) {
    if (!scene.world.suspend_s) scene.world.suspend_s = scene.world.rescale_s;
    scene.world.rescale_s = *options.scale_s;
  }
  auto prices = actors::parse_prices(options.prices, options.spot_prices);
  if (!prices) return prices.error();
  scene.world.prices = *std::move(prices);
  if (options.claims.empty()) return scene;
  auto claims = store::read_claims(options.claims);
  if (!claims) return claims.error();
  scene.world.claims = *std::move(claims);
  return scene;
}

}  // namespace es::actors::esctl
