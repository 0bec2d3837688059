#include "actors/head/cluster_scheduler/shell/nodes_to_leave.h"

#include <algorithm>
#include <cmath>

#include "actors/base/gateway/shell/visit.h"
#include "actors/base/log/log.h"
#include "proto/base/number_text.h"
#include "proto/messages.h"
#include "proto/text_of.h"

namespace es::actors {
namespace {

constexpr double kNoticeSecondsMax = 1e7;

struct Notice {
  std::string node;
  double seconds = 0;
  bool cancel = false;
};

Result<Notice> notice_of(const Inbound& request) {
  return visit<wire::VacateNode>(request, [](wire::VacateNode::Reader r) {
    return Notice{name_of(r.getNode(), "node"), r.getSeconds(), r.getCancel()};
  });
}

Status check(const Notice& notice, const ClusterCore& core, bool is_vacated) {
  const auto nodes = core.nodes();
  const bool known = std::ranges::any_of(
      nodes, [&](const DevicePool::NodeView& view) { return view.name == notice.node; });
  if (!known && !is_vacated)
    return not_found("node \"" + notice.node + "\": there is no such node");
  if (!(notice.seconds >= 0 && notice.seconds <= kNoticeSecondsMax))
    return usage_error("seconds = " + number_text(notice.seconds) + ": allowed is 0 to " +
                       number_text(kNoticeSecondsMax));
  if (notice.cancel && !is_vacated)
    return refused("node \"" + notice.node + "\": its jobs need not leave it");
  return {};
}

}  // namespace

void NodesToLeave::announce(const std::string& node, std::uint64_t gone_unix_ms) {
  const double left_s = gone_unix_ms == 0 ? 0 : clock_.seconds_until(gone_unix_ms);
  book_.vacate(node, gone_unix_ms == 0 ? 0 : clock_.now_s() + left_s, gone_unix_ms);
  decisions_.take(cluster::NodeVacated{node, leave_time_s(clock_.now_s(), left_s)});
}

Status NodesToLeave::restore() {
  const auto nodes = journal_.load_all();
  if (!nodes) return nodes.error();
  for (const store::VacatedNode& node : *nodes) {
    // A node that is gone by now and comes back is a new one.
    if (node.gone_unix_ms != 0 && node.gone_unix_ms <= clock_.unix_ms())
      ES_RETURN_IF_ERROR(journal_.erase(node.node));
    else
      announce(node.node, node.gone_unix_ms);
  }
  return {};
}

void NodesToLeave::forget_gone(const std::string& node) {
  if (!book_.is_gone(node, clock_.now_s())) return;
  book_.stop_vacating(node);
  writes_.when_possible(
      [this, node] { return book_.is_vacated(node) ? Status() : journal_.erase(node); });
  decisions_.record(cluster::NodeStays{node});
}

Status NodesToLeave::vacate(const Inbound& request) {
  const auto notice = notice_of(request);
  if (!notice) return notice.error();
  const std::string& node = notice->node;
  ES_RETURN_IF_ERROR(check(*notice, decisions_.core(), book_.is_vacated(node)));
  const std::uint64_t gone_unix_ms =
      notice->seconds == 0
          ? 0
          : clock_.unix_ms() + static_cast<std::uint64_t>(std::llround(notice->seconds * 1e3));
  ES_RETURN_IF_ERROR(
      writes_.checked(notice->cancel ? journal_.erase(node) : journal_.save({node, gone_unix_ms})));
  if (notice->cancel) {
    log::info("jobs may use the node again", {.node = node});
    book_.stop_vacating(node);
    decisions_.take_now(cluster::NodeStays{node});
    return {};
  }
  log::info(gone_unix_ms == 0 ? std::string("jobs leave the node")
                              : "the node will be gone in " + number_text(notice->seconds) + " s",
            {.node = node});
  announce(node, gone_unix_ms);
  decisions_.decide_now();
  return {};
}

}  // namespace es::actors
