#include "scheduler/policy/common/queue_states.h"

#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

std::vector<QueueState> queue_states(const ClusterView& view) {
  std::vector<QueueState> states;
  if (view.queues.empty()) return states;
  ClusterTable table;
  ClusterView whole = view;
  whole.changed.reset();
  table.update(whole);
  const QueueTree& tree = table.queues();
  const std::vector<Counts> entitled = table.entitled();
  QueueUse use(tree);
  for (const Queue& queue : view.queues) states.push_back({queue});
  for (const JobRow& row : table.rows()) {
    if (!row.present || row.queue == tree.none()) continue;
    use.add(row.queue, table.held(row.slot));
    for (auto at = static_cast<std::int32_t>(row.queue); at != QueueTree::kTop;
         at = tree.parent(static_cast<std::uint32_t>(at)))
      ++(row.held_total > 0 ? states[static_cast<std::size_t>(at)].running
                            : states[static_cast<std::size_t>(at)].waiting);
  }
  for (std::uint32_t i = 0; i < states.size(); ++i)
    for (std::size_t t = 0; t < table.types(); ++t) {
      QueueState::OfType of{table.type_names()[t], tree.guarantee(i)[t]};
      if (tree.limit(i)[t] != QueueTree::kNoLimit) of.limit = tree.limit(i)[t];
      of.used = use.of(i)[t];
      of.entitled = entitled[i][t];
      states[i].types.push_back(std::move(of));
    }
  return states;
}

}  // namespace es::scheduler
