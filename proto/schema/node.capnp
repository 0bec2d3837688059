@0xa7d0e96f1c2b4e02;
# Head <-> node agent: which devices a node has, and the worker processes that run on them.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("es::wire");

struct Device {
  # One device of a node. (node, type, index) names it in the whole cluster.
  node @0 :Text;
  type @1 :Text;
  # Device type, e.g. "cpu-avx512".
  index @2 :UInt32;
  # From 0 among the devices of this type on this node.
}

struct NodeHello {
  # Node agent -> head, when its link comes up (first time, or again after the head restarted). The
  # head adds the devices to its inventory and answers NodeWelcome. Sent again it replaces nothing:
  # a known node keeps its devices' owners.
  name @0 :Text;
  # Unique in the cluster; a second live node of the same name is refused.
  hostId @1 :Text;
  # Equal for two nodes exactly when their workers can share memory segments.
  devices @2 :List(Device);
  workers @3 :List(UInt64);
  # Incarnations of the worker processes that run there now; the head has unknown ones killed.
}

struct NodeWelcome {
  # Head -> node agent: the answer to NodeHello.
  accepted @0 :Bool;
  reason @1 :Text;
  # Why not accepted; the node agent then stops with this text.
  checkpointDirectory @2 :Text;
  # Where jobs that give up their devices are saved; the node tries it and answers DirectoryTried.
  # Empty: there is none, and nothing is answered.
  probe @3 :Text;
  # What a file that the head has just written there holds (store/checkpoint/probe.h).
}

struct DirectoryTried {
  # Node agent -> head: what NodeWelcome.checkpointDirectory is here.
  shared @0 :Bool;
  # The head's file is there: the two see the same disk.
  problem @1 :Text;
  # Why nothing can be written there; empty: something was.
}

struct SavedState {
  # A checkpoint of the envelope's job: where it lies and what it is of.
  path @0 :Text;
  version @1 :UInt64;
  params @2 :Common.Digest;
  state @3 :Common.Digest;
}

struct FindStates {
  # Head -> node agent: which of these can you read? Answer: StatesFound.
  states @0 :List(SavedState);
}

struct FoundState {
  state @0 :SavedState;
  sight @1 :UInt8;
  # es::actors::protocol::Sight
  error @2 :Text;
  # Why not whole; one line for a person.
}

struct StatesFound {
  # Node agent -> head.
  states @0 :List(FoundState);
}

struct RemoveStates {
  # Head -> node agent: these checkpoints of the envelope's job are not wanted any more, as far as
  # they lie here. Answer: StatesRemoved, when there was anything to do.
  states @0 :List(SavedState);
  # What lies there now with other digests stays.
  prefix @1 :Text;
  # Not empty: besides, every directory of this name with a number below `below` after it ...
  below @2 :UInt64;
  keep @3 :List(Text);
  # ... but these.
}

struct StatesRemoved {
  # Node agent -> head.
  removed @0 :List(Text);
  problems @1 :List(Text);
  # What could not be removed, one line for a person each.
}

struct ReadState {
  # Worker -> head -> node agent: bytes of a saved state that lies on that node's disk. Answer:
  # StatePart. The envelope's sender is the worker, in all of these messages.
  node @0 :Text;
  path @1 :Text;
  file @2 :UInt8;
  # 0: none, but read and verify it all, and say how large its files are; else the number of the
  # file (es::store::kCheckpointFiles) plus 1.
  offset @3 :UInt64;
  bytes @4 :UInt32;
}

struct StatePart {
  # Node agent -> head -> worker, or head -> worker.
  path @0 :Text;
  file @1 :UInt8;
  offset @2 :UInt64;
  data @3 :Data;
  sizes @4 :List(UInt64);
  # Answer to file 0.
  error @5 :Text;
  # Not empty: there is nothing else in this message.
  gone @6 :Bool;
  # With an error: the node has read it, and it is damaged or is not there.
}

struct DrainNode {
  # Node agent -> head: this daemon is about to end. Give it no more work and take the jobs that run
  # here elsewhere; the daemon ends when its last worker has. Said again with each NodeHello.
}

struct StartWorker {
  # Head -> node agent: start one worker process for the job of the envelope. Answered by the worker
  # itself (Hello, round.capnp), or by WorkerExited when it could not be started. The same
  # incarnation again is ignored.
  incarnation @0 :UInt64;
  device @1 :Device;
  specToml @2 :Text;
  # Canonical job spec.
}

struct KillWorker {
  # Head -> node agent: end this process now (SIGKILL) and report WorkerExited once it is reaped. An
  # unknown incarnation is answered WorkerExited at once: it is not there any more.
  incarnation @0 :UInt64;
}

struct WorkerExited {
  # Node agent -> head: the process is gone and reaped, so its device's memory is free. The only
  # message after which a device may be handed on.
  incarnation @0 :UInt64;
  exitCode @1 :Int32;
  # Exit status, or -1 when a signal ended it.
  signal @2 :Int32;
  # The signal, or 0.
  lastWords @3 :Text;
  # End of what it wrote to stderr, for the job's log; at most 2 KiB.
}
