#include "actors/esctl/client/cluster_facts.h"

#include <chrono>

#include "actors/base/job_file/job_file.h"
#include "actors/esctl/client/requests.h"

namespace es::actors::esctl {

Result<ClusterFacts> cluster_facts(Client& client, const JobId& job) {
  const auto details = describe_job(client, job);
  if (!details) return details.error();
  ClusterFacts facts{.job = details->job};
  auto spec = parse_job(details->spec_toml, "the job");
  if (!spec) return spec.error();
  facts.spec = *std::move(spec);
  auto jobs = list_jobs(client);
  if (!jobs) return jobs.error();
  facts.jobs = std::move(jobs->jobs);
  auto cluster = list_nodes(client);
  if (!cluster) return cluster.error();
  facts.nodes = std::move(cluster->nodes);
  facts.claims = std::move(cluster->claims);
  facts.queues = std::move(cluster->queues);
  // A job that is over has no plans, and the rest can be said without them.
  if (auto plans = list_plans(client, job)) facts.plans = *std::move(plans);
  facts.now_unix_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  return facts;
}

}  // namespace es::actors::esctl
