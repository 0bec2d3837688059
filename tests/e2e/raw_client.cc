// A client that sends requests which esctl would not send, with paths and texts as they are given
// here.
//
//   raw_client HEAD KEYS submit FILE [FROM]    SubmitJob with the bytes of the file
//   raw_client HEAD KEYS checkpoint JOB DIR
//   raw_client HEAD KEYS shutdown
//   raw_client HEAD KEYS many FILE COUNT       COUNT such jobs
//   raw_client HEAD KEYS crowd COUNT           COUNT clients that list the jobs at the same time;
//                                              prints the seconds until all have their answers
//
// HEAD is an endpoint, and KEYS is a key directory or "-". "%00" in FROM and DIR stands for a NUL.
// Prints the id of the job. An error is printed on stderr, and its exit code ends the program.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "actors/esctl/client/client.h"

namespace {

using namespace es;
using actors::esctl::Client;

std::string with_nuls(std::string text) {
  for (std::size_t at; (at = text.find("%00")) != std::string::npos;) text.replace(at, 3, 1, '\0');
  return text;
}

// With the bytes after a NUL, which a C string would not contain.
kj::StringPtr raw(const std::string& text) {
  return {text.c_str(), text.size()};
}

Status submit(Client& client, const std::string& file, const std::string& from) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto accepted =
      client.ask<wire::JobAccepted, wire::SubmitJob>({}, [&](wire::SubmitJob::Builder b) {
        b.setSpecToml(raw(text));
        b.setFromCheckpoint(raw(from));
      });
  if (!accepted) return accepted.error();
  std::cout << accepted->view()->getJob().cStr() << std::endl;
  return {};
}

Result<std::unique_ptr<Client>> connect(const std::vector<std::string>& words) {
  actors::esctl::HeadAddress address{words.at(0), std::nullopt, true};
  if (words.at(1) != "-") {
    auto keys = actors::read_cluster_keys(words.at(1));
    if (!keys) return keys.error();
    address.keys = *std::move(keys);
  }
  return Client::connect(std::move(address), {});
}

Status list_jobs(Client& client) {
  const auto list = client.ask<wire::JobList, wire::ListJobs>({}, [](wire::ListJobs::Builder) {});
  return list ? Status() : Status(list.error());
}

// All clients are connected before the first one asks.
Status crowd(const std::vector<std::string>& words, std::size_t count) {
  std::vector<std::unique_ptr<Client>> clients;
  while (clients.size() < count) {
    auto client = connect(words);
    if (!client) return client.error();
    clients.push_back(*std::move(client));
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::future<Status>> answers;
  for (const auto& client : clients)
    answers.push_back(std::async(std::launch::async, [&] { return list_jobs(*client); }));
  for (std::future<Status>& answer : answers) ES_RETURN_IF_ERROR(answer.get());
  std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
            << std::endl;
  return {};
}

template <class Request>
Status ask(Client& client, const std::string& job, auto&& fill, auto* answer) {
  using Answer = std::remove_pointer_t<decltype(answer)>;
  const auto done = client.ask<Answer, Request>(job, fill);
  return done ? Status() : Status(done.error());
}

Status run(const std::vector<std::string>& words) {
  const std::string& command = words.at(2);
  if (command == "crowd") return crowd(words, std::stoul(words.at(3)));
  auto client = connect(words);
  if (!client) return client.error();
  if (command == "many") {
    for (std::size_t i = std::stoul(words.at(4)); i > 0; --i)
      ES_RETURN_IF_ERROR(submit(**client, words.at(3), ""));
    return {};
  }
  if (command == "submit")
    return submit(**client, words.at(3), words.size() > 4 ? with_nuls(words.at(4)) : "");
  if (command == "checkpoint") {
    const std::string directory = with_nuls(words.at(4));
    return ask<wire::CheckpointJob>(
        **client, words.at(3),
        [&](wire::CheckpointJob::Builder b) { b.setDirectory(raw(directory)); },
        static_cast<wire::CheckpointTaken*>(nullptr));
  }
  return ask<wire::Shutdown>(
      **client, {}, [](wire::Shutdown::Builder) {}, static_cast<wire::Done*>(nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::cerr << status.error().message << std::endl;
  return exit_code(status.error().kind);
}
