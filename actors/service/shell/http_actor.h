#pragma once
// HttpActor answers the requests of the HTTP service. It is one more client of the head: a request
// becomes the same message that esctl would send (client.capnp), and the answer becomes JSON.
//
// Accepts   HttpCall from the server; Inbound from the switchboard, where it is the peer kHttpPeer;
//           HandOn, which it answers.
// Sends     Outbound to the head, through the switchboard.
// State     The requests that wait for an answer; streams of events; the last lists of jobs; curves
//           of some jobs; how many devices were in use since the start; counts of requests. Nothing
//           is saved but the audit log, which has a line for every request that may change
//           something.
// Fails     A head that does not answer in time gives status 500. When this actor dies, open
//           requests get status 503, and the head continues.
// Order     Requests are independent of each other.
// Limits    Streams: one for each connection of the server. Lists of jobs: one request to the head
//           at a time for each question, which all clients share.
// Threads   Cooperative. Files: the tokens, at most once a second, and the audit log.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/access/shell/audit_log.h"
#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/core/job_filter.h"
#include "actors/service/answers/job_answers.h"
#include "actors/service/answers/metrics.h"
#include "actors/service/core/device_history.h"
#include "actors/service/core/routes.h"
#include "actors/service/core/utilisation.h"
#include "actors/service/shell/http_server.h"
#include "actors/views/claims_view.h"
#include "actors/views/explain.h"
#include "actors/views/log_filter.h"
#include "actors/views/queues_view.h"
#include "proto/messages.h"

namespace es::actors::http {

struct HttpActorOptions {
  // Empty: every request has the role `without_tokens`. Only for a server on the loopback address.
  std::filesystem::path tokens;
  Role without_tokens = Role::kView;
  std::filesystem::path audit_log;  // empty: none, because nothing can be changed
  // On a daemon that is only a node: /metrics of this process is all that is served.
  bool metrics_only = false;
  std::function<ProcessFacts()> process;
  std::function<std::uint64_t()> unix_ms;
  std::string instance;  // names this process in OTLP
};

struct HttpCall {
  Request request;
  std::shared_ptr<Reply> reply;
  // From this process (otlp_actor.h): the metrics as OTLP, whatever the request says. It needs no
  // token, and is not counted.
  bool otlp = false;
};

// The head has not answered a request in time.
struct HttpExpired {
  std::uint64_t request = 0;
};
// Tells streams that their connection is alive, which shows those whose client has gone, and ends
// traces whose client has gone.
struct HttpBeat {};
// Time to note which devices are in use, and what they do.
struct HttpSample {};
// Shows the newest state of a job to those who follow it.
struct HttpShow {
  JobId job;
};

// A request that was admitted: who sent it, and what it asks for.
struct Caller {
  Request request;
  Identity identity;
  const Route* route = nullptr;
  std::string argument;  // the part of the path in braces
  std::shared_ptr<Reply> reply;
  bool otlp = false;  // as in HttpCall
};

class HttpState {
 public:
  void init(caf::stateful_actor<HttpState>* self, HttpActorOptions options, caf::actor gateway);
  void on_call(HttpCall call);
  void on_inbound(const Inbound& inbound);
  void on_expired(std::uint64_t request);
  void on_beat();
  void on_sample();
  void on_show(const JobId& job);

 private:
  using FrameResult = Result<std::shared_ptr<const Frame>>;
  using Then = std::function<void(const FrameResult&)>;
  struct Waiting {
    Then then;
    bool stream = false;  // stays until its stream has ended
  };
  struct Follow {
    std::optional<Msg<wire::JobEvent>> message;  // the newest progress, which is not shown yet
    std::string state;                           // of the newest message
    std::string last;  // the last event with the state of the job, for those who come later
    std::vector<std::shared_ptr<Reply>> readers;
  };
  struct JobList {
    std::vector<JobView> jobs;
    std::string warning;
    std::uint64_t total = 0;                      // jobs that meet the filter's conditions
    std::map<std::string, std::uint64_t> states;  // the same by state, whatever state it asks for
  };
  using ListThen = std::function<void(const JobList&)>;
  // The answer of the head to one question, which all clients with this question share.
  struct SharedList {
    std::shared_ptr<const JobList> list;          // null before the first answer
    std::chrono::steady_clock::time_point until;  // from then on the list is too old
    std::string text;                             // the JSON of the list, once it was asked for
    std::vector<std::pair<Caller, ListThen>> readers;  // wait for the answer
  };
  struct Traced {
    JobId job;
    std::shared_ptr<Reply> reply;
  };
  struct LossCurve {
    Curve curve{1024};
    std::vector<Caller> readers;  // wait for the part of the ledger that is being read
    std::uint64_t used = 0;       // the number of the last request that needed it
  };

