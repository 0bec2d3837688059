@0xd3b1a4a6f0c5e701;
# What precedes every message on a wire: who it is for, and which placement it belongs to.
#
# On ZeroMQ a message is two frames: an Envelope, then the body (the words of one struct of another
# file of this folder, named by `type`). Inside a process the same fields travel as es::Head beside
# the shared body words (proto/msg.h), so nothing is encoded twice.
#
# A receiver refuses, and counts, a message whose envelope it cannot read, whose protocol differs
# from its own, whose type it does not know, or whose body is larger than its limit. It never
# crashes on one.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct Envelope {
  protocol @0 :UInt16;
  # Version of this vocabulary. Different versions do not talk to each other.

  type @1 :UInt16;
  # es::MessageType (proto/message_type.h). Numbers are never reused.

  job @2 :Text;
  # Job id, empty for messages that concern no job.

  generation @3 :UInt64;
  # Placement counter of the job. A step message of an older generation is stale: dropped.

  step @4 :UInt64;
  # Version of the parameters that a step message belongs to; 0 where it has no meaning.

  sender @5 :UInt64;
  # Incarnation of the sending worker; 0 when the sender is not a worker.

  request @6 :UInt64;
  # Chosen by a client that waits for an answer; the answer carries the same number. 0 = none.
}
