#pragma once
// JobFollowers are the clients that watch one job: each gets the lines of its log, and descriptions
// of the job if it has asked for them, until the job is over. One owner.
#include <string>
#include <vector>

#include "actors/head/intra_job/shell/client_answers.h"
#include "actors/head/intra_job/shell/job_log.h"
#include "actors/head/intra_job/shell/job_views.h"

namespace es::actors {

class JobFollowers {
 public:
  // `views` and `log` outlive this object.
  JobFollowers(ClientAnswers answers, const JobViews& views, const JobLog& log)
      : answers_(std::move(answers)), views_(views), log_(log) {}

  // FollowJob of a client. It is answered at once, and again when something happens.
  void follow(const Inbound& inbound);
  void tell_line(const std::string& line) const;
  // The job has made progress, which tell_progress() tells.
  void progress() { progress_due_ = true; }
  void tell_progress();
  // The job is over: tells all of them and forgets them.
  void end(JobState state);

 private:
  struct Follower {
    ClientRequest request;
    bool info = false;
  };
  void take(const Follower& follower, bool log_from_start, bool until_now);
  void answer_line(const Follower& follower, const std::string& line) const;
  void answer_info(const Follower& follower, JobState state) const;
  void answer_end(const Follower& follower) const;

  ClientAnswers answers_;
  const JobViews& views_;
  const JobLog& log_;
  std::vector<Follower> followers_;
  bool progress_due_ = false;
};

}  // namespace es::actors
