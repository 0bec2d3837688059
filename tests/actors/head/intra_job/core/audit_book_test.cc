// Which worker audits which local step, and which device is wrong when the results differ.
#include "actors/head/intra_job/core/audit_book.h"

#include <doctest/doctest.h>

#include <set>

namespace es::actors::intra_job {
namespace {

using namespace protocol;

constexpr Digest kRight{1, 1}, kWrong{2, 2}, kOther{3, 3};
constexpr Incarnation kA{1}, kB{2}, kC{3};

std::vector<Member> members(std::uint32_t n, std::uint32_t max_p) {
  std::vector<Member> list;
  for (std::uint32_t i = 0; i < n; ++i)
    list.push_back({{i + 1}, {i * max_p / n, (i + 1) * max_p / n}, "", ""});
  return list;
}

Audited opinion(Version step, VirtualRank rank, const Digest& digest) {
  return {.stamp = {}, .step = step, .rank = rank, .digest = digest};
}

using Guilty = std::set<Incarnation>;
using Next = AuditBook::Next;

}  // namespace

TEST_SUITE("actors/head/intra_job/audit_book") {
  TEST_CASE("every N-th step is audited, from the first one on, and none when N is 0") {
    const auto three = members(3, 6);
    CHECK(plan_audit(0, 5, three).has_value());
    CHECK_FALSE(plan_audit(4, 5, three).has_value());
    CHECK(plan_audit(5, 5, three).has_value());
    CHECK_FALSE(plan_audit(5, 0, three).has_value());
  }

  TEST_CASE("audits take all ranks in turn, and each member audits every other one in the end") {
    const auto three = members(3, 6);
    std::set<VirtualRank> ranks;
    std::set<std::pair<Incarnation, Incarnation>> pairs;
    for (Version step = 0; step < 60; step += 5) {
      const AuditPlan plan = *plan_audit(step, 5, three);
      CHECK(three[plan.owner.value - 1].ranks.contains(plan.rank));
      CHECK(plan.auditor != plan.owner);
      ranks.insert(plan.rank);
      pairs.insert({plan.owner, plan.auditor});
    }
    CHECK(ranks.size() == 6);
    CHECK(pairs.size() == 6);
    CHECK(plan_audit(5, 5, members(1, 6)) == AuditPlan{1, kA, kA});
  }

  TEST_CASE("a device whose two results differ is wrong, whatever the others report") {
    CHECK(judge({{kA, {kWrong, kRight}}, {kB, {kRight, kRight}}}).guilty == Guilty{kA});
    CHECK(judge({{kA, {kWrong, kRight}}}).guilty == Guilty{kA});
    CHECK(judge({{kA, {kWrong, kOther}}, {kB, {kRight, kRight}}}).guilty == Guilty{kA});
    CHECK(judge({{kA, {kWrong, kRight}}, {kB, {kRight, kRight}}}).decided);
  }

  TEST_CASE("when every device repeats its result, the result of the majority is right") {
    const Verdict one = judge({{kA, {kRight, kRight}}, {kB, {kWrong, kWrong}}, {kC, {kRight}}});
    CHECK(one.guilty == Guilty{kB});
    CHECK(one.decided);
  }

  TEST_CASE(
      "two devices that each repeat a different result are both taken out, since nothing decides") {
    const Verdict both = judge({{kA, {kRight, kRight}}, {kB, {kWrong, kWrong}}});
    CHECK(both.guilty == Guilty{kA, kB});
    CHECK_FALSE(both.decided);
    CHECK_FALSE(judge({{kA, {kRight}}, {kB, {kWrong}}, {kC, {kOther}}}).decided);
  }

  TEST_CASE("equal results pass, and later ones about the same step change nothing") {
    AuditBook book(5);
    book.place(members(3, 6));
    CHECK(book.add(opinion(0, 0, kRight), kA) == Next::kWait);
    // This worker is neither owner nor auditor.
    CHECK(book.add(opinion(0, 0, kRight), kC) == Next::kWait);
    CHECK(book.add(opinion(0, 0, kRight), kB) == Next::kPassed);
    CHECK(book.add(opinion(0, 0, kWrong), kB) == Next::kWait);
    CHECK(book.add(opinion(5, 1, kRight), kA) == Next::kWait);
    CHECK(book.add(opinion(0, 0, kWrong), kB) == Next::kWait);  // A result of an older step.
    CHECK(book.add(opinion(5, 0, kWrong), kB) == Next::kWait);  // A result of another rank.
    CHECK(book.add(opinion(5, 1, kRight), kB) == Next::kPassed);
  }

  TEST_CASE("when results differ, all members compute the step, and then one device is named") {
    AuditBook book(5);
    book.place(members(3, 6));
    book.add(opinion(0, 0, kWrong), kA);
    CHECK(book.add(opinion(0, 0, kRight), kB) == Next::kAsk);
    CHECK(book.add(opinion(0, 0, kRight), kC) == Next::kWait);
    CHECK(book.add(opinion(0, 0, kWrong), kA) == Next::kWait);
    CHECK(book.add(opinion(0, 0, kRight), kB) == Next::kJudged);
    CHECK(book.verdict().guilty == Guilty{kA});
    CHECK(book.step() == 0);
  }

  TEST_CASE("a single member is compared with itself") {
    AuditBook book(1);
    book.place(members(1, 2));
    book.add(opinion(0, 0, kRight), kA);
    CHECK(book.add(opinion(0, 0, kRight), kA) == Next::kPassed);
    book.add(opinion(1, 1, kWrong), kA);
    CHECK(book.add(opinion(1, 1, kRight), kA) == Next::kAsk);
    CHECK(book.add(opinion(1, 1, kRight), kA) == Next::kJudged);
    CHECK(book.verdict().guilty == Guilty{kA});
  }

  TEST_CASE("a new placement drops the results under the old one") {
    AuditBook book(5);
    book.place(members(2, 6));
    book.add(opinion(0, 0, kWrong), kA);
    book.place(members(2, 6));
    CHECK(book.add(opinion(0, 0, kRight), kB) == Next::kWait);
    CHECK(book.add(opinion(0, 0, kRight), kA) == Next::kPassed);
  }
}

}  // namespace es::actors::intra_job
