@0xa7d0e96f1c2b4e02;
# Messages between the head and a node agent: the devices of a node, the worker processes that run
# on them, and the saved states on its disk.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("es::wire");

struct Device {
  # One device of a node. (node, type, index) identifies it in the whole cluster.
  node @0 :Text;
  type @1 :Text;
  # Device type, e.g. "cpu-avx512".
  index @2 :UInt32;
  # Counts from 0 among the devices of this type on this node.
}

struct DeviceMemory {
  # The memory that a worker on a device of this type may use, in bytes; 0: not known, or no limit.
  type @0 :Text;
  bytes @1 :UInt64;
  unsharedBytes @2 :UInt64;
  # Of memory that no other process shares (RLIMIT_DATA).
}

struct NodeHello {
  # Node agent -> head, when its link to the head is established for the first time, or again. The
  # head adds the devices to its inventory and answers NodeWelcome. A repeated message changes no
  # owner of a device of a known node.
  name @0 :Text;
  # Unique in the cluster. A second live node with the same name is refused.
  hostId @1 :Text;
  # Equal for two nodes exactly if their workers can share memory segments.
  devices @2 :List(Device);
  workers @3 :List(UInt64);
  # Incarnations of the worker processes that run on the node now. The head has unknown ones killed.
  unixMs @4 :UInt64;
  # The clock of the node, in milliseconds; 0 if it is not told.
  memory @5 :List(DeviceMemory);
  # Of each type of device, as far as it is known.
}

struct NodePlace {
  # Node agent -> head, before each NodeHello: where the node stands. A node that tells nothing stands
  # in a rack without a name, has no islands, and is no spot node.
  rack @0 :Text;
  # Nodes with the same rack are close to each other.
  islandDevices @1 :UInt32;
  # Devices of one type with the indices k * islandDevices to (k + 1) * islandDevices - 1 are linked
  # with each other; 0: all devices of the node are equally close.
  spot @2 :Bool;
  # The node may be taken away at any time, with a short notice (VacateNode, client.capnp).
}

struct NodeWelcome {
  # Head -> node agent: the answer to NodeHello.
  accepted @0 :Bool;
  reason @1 :Text;
  # Why the node was not accepted. The node agent stops with this text.
  checkpointDirectory @2 :Text;
  # Directory for the states of jobs that give up their devices. The node tests it and answers
  # DirectoryTried. If empty, there is no such directory, and the node does not answer.
  probe @3 :Text;
  # Content of a file that the head has just written into that directory.
}

struct DirectoryTried {
  # Node agent -> head: the result of the test of NodeWelcome.checkpointDirectory on this node.
  shared @0 :Bool;
  # True if the node sees the head's file, so both use the same disk.
  problem @1 :Text;
  # Why the node cannot write there; empty if it can.
}

struct SavedState {
  # A checkpoint of the envelope's job: its place and its identity.
  path @0 :Text;
  version @1 :UInt64;
  params @2 :Common.Digest;
  state @3 :Common.Digest;
}

struct FindStates {
  # Head -> node agent: which of these checkpoints can you read? Answer: StatesFound.
  states @0 :List(SavedState);
}

struct FoundState {
  state @0 :SavedState;
  sight @1 :UInt8;
  # es::actors::protocol::Sight
  error @2 :Text;
  # Why the state is not whole, as one line of text.
}

struct StatesFound {
  # Node agent -> head: the answer to FindStates.
  states @0 :List(FoundState);
}

struct RemoveStates {
  # Head -> node agent: remove these checkpoints of the envelope's job, if they are on this node.
  # Answer: StatesRemoved, if there was something to do.
  states @0 :List(SavedState);
  # A checkpoint with other digests at the same place is not removed.
  prefix @1 :Text;
  # If not empty, also remove every directory of this name followed by a number smaller than
  # `below`, except those in `keep`.
  below @2 :UInt64;
  keep @3 :List(Text);
}

struct StatesRemoved {
  # Node agent -> head: the answer to RemoveStates.
  removed @0 :List(Text);
  problems @1 :List(Text);
  # What could not be removed, one line of text for each.
}

struct ReadState {
  # Worker -> head -> node agent: send bytes of a saved state on that node's disk. Answer:
  # StatePart. The envelope's sender is the worker in all of these messages.
  node @0 :Text;
  path @1 :Text;
  file @2 :UInt8;
  # 0 to read and verify the whole state and return the sizes of its files. Otherwise the index of
  # the file in es::store::kCheckpointFiles plus 1.
  offset @3 :UInt64;
  bytes @4 :UInt32;
}

struct StatePart {
  # Node agent -> head -> worker, or head -> worker: the answer to ReadState.
  path @0 :Text;
  file @1 :UInt8;
  offset @2 :UInt64;
  data @3 :Data;
  sizes @4 :List(UInt64);
  # Sizes of the files in bytes; only in the answer to file 0.
  error @5 :Text;
  # If not empty, the message contains no data.
  gone @6 :Bool;
  # With an error: the node has read the state, and it is damaged or does not exist.
}

struct ReadWorkerLog {
  # Client -> head -> node agent: send a part of the log of a worker of the envelope's job, which may
  # have ended. Answer: WorkerLog, or Refusal of the head if there is no such node.
  worker @0 :UInt64;
  # Its incarnation.
  node @1 :Text;
  client @2 :Text;
  # Who has asked the head; a client leaves it empty.
  begin @3 :UInt64;
  # 0: the newest lines. Otherwise the lines from this place on, the `end` of an earlier answer.
}

struct WorkerLog {
  # Node agent -> head -> client: the answer to ReadWorkerLog, with its request number.
  text @0 :Text;
  # Whole lines, at most 256 KiB.
  error @1 :Text;
  # If not empty, there is no such log on this node.
  client @2 :Text;
  end @3 :UInt64;
  # The place behind the text, in bytes of the file.
  complete @4 :Bool;
  # The worker has ended, and there is nothing behind the text.
}

struct DrainNode {
  # Node agent -> head: this daemon is about to end. Give it no more work, and move its jobs
  # elsewhere. The daemon ends when its last worker has ended. It repeats this message with each
  # NodeHello.
}

struct StartWorker {
  # Head -> node agent: start one worker process for the envelope's job. The worker itself answers
  # (Hello, round.capnp), or the node agent answers WorkerExited if the process could not be
  # started. A repeated request with the same incarnation is ignored.
  incarnation @0 :UInt64;
  device @1 :Device;
  specToml @2 :Text;
  # Canonical text of the job spec.
}

struct KillWorker {
  # Head -> node agent: end this process now (SIGKILL) and report WorkerExited when it is reaped.
  # The node agent answers WorkerExited at once for an unknown incarnation, since no such process
  # exists.
  incarnation @0 :UInt64;
}

struct WorkerExited {
  # Node agent -> head: the process has ended and is reaped, so the memory of its device is free.
  # Only after this message may the device be given to another job.
  incarnation @0 :UInt64;
  exitCode @1 :Int32;
  # Exit status, or -1 if a signal ended the process.
  signal @2 :Int32;
  # Number of the signal, or 0.
  lastWords @3 :Text;
  # End of its output on stderr, for the job's log; at most 2 KiB.
  outOfMemory @4 :Bool;
  # The kernel ended it, because there was no memory for it.
}
