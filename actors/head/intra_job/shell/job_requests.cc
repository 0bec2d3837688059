#include "actors/head/intra_job/shell/job_requests.h"

#include <utility>
#include <variant>

#include "actors/head/intra_job/shell/client_commands.h"

namespace es::actors {

std::optional<intra_job::Event> JobRequests::take_command(const Inbound& inbound) {
  auto command = command_of(inbound);
  if (!command) {
    answers_.refuse(request_of(inbound), command.error());
    return {};
  }
  const std::uint64_t number = numbers_.next();
  commands_[number] = request_of(inbound);
  return std::visit(
      [&](auto& c) {
        c.request = number;
        return intra_job::Event(std::move(c));
      },
      *command);
}

void JobRequests::answer(const intra_job::CommandDone& done) {
  const auto client = take(commands_, done.request);
  if (!client) return;
  if (!done.status.ok()) return answers_.refuse(*client, done.status.error());
  answers_.answer<wire::Done>(*client, [&](wire::Done::Builder b) { b.setNote(done.note); });
}

void JobRequests::answer(const intra_job::CheckpointDone& done) {
  const auto client = take(commands_, done.request);
  if (!client) return;
  if (!done.result) return answers_.refuse(*client, done.result.error());
  answers_.answer<wire::CheckpointTaken>(*client, [&](wire::CheckpointTaken::Builder b) {
    b.setPath(done.result->checkpoint.path);
    b.setVersion(done.result->checkpoint.version);
    b.setParamsDigest(done.result->digests.params.hex());
    b.setStateDigest(done.result->digests.state.hex());
    b.setFirstError(done.result->first_error);
  });
}

void JobRequests::refuse_commands(const Error& reason) {
  const Error error = failure(
      reason.message + "; the request is performed when the state directory can be written again");
  for (const auto& [number, client] : commands_) answers_.refuse(client, error);
  commands_.clear();
}

std::uint64_t JobRequests::take_plan_list(const Inbound& inbound) {
  const std::uint64_t number = numbers_.next();
  plan_lists_[number] = request_of(inbound);
  return number;
}

std::optional<ClientRequest> JobRequests::plan_list_of(std::uint64_t number) {
  return take(plan_lists_, number);
}

std::optional<ClientRequest> JobRequests::take(Open& open, std::uint64_t number) {
  const auto at = open.find(number);
  if (at == open.end()) return {};
  ClientRequest client = std::move(at->second);
  open.erase(at);
  return client;
}

}  // namespace es::actors
