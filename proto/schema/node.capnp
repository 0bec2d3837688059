@0xa7d0e96f1c2b4e02;
# Head <-> node agent: which devices a node has, and the worker processes that run on them.

using Cxx = import "/capnp/c++.capnp";
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
