@0x9d3a6f0be1c74d2a;
# Traces of running jobs: what every process of a job did in some global steps, and when. Times are
# nanoseconds of the monotonic clock of the machine on which they were read. docs/DEBUGGING.md shows
# how a trace is used.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("es::wire");

struct TraceJob {
  # Client -> head, about the envelope's job. Answer: a stream of TracePart that ends with TraceEnd,
  # or Refusal.
  steps @0 :UInt32;
  # Number of global steps.
  allOperators @1 :Bool;
  # Trace operators on GPUs too. A GPU then waits for each operator, so its steps take longer.
  peak @2 :Bool;
  # Measure the speed of the devices before the trace (TraceProcess.peakGflops).
  wait @3 :Bool;
  # If the job does not train, begin when it does.
  stop @4 :UInt64;
  # > 0: no new trace. The one that this client has asked for by the request with this number ends
  # with the steps that it has. Answer: Done, also if there is none.
}

struct TraceWorker {
  # Head -> worker, several times for one trace, each with what the head knows by now. Every message
  # but `stop` is answered by TraceAnswer. A message of a trace that is over changes nothing.
  trace @0 :UInt64;
  # Number of the trace, > 0. A trace with a greater number replaces an earlier one.
  sentNs @1 :UInt64;
  # The clock of the head.
  firstStep @2 :UInt64;
  endStep @3 :UInt64;
  # The steps in [firstStep, endStep) are traced; endStep is 0 while the head does not know them.
  stop @4 :Bool;
  # The trace is over.
  allOperators @5 :Bool;
  peak @6 :Bool;
}

struct TraceAnswer {
  # Worker -> head: the answer to TraceWorker, from which the head learns how far the two clocks are
  # apart; and once without a request, when the worker begins its first traced step.
  trace @0 :UInt64;
  sentNs @1 :UInt64;
  # As in the request; 0 without a request.
  receivedNs @2 :UInt64;
  answeredNs @3 :UInt64;
  # The clock of the worker.
  began @4 :Bool;
  # All spans from step `step` on are recorded.
  step @5 :UInt64;
}

struct TracePart {
  # Worker -> head -> client: what one process has recorded since its last part. The head passes it
  # on as it is; the envelope's sender is the worker. The head sends its own part, with sender 0.
  trace @0 :UInt64;
  process @1 :TraceProcess;
  # Only in the first part of a process.
  spans @2 :List(TraceSpan);
  dropped @3 :UInt64;
  # Number of spans of this process that were not recorded, because it had recorded as many as it
  # may.
  last @4 :Bool;
}

struct TraceSpan {
  beginNs @0 :UInt64;
  durationNs @1 :UInt64;
  step @2 :UInt64;
  kind @3 :UInt16;
  lane @4 :UInt16;
  number @5 :UInt32;
  peer @6 :UInt64;
  bytes @7 :UInt64;
  # actors/base/tracing/core/span.h explains the fields.
}

struct TraceProcess {
  pid @0 :UInt64;
  operators @1 :List(TraceOperator);
  # Operators of a local step, in the order of their numbers; empty if they are not traced.
  memory @2 :List(TraceMemory);
  peakGflops @3 :Float64;
  # Largest number of fp32 operations per nanosecond of its threads together; 0 if it was not
  # measured.
}

struct TraceOperator {
  node @0 :Text;
  # Module path.
  kind @1 :Text;
  backward @2 :Bool;
  flops @3 :Float64;
  # Multiplications and additions of its dense products.
  bytes @4 :Float64;
  # Bytes of the tensors and parameters that it reads or writes.
}

struct TraceMemory {
  name @0 :Text;
  lifetime @1 :Text;
  bytes @2 :UInt64;
}

struct TraceEnd {
  # Head -> client: the end of a trace.
  firstStep @0 :UInt64;
  endStep @1 :UInt64;
  # The traced steps; equal if there are none.
  zeroNs @2 :UInt64;
  # The clock of the head when the trace was requested.
  zeroUnixMs @3 :UInt64;
  # The date at that moment.
  workers @4 :List(TracedWorker);
  note @5 :Text;
  # Why the trace has fewer steps than requested; empty if it has all.
}

struct TracedWorker {
  incarnation @0 :UInt64;
  node @1 :Text;
  deviceType @2 :Text;
  deviceIndex @3 :UInt32;
  sameClock @4 :Bool;
  # The worker and the head read the same clock, so the next two fields are 0.
  aheadNs @5 :Int64;
  # By how much the clock of the worker is ahead of the head's.
  errorNs @6 :UInt64;
  # Largest error of aheadNs.
  missing @7 :Text;
  # Why spans of this worker are missing, for example because it has died; empty if none are.
}