  // --- admission of requests (http_actor.cc)
  Status check_page(const Request& request) const;
  Result<Identity> identity_of(const Request& request);
  Status reload_tokens();
  void finish(const Caller& caller, Response response);
  void count(const std::string& method, int status);
  void audit(const Request& request, const Identity& identity, int status);
  void dispatch(const Caller& caller);

  // --- requests to the head
  template <class Schema, class Fill>
  void post(const JobId& job, Fill&& fill, std::chrono::milliseconds limit, Then then,
            bool stream = false);
  template <class Answer, class Schema, class Fill, class Done>
  void ask(const Caller& caller, const JobId& job, Fill&& fill, Done&& done,
           std::chrono::milliseconds limit = std::chrono::seconds(60));
  template <class Schema, class Fill>
  void command(const Caller& caller, const JobId& job, Fill&& fill,
               std::chrono::milliseconds limit = std::chrono::minutes(10));

  // --- jobs (http_jobs.cc)
  // A job, its specification, and its spans of training.
  struct Details {
    JobView job;
    std::string spec_toml;
    TimelineView timeline;
  };
  using DetailsThen = std::function<void(const Details&)>;
  static Result<JobList> read_job_list(const std::shared_ptr<const Frame>& frame);
  void with_job(const Caller& caller, DetailsThen then);
  void with_jobs(const Caller& caller, const cluster::JobFilter& filter, ListThen then);
  void ask_for_jobs(const cluster::JobFilter& filter);
  void on_job_list(const cluster::JobFilter& filter, std::chrono::steady_clock::time_point asked,
                   Result<JobList> list);
  void drop_old_lists();
  static cluster::JobFilter live_jobs(const Identity& reader);
  void list_jobs(const Caller& caller);
  void submit(const Caller& caller);
  void job_action(const Caller& caller);
  void change_job(const Caller& caller, const JobId& job);
  void explain(const Caller& caller, const Details& details);
  void explain_with_nodes(const Caller& caller, const std::shared_ptr<ClusterFacts>& facts);
  void checkpoint_job(const Caller& caller, const JobId& job);

  // --- what a job has done and does (http_job_reads.cc)
  void follow(const Caller& caller, const JobId& job);
  void on_follow_event(const JobId& job, const FrameResult& frame);
  static void push_all(Follow& follow, const std::string& text);
  void end_follow(const JobId& job);
  void read_log(const Caller& caller, const JobView& job);
  void read_worker_log(const Caller& caller, const JobView& job, const LogFilter& filter);
  void read_curve(const Caller& caller, const JobId& job);
  void continue_curve(const JobId& job);
  void on_curve_part(const JobId& job, const FrameResult& frame);
  void read_ledger(const Caller& caller, const JobId& job);
  void trace(const Caller& caller, const JobId& job);
  void stop_abandoned_traces();

  // --- the cluster (http_cluster.cc)
  void nodes(const Caller& caller);
  void claims(const Caller& caller);
  void cluster(const Caller& caller);
  void node_history(const Caller& caller);
  void note_devices(const std::vector<NodeView>& nodes);
  void queues(const Caller& caller);
  void make_claim(const Caller& caller);
  void make_reservation(const Caller& caller);
  void vacate_node(const Caller& caller);
  void clear_device(const Caller& caller);
  void metrics(const Caller& caller);
  void answer_metrics(const Caller& caller, const MetricFamilies& families);

  caf::stateful_actor<HttpState>* self_ = nullptr;
  HttpActorOptions options_;
  caf::actor gateway_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Waiting> waiting_;
  std::map<JobId, Follow> follows_;
  std::map<JobId, LossCurve> curves_;
  std::map<std::uint64_t, Traced> traces_;  // by the number of the request

  std::map<cluster::JobFilter, SharedList> lists_;
  Utilisation utilisation_{1024};
  // About 9 kB for each device.
  DeviceHistory device_history_{128, 4096};

  std::vector<Token> tokens_;
  std::optional<std::filesystem::file_time_type> tokens_time_;
  std::chrono::steady_clock::time_point tokens_checked_;
  std::optional<access::AuditLog> audit_;
  RequestCounts requests_;
};

caf::behavior http_actor(caf::stateful_actor<HttpState>* self, HttpActorOptions options,
                         caf::actor gateway);

}  // namespace es::actors::http

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::HttpCall)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::HttpExpired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::HttpBeat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::HttpSample)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::http::HttpShow)
