// NodeAgent: the saved states of jobs on this node's disk, for a head that may not see it. Each
// request runs on a thread of its own until it is served, because a disk that does not answer must
// not make the node look dead.
#include <caf/all.hpp>

#include "actors/base/gateway/shell/visit.h"
#include "actors/node/shell/node_agent_actor.h"
#include "actors/worker/state/saved_state_files.h"
#include "store/checkpoint/layout.h"
#include "store/path_roots.h"

namespace es::actors {
namespace {

using FramePtr = std::shared_ptr<const Frame>;

constexpr std::uint32_t kPartBytesMax = std::uint32_t{4} << 20;

template <class Schema>
using ListOf = capnp::List<Schema>;

std::vector<SavedState> states_from(ListOf<wire::SavedState>::Reader list) {
  std::vector<SavedState> states;
  for (const auto state : list) states.push_back(saved_state_from(state));
  return states;
}

template <class List>
void put_texts(List list, const std::vector<std::string>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) list.set(static_cast<unsigned>(i), texts[i]);
}

FramePtr find_all(const Envelope& envelope, const std::vector<SavedState>& states) {
  return Msg<wire::StatesFound>::build(envelope,
                                       [&](wire::StatesFound::Builder b) {
                                         auto list = b.initStates(states.size());
                                         for (std::size_t i = 0; i < states.size(); ++i) {
                                           const FoundState found = find_state(states[i]);
                                           put(list[i].initState(), found.state);
                                           list[i].setSight(static_cast<std::uint8_t>(found.sight));
                                           list[i].setError(found.error);
                                         }
                                       })
      .frame();
}

FramePtr remove_all(const Envelope& envelope, const StateRemoval& removal) {
  const Removed removed = remove_states(removal);
  // All nodes are asked, and most of them have nothing to remove. They send no answer.
  if (removed.paths.empty() && removed.problems.empty()) return nullptr;
  return Msg<wire::StatesRemoved>::build(
             envelope,
             [&](wire::StatesRemoved::Builder b) {
               put_texts(b.initRemoved(removed.paths.size()), removed.paths);
               put_texts(b.initProblems(removed.problems.size()), removed.problems);
             })
      .frame();
}

// The piece of a state that a worker requests.
struct PartWanted {
  std::string path;
  std::uint8_t file = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

FramePtr part_answer(const Envelope& envelope, const PartWanted& wanted, auto&& fill) {
  return Msg<wire::StatePart>::build(envelope,
                                     [&](wire::StatePart::Builder b) {
                                       b.setPath(wanted.path);
                                       b.setFile(wanted.file);
                                       b.setOffset(wanted.offset);
                                       fill(b);
                                     })
      .frame();
}

FramePtr no_part(const Envelope& envelope, const PartWanted& wanted, const std::string& error,
                 bool gone) {
  return part_answer(envelope, wanted, [&](wire::StatePart::Builder b) {
    b.setError(error);
    b.setGone(gone);
  });
}

// `envelope.step` is the version that the worker was told to load.
FramePtr look_whole(const Envelope& envelope, const PartWanted& wanted) {
  const FoundState found = verify_state({wanted.path, envelope.step, {}});
  if (found.sight != protocol::Sight::kWhole)
    return no_part(envelope, wanted, found.error, found.sight == protocol::Sight::kGone);
  const auto sizes = file_sizes(wanted.path);
  if (!sizes) return no_part(envelope, wanted, sizes.error().message, false);
  return part_answer(envelope, wanted, [&](wire::StatePart::Builder b) {
    auto list = b.initSizes(sizes->size());
    for (unsigned i = 0; i < sizes->size(); ++i) list.set(i, (*sizes)[i]);
  });
}

FramePtr read(const Envelope& envelope, const PartWanted& wanted) {
  // Number 0 requests the sizes of all files. They are sent only if the whole checkpoint was
  // verified, so a worker never begins to fetch a damaged one.
  if (wanted.file == 0) return look_whole(envelope, wanted);
  // The numbers come from another process, so they are checked before they are used as an index or
  // a size.
  if (wanted.file > std::size(store::kCheckpointFiles) || wanted.bytes > kPartBytesMax)
    return no_part(envelope, wanted, "there is no such part of a checkpoint", false);
  // Numbers from 1 on name the files of a checkpoint in the order of kCheckpointFiles.
  const auto part = read_part(wanted.path, wanted.file - 1U, wanted.offset, wanted.bytes);
  if (!part) return no_part(envelope, wanted, part.error().message, false);
  return part_answer(envelope, wanted, [&](wire::StatePart::Builder b) {
    b.setData({reinterpret_cast<const kj::byte*>(part->data()), part->size()});
  });
}

}  // namespace

// The thread reads and writes where the workers of this node may, and nowhere else: a state that
// only this thread could read would be of no use to them.
void NodeAgentState::on_thread(std::function<FramePtr()> work) {
  self_->spawn<caf::detached>([agent = caf::actor_cast<caf::actor>(self_), work = std::move(work),
                               node = options_.directories](caf::event_based_actor* self) {
    auto checkpoints = checkpoint_roots(node);
    store::PathRoots roots;
    roots.checkpoints.emplace();
    if (checkpoints) roots.checkpoints = *std::move(checkpoints);
    const store::ConfinedThread confined(roots);
    if (const FramePtr answer = work()) self->send(agent, StateAnswer{answer});
  });
}

void NodeAgentState::answer(const StateAnswer& answer) {
  self_->send(gateway_, Outbound{kHeadPeer, answer.frame});
}

void NodeAgentState::try_head_directory(wire::NodeWelcome::Reader r) {
  const std::string directory = r.getCheckpointDirectory().cStr(), probe = r.getProbe().cStr();
  if (directory.empty()) return;
  on_thread([=] {
    const DirectoryTrial trial = try_directory(directory, probe);
    return Msg<wire::DirectoryTried>::build({},
                                            [&](wire::DirectoryTried::Builder b) {
                                              b.setShared(trial.shared);
                                              b.setProblem(trial.problem);
                                            })
        .frame();
  });
}

void NodeAgentState::on_states(const Inbound& inbound) {
  // The answer has the envelope of the request.
  const Envelope envelope{.job = inbound.frame->envelope.job,
                          .generation = inbound.frame->envelope.generation,
                          .step = inbound.frame->envelope.step,
                          .sender = inbound.frame->envelope.sender};
  switch (inbound.frame->envelope.type) {
    case MessageType::kFindStates:
      (void)visit<wire::FindStates>(inbound, [&](auto r) {
        on_thread(
            [envelope, states = states_from(r.getStates())] { return find_all(envelope, states); });
      });
      break;
    case MessageType::kRemoveStates:
      (void)visit<wire::RemoveStates>(inbound, [&](auto r) {
        StateRemoval removal{
            states_from(r.getStates()), r.getPrefix().cStr(), r.getBelow(), {}, {}};
        for (const auto path : r.getKeep()) removal.keep.emplace_back(path.cStr());
        removal.rescue = options_.directories.rescue;
        on_thread(
            [envelope, removal = std::move(removal)] { return remove_all(envelope, removal); });
      });
      break;
    case MessageType::kReadState:
      (void)visit<wire::ReadState>(inbound, [&](auto r) {
        on_thread([envelope, wanted = PartWanted{r.getPath().cStr(), r.getFile(), r.getOffset(),
                                                 r.getBytes()}] { return read(envelope, wanted); });
      });
      break;
    default:
      break;
  }
}

}  // namespace es::actors
