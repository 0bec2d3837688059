#pragma once
// Ledger lines of the head as plain values.
#include <bit>

#include "proto/messages.h"
#include "store/ledger/ledger_file.h"

namespace es::actors {

// Throws kj::Exception on malformed content: call it inside Msg::decode.
inline store::LedgerLine ledger_line_from(wire::LedgerLine::Reader r) {
  store::LedgerLine line{
      r.getVersion(), {}, Digest{r.getParams().getHigh(), r.getParams().getLow()}};
  for (const std::uint32_t bits : r.getLossBits())
    line.losses.push_back(std::bit_cast<float>(bits));
  return line;
}

}  // namespace es::actors
