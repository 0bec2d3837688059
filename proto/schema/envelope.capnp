@0xd3b1a4a6f0c5e701;
# The envelope precedes every message on a wire. It names the type of the message, its job, and the
# placement to which it belongs.
#
# On ZeroMQ a message has two frames: an Envelope and the body. The body is the words of one struct
# of another file of this folder, which `type` names. Inside a process the same fields travel as
# es::Envelope beside the shared words of the body (proto/msg.h), so no message is encoded twice.
#
# A receiver refuses and counts a message whose envelope it cannot read, whose protocol number
# differs from its own, whose type it does not know, or whose body is larger than its limit. Such a
# message never ends the receiver.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct Envelope {
  protocol @0 :UInt16;
  # Version of the protocol. Processes with different versions do not communicate.

  type @1 :UInt16;
  # es::MessageType (proto/message_type.h). Numbers are never reused.

  job @2 :Text;
  # Job id; empty for messages that concern no job.

  generation @3 :UInt64;
  # Counts the placements of the job. A receiver drops a step message of an older generation.

  step @4 :UInt64;
  # Version of the parameters to which a step message belongs; 0 where it has no meaning.

  sender @5 :UInt64;
  # Incarnation of the sending worker; 0 if the sender is not a worker.

  request @6 :UInt64;
  # Number chosen by a client that waits for an answer, which carries the same number; 0 for none.
}
