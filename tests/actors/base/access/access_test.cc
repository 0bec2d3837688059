// Who may do what: the decisions that both doors of a head share, and the lines of the audit log.
#include <doctest/doctest.h>

#include <array>

#include "actors/base/access/core/audit.h"
#include "actors/base/access/core/requests.h"

namespace es::actors::access {
namespace {

constexpr std::array kAllRoles{Role::kView, Role::kSubmit, Role::kOperate, Role::kAdmin};

TEST_SUITE("access") {
  TEST_CASE("every message of the protocol is either a client's or a node's") {
    const KeyOwner node{"n", {}, true};
    for (const Role role : kAllRoles) {
      const KeyOwner client{"c", Identity{"c", role, ""}, false};
      for (int number = 0; number < static_cast<int>(kFirstLocal); ++number) {
        CAPTURE(number);
        const auto type = static_cast<MessageType>(number);
        const RequestKind* kind = request_kind(type);
        CHECK(check_message(node, type).ok() == (kind == nullptr));
        CHECK(check_message(client, type).ok() == (kind != nullptr && kind->role <= role));
      }
    }
  }

  TEST_CASE("a role may do what the roles before it may do, and a refusal names both") {
    for (const RequestKind& kind : request_kinds())
      for (const Role role : kAllRoles) {
        CAPTURE(kind.name);
        const Status status = check_request({"alice", role, ""}, kind.type);
        CHECK(status.ok() == (role >= kind.role));
        if (status.ok()) continue;
        CHECK(status.error().kind == ErrorKind::kRefused);
        CHECK(status.error().message == std::string("needs the role ") + role_name(kind.role) +
                                            "; alice has the role " + role_name(role));
      }
  }

  TEST_CASE("whatever changes or slows down something needs a role beyond view") {
    for (const RequestKind& kind : request_kinds()) {
      CAPTURE(kind.name);
      const bool reads =
          kind.type == MessageType::kListJobs || kind.type == MessageType::kListNodes ||
          kind.type == MessageType::kDescribeJob || kind.type == MessageType::kFollowJob ||
          kind.type == MessageType::kReadLedger || kind.type == MessageType::kListPlans ||
          kind.type == MessageType::kReadWorkerLog;
      CHECK(kind.changes() != reads);
    }
  }

  TEST_CASE("a job of another tenant is answered like one that does not exist") {
    const Identity vision{"v", Role::kAdmin, "vision"}, all{"a", Role::kView, ""};
    CHECK(check_job(vision, "j", "vision").ok());
    CHECK(check_job(all, "j", "speech").ok());
    for (const char* tenant : {"speech", ""}) {
      const Status status = check_job(vision, "j", tenant);
      CHECK(status.error().kind == ErrorKind::kNotFound);
      CHECK(status.error().message == no_such_job("j").message);
    }
  }

  TEST_CASE("a client with a tenant submits for this tenant only") {
    const Identity vision{"v", Role::kSubmit, "vision"}, all{"a", Role::kSubmit, ""};
    CHECK(*tenant_for(vision, "") == "vision");
    CHECK(*tenant_for(vision, "vision") == "vision");
    CHECK(tenant_for(vision, "speech").error().kind == ErrorKind::kRefused);
    CHECK(tenant_for(all, "speech").value() == "speech");
    CHECK(tenant_for(all, "").value().empty());
  }

  TEST_CASE("a line of the audit log is one line of JSON, whatever a client has sent") {
    const AuditEntry entry{.unix_ms = 5,
                           .who = "alice",
                           .role = "submit",
                           .from = "10.0.0.9",
                           .method = "CancelJob",
                           .path = "a\n\x1b[2J\xff",
                           .status = {}};
    CHECK(audit_line(entry) ==
          R"({"unix_ms":5,"who":"alice","role":"submit","from":"10.0.0.9","method":"CancelJob",)"
          R"("path":"a\n\u001b[2J\ufffd","status":null})"
          "\n");
  }

  TEST_CASE("every open request has one line, with its answer or without") {
    OpenRequests open;
    const auto entry = [](const char* path) {
      AuditEntry e;
      e.path = path;
      return e;
    };
    CHECK_FALSE(open.begin("client/1", 1, entry("a")).has_value());
    CHECK_FALSE(open.begin("client/1", 2, entry("b")).has_value());
    CHECK_FALSE(open.begin("client/10", 1, entry("c")).has_value());
    CHECK(open.begin("client/1", 1, entry("d"))->path == "a");
    CHECK(open.end("client/1", 1)->path == "d");
    CHECK_FALSE(open.end("client/1", 1).has_value());
    const auto left = open.end_all("client/1");
    REQUIRE(left.size() == 1);
    CHECK(left[0].path == "b");
    CHECK(open.end("client/10", 1)->path == "c");
  }

  TEST_CASE("the audit log shows which keys have come, changed and gone") {
    const KeyOwner alice{"alice", Identity{"alice", Role::kSubmit, "vision"}, false};
    const KeyOwner boss{"alice", Identity{"alice", Role::kAdmin, ""}, false};
    const KeyOwner node{"second", {}, true}, old{"old", Identity{"old", Role::kOperate, ""}, true};
    const auto changes = key_changes({{"k1", alice}, {"k2", node}}, {{"k1", boss}, {"k3", old}}, 9);
    REQUIRE(changes.size() == 3);
    CHECK(changes[0].method == "RevokeKey");
    CHECK(changes[0].path == "second node");
    CHECK(changes[1].method == "ChangeKey");
    CHECK(changes[1].path == "alice admin");
    CHECK(changes[2].method == "AuthorizeKey");
    CHECK(changes[2].path == "old operate node");
    CHECK(key_changes({{"k1", alice}}, {{"k1", alice}}, 9).empty());
  }
}

}  // namespace
}  // namespace es::actors::access
