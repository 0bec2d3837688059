#pragma once
// Requests of the HTTP service to the head: the templates of HttpState.
#include <caf/all.hpp>

#include <utility>

#include "actors/service/shell/http_actor.h"
#include "actors/service/shell/http_body.h"
#include "proto/text_of.h"

namespace es::actors::http {

template <class Schema, class Fill>
void HttpState::post(const JobId& job, Fill&& fill, std::chrono::milliseconds limit, Then then,
                     bool stream) {
  const std::uint64_t number = ++last_request_;
  waiting_[number] = {std::move(then), stream};
  const auto message = Msg<Schema>::build({.job = job, .request = number}, fill);
  self_->send(gateway_, Outbound{kHeadPeer, message.frame()});
  // A stream may be silent for as long as its job.
  if (!stream) self_->delayed_send(self_, limit, HttpExpired{number});
}

// Calls done(Answer::Reader), which returns the answer for the client.
template <class Answer, class Schema, class Fill, class Done>
void HttpState::ask(const Caller& caller, const JobId& job, Fill&& fill, Done&& done,
                    std::chrono::milliseconds limit) {
  post<Schema>(job, fill, limit,
               [this, caller, done = std::forward<Done>(done)](const FrameResult& frame) {
                 if (!frame) return finish(caller, error_response(frame.error()));
                 const auto message = Msg<Answer>::from_frame(*frame);
                 if (!message) return finish(caller, error_response(message.error()));
                 auto response = message->decode(done);
                 finish(caller, response ? *std::move(response) : error_response(response.error()));
               });
}

// A request whose answer is Done; its note is for people.
template <class Schema, class Fill>
void HttpState::command(const Caller& caller, const JobId& job, Fill&& fill,
                        std::chrono::milliseconds limit) {
  ask<wire::Done, Schema>(
      caller, job, fill, [](wire::Done::Reader r) { return done_response(line_of(r.getNote())); },
      limit);
}

}  // namespace es::actors::http
