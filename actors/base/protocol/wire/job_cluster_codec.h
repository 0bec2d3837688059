#pragma once
// The messages between a job and the cluster scheduler, and between a job and its companion, from
// plain values (job_cluster.h, job_plans.h) to Cap'n Proto (cluster.capnp) and back. These messages
// never leave the process, so nothing is checked while they are read. Pure functions; thread-safe.
#include <cstdint>
#include <variant>

#include "actors/base/protocol/core/job_cluster.h"
#include "actors/base/protocol/core/job_plans.h"
#include "proto/messages.h"

namespace es::actors::protocol {

// Between a job and the cluster scheduler. The envelope of what a job sends names the job.
Msg<wire::Allocation> message_of(const Allocation& value);
Msg<wire::DemandRefused> message_of(const DemandRefused& value);
Msg<wire::Demand> message_of(const JobId& job, const Demand& value);
Msg<wire::Demand> message_of(const JobId& job, const JobRefusals& value);
Msg<wire::Demand> message_of(const JobId& job, const BoundToType& value);
Msg<wire::DeviceReleased> message_of(const JobId& job, const DeviceReleased& value);
Msg<wire::DeviceSuspected> message_of(const JobId& job, const DeviceSuspected& value);
Msg<wire::DeviceFailed> message_of(const JobId& job, const DeviceFailed& value);
Msg<wire::DevicesWork> message_of(const JobId& job, const DevicesWork& value);
Msg<wire::DevicesKept> message_of(const JobId& job, const DevicesKept& value);
Msg<wire::JobEnded> message_of(const JobId& job, const JobEnded& value);

Allocation value_of(wire::Allocation::Reader r);
DemandRefused value_of(wire::DemandRefused::Reader r);
// One message carries either of the three.
std::variant<Demand, JobRefusals, BoundToType> value_of(wire::Demand::Reader r);
DeviceReleased value_of(wire::DeviceReleased::Reader r);
DeviceSuspected value_of(wire::DeviceSuspected::Reader r);
DeviceFailed value_of(wire::DeviceFailed::Reader r);
DevicesWork value_of(wire::DevicesWork::Reader r);
DevicesKept value_of(wire::DevicesKept::Reader r);

// Between a job and its companion.
Msg<wire::PlanQuery> message_of(const JobId& job, const PlanQuery& value);
Msg<wire::PlanListQuery> message_of(const PlanListQuery& value, std::uint64_t request);
Msg<wire::CapabilityReport> message_of(const JobId& job, const CapabilityReport& value);
Msg<wire::PlanAnswer> message_of(const PlanAnswer& value);

PlanQuery value_of(wire::PlanQuery::Reader r);
PlanListQuery value_of(wire::PlanListQuery::Reader r);
CapabilityReport value_of(wire::CapabilityReport::Reader r);
PlanAnswer value_of(wire::PlanAnswer::Reader r);

}  // namespace es::actors::protocol
