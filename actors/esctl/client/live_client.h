#pragma once
// LiveClient: a link to a head that is made again after it broke, for commands that ask again and
// again. Not thread-safe.
#include <functional>
#include <memory>

#include "actors/esctl/client/client.h"
#include "actors/esctl/client/options.h"

namespace es::actors::esctl {

class LiveClient {
 public:
  // `options` outlive the object. `interrupt` ends a wait for an answer.
  LiveClient(const HeadOptions& options, Interrupt interrupt)
      : options_(options), interrupt_(std::move(interrupt)) {}

  // Connects if there is no link, and calls `ask`. After an error the next call connects again.
  Status with(const std::function<Status(Client&)>& ask) {
    if (client_ == nullptr) {
      auto client = connect(options_, interrupt_);
      if (!client) return client.error();
      client_ = *std::move(client);
    }
    const Status asked = ask(*client_);
    if (!asked.ok()) client_.reset();
    return asked;
  }

 private:
  const HeadOptions& options_;
  const Interrupt interrupt_;
  std::unique_ptr<Client> client_;
};

}  // namespace es::actors::esctl
