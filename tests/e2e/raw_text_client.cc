// Sends texts to a head that esctl would not send: the bytes of a file, without a check.
//
//   raw_text_client ENDPOINT KEYS|- submit FILE
//   raw_text_client ENDPOINT KEYS|- claim FILE TYPE
//   raw_text_client ENDPOINT KEYS|- checkpoint FILE JOB
//
// The bytes of the file are the job spec, the name of the claim, or the directory of the
// checkpoint. Prints the id of the job or "done". An error is printed as by esctl, with its exit
// code.
#include <iostream>
#include <string>
#include <vector>

#include "actors/base/program/program.h"
#include "actors/esctl/client/client.h"
#include "proto/base/text_file.h"

namespace {

using namespace es;
using namespace es::actors;
using namespace es::actors::esctl;

constexpr std::size_t kBytesMax = std::size_t{60} << 20;

kj::StringPtr raw(const std::string& text) {
  return {text.c_str(), text.size()};
}

Result<std::string> send(Client& client, const std::vector<std::string>& words,
                         const std::string& text) {
  if (words[2] == "submit") {
    const auto accepted = client.ask<wire::JobAccepted, wire::SubmitJob>(
        {}, [&](wire::SubmitJob::Builder b) { b.setSpecToml(raw(text)); });
    if (!accepted) return accepted.error();
    return std::string(accepted->view()->getJob().cStr());
  }
  const bool is_claim = words[2] == "claim";
  const auto done =
      is_claim ? client.ask<wire::Done, wire::ClaimDevices>({},
                                                            [&](wire::ClaimDevices::Builder b) {
                                                              b.setName(raw(text));
                                                              b.setDeviceType(raw(words[4]));
                                                              b.setCount(1);
                                                            })
               : client.ask<wire::Done, wire::CheckpointJob>(
                     words[4], [&](wire::CheckpointJob::Builder b) { b.setDirectory(raw(text)); });
  if (!done) return done.error();
  return std::string("done");
}

Result<std::string> run(const std::vector<std::string>& words) {
  const Result<std::string> text = read_text_file(words[3], kBytesMax);
  if (!text) return text.error();
  HeadAddress address{.endpoint = words[0], .keys = std::nullopt};
  if (words[1] != "-") {
    Result<ClusterKeys> keys = read_cluster_keys(words[1]);
    if (!keys) return keys.error();
    address.keys = *std::move(keys);
  }
  auto client = Client::connect(std::move(address), {});
  if (!client) return client.error();
  return send(**client, words, *text);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("raw_text_client", [&] {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 4) return exit_code(ErrorKind::kUsage);
    const Result<std::string> answer = run(words);
    if (answer)
      std::cout << *answer << std::endl;
    else
      std::cerr << "raw_text_client: " << answer.error().message << std::endl;
    return answer ? 0 : exit_code(answer.error().kind);
  });
}
