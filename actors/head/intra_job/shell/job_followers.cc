#include "actors/head/intra_job/shell/job_followers.h"

#include <memory>
#include <utility>

#include "actors/base/gateway/shell/visit.h"

namespace es::actors {

void JobFollowers::follow(const Inbound& inbound) {
  const ClientRequest request = request_of(inbound);
  const Status read = visit<wire::FollowJob>(inbound, [&](wire::FollowJob::Reader r) {
    take({request, r.getInfo()}, r.getLogFromStart(), r.getUntilNow());
  });
  if (!read.ok()) answers_.refuse(request, read.error());
}

void JobFollowers::take(const Follower& follower, bool log_from_start, bool until_now) {
  if (log_from_start)
    for (const std::string& line : log_.lines()) answer_line(follower, line);
  answer_info(follower, views_.shown_state());
  // Followers that stay are told by end().
  if (until_now || views_.is_settled()) return answer_end(follower);
  followers_.push_back(follower);
}

void JobFollowers::tell_line(const std::string& line) const {
  for (const Follower& follower : followers_) answer_line(follower, line);
}

// All followers share one encoded body.
void JobFollowers::tell_progress() {
  if (!std::exchange(progress_due_, false)) return;
  std::shared_ptr<const Frame> progress;
  for (const Follower& follower : followers_) {
    if (!follower.info) continue;
    if (!progress)
      progress = Msg<wire::JobEvent>::build({}, [&](wire::JobEvent::Builder b) {
                   put(b.initInfo(), views_.view());
                 }).frame();
    answers_.pass_on(follower.request, progress);
  }
}

void JobFollowers::end(JobState state) {
  for (const Follower& follower : followers_) {
    answer_info(follower, state);
    answer_end(follower);
  }
  followers_.clear();
}

void JobFollowers::answer_line(const Follower& follower, const std::string& line) const {
  answers_.answer<wire::JobEvent>(follower.request,
                                  [&](wire::JobEvent::Builder b) { b.setLogLine(line); });
}

void JobFollowers::answer_info(const Follower& follower, JobState state) const {
  if (!follower.info) return;
  answers_.answer<wire::JobEvent>(
      follower.request, [&](wire::JobEvent::Builder b) { put(b.initInfo(), views_.view(state)); });
}

void JobFollowers::answer_end(const Follower& follower) const {
  answers_.answer<wire::JobEvent>(follower.request,
                                  [](wire::JobEvent::Builder b) { b.setEnded(); });
}

}  // namespace es::actors
