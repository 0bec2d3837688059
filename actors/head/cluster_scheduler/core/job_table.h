#pragma once
// JobTable: which jobs a head knows, without their actors. It has their ids, the order in which
// they were submitted, who may see them, and which of them are over.
//
// It has no clock, no I/O and no actor. Not thread-safe; it has one owner.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "actors/base/access/core/identity.h"
#include "proto/base/ids.h"

namespace es::actors {

class JobTable {
 public:
  // The ids of new jobs end in `tag`; empty: they do not.
  explicit JobTable(std::string tag) : tag_(std::move(tag)) {}

  // Returns the id of a new job. `sequence` makes it unique.
  JobId new_id(const std::string& name, std::uint64_t sequence) const;
  // Returns the id that a user means, who may omit the tag. The job need not exist.
  JobId find(const JobId& named) const;

  // A job is the last one in the order of submission. `request`: the id of the request that has
  // made it; empty: none. REQUIRES: there is no such job.
  void add_live(const JobId& job, const std::string& tenant, const std::string& request);
  void add_over(const JobId& job, const std::string& tenant, const std::string& request);
  // The job is over. Returns false, and does nothing, if it was over before or is not known.
  bool end(const JobId& job);
  // REQUIRES: the job is known and over.
  void forget(const JobId& job);

  bool contains(const JobId& job) const { return jobs_.contains(job); }
  bool is_over(const JobId& job) const;  // false if it is not known
  // Empty: it has none. REQUIRES: the job is known.
  const std::string& tenant_of(const JobId& job) const { return jobs_.at(job).tenant; }
  // Returns the job that this request has made; nullptr: none has.
  const JobId* made_by(const std::string& request) const;
  // Whether this client may know the job; nullptr: a client that may see all jobs. A job that does
  // not exist hides nothing.
  bool shows(const access::Identity* client, const JobId& job) const;
  // The jobs that are not over, ascending.
  const std::set<JobId>& live() const { return live_; }
  // All jobs in the order of submission, by a number that only grows while the last one stays.
  const std::map<std::uint64_t, JobId>& in_order() const { return order_; }

  // A live job keeps devices that were called back, for this reason; empty: it does not any more.
  // Ignored for other jobs.
  void keeps_devices(const JobId& job, const std::string& reason);
  // Empty: it keeps none, or is not known.
  std::string why_devices_are_kept(const JobId& job) const;

 private:
  struct Job {
    std::uint64_t number = 0;  // key in order_
    std::string tenant;
    std::string request;
    std::string keeps_devices{};
  };
  void add(const JobId& job, const std::string& tenant, const std::string& request);

  const std::string tag_;
  std::map<JobId, Job> jobs_;
  std::set<JobId> live_;
  std::map<std::uint64_t, JobId> order_;
  std::map<std::string, JobId> requests_;
};

}  // namespace es::actors
