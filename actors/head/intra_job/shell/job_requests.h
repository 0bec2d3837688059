#pragma once
// JobRequests are the requests of clients about one job that are answered later: commands, which
// its core answers when they are done, and lists of plans, which the companion makes. One owner.
#include <cstdint>
#include <map>
#include <optional>

#include "actors/head/intra_job/core/job_events.h"
#include "actors/head/intra_job/shell/client_answers.h"

namespace es::actors {

class JobRequests {
 public:
  // `numbers` outlives this object.
  JobRequests(ClientAnswers answers, RequestNumbers& numbers)
      : answers_(std::move(answers)), numbers_(numbers) {}

  // Reads a command (client_commands.h) and remembers who has asked. nullopt: it is refused.
  // REQUIRES: is_command().
  std::optional<intra_job::Event> take_command(const Inbound& inbound);
  // The core has answered a command. Nothing happens if no client had asked, or if its client was
  // refused meanwhile.
  void answer(const intra_job::CommandDone& done);
  void answer(const intra_job::CheckpointDone& done);
  // The disk has failed. The open commands were accepted before, and cannot be taken back.
  void refuse_commands(const Error& reason);

  // Remembers who wants a list of plans. Returns the number under which the companion answers.
  std::uint64_t take_plan_list(const Inbound& inbound);
  // Who wanted the list with this number; once. nullopt: no client.
  std::optional<ClientRequest> plan_list_of(std::uint64_t number);

 private:
  using Open = std::map<std::uint64_t, ClientRequest>;
  static std::optional<ClientRequest> take(Open& open, std::uint64_t number);

  ClientAnswers answers_;
  RequestNumbers& numbers_;
  Open commands_, plan_lists_;
};

}  // namespace es::actors
